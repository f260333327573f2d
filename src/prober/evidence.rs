//! Gets what a verdict needs: the kubeconfig and the Machines from the seed, leases and Nodes from
//! the shoot.

use std::{sync::Arc, time::Duration};

use kube::{
    api::{ListParams, Request as Path},
    core::{ObjectList, Resource},
};
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use super::{
    secrets::{Named, SecretError, Secrets},
    watch::Request,
};
use crate::{
    gardener::Machine,
    runtime::seed::{CallError, Seed},
    shoot::{self, ConnectError, Consistency, LeaseRead, Node, ReadError, Shoot},
};

/// The kind of a list of Machines.
const MACHINE_LIST: &str = "MachineList";
/// So many clusters are read for the first time at once: each takes a new connection and the largest
/// of its lists, and at the start a thousand want them in the same moment.
const FIRST_READS: usize = 32;
/// So many lists of Nodes are read at once: one can have 128 MiB, and a node takes 15 to 20 KB.
const NODE_LISTS: usize = 16;
/// And so many of shoots that do not finish theirs, or slowly. They may use up all their time, in
/// which nobody else could read: hence a room of their own.
const SLOW_NODE_LISTS: usize = 4;
/// Whose list takes longer is slow: one of 5,000 nodes takes a second or two.
const SLOW: Duration = Duration::from_secs(5);

/// Why there is no evidence. Each message names the object and what to do.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// There is no kubeconfig, or none that can be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No client can be made from the kubeconfig.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The shoot could not be read.
    #[error("{error}{more}")]
    Shoot {
        /// What failed.
        error: ReadError,
        /// What else is known about it, as the rest of the sentence; empty if nothing.
        more: String,
    },
    /// Too many others are reading their Nodes.
    #[error(
        "so many clusters are reading lists of Nodes that its turn did not come within {0:?}; it is \
         tried again"
    )]
    NoRoom(Duration),
    /// Even a consistent list was older than one seen before.
    #[error("the API server answers with lists of leases that are older than ones seen before")]
    NoLeases,
    /// The seed could not be read.
    #[error("{what} could not be read from the seed: {message}")]
    Seed {
        /// What was asked for.
        what: String,
        /// What came back.
        message: String,
    },
}

impl EvidenceError {
    /// The reason, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Secret(error) => error.reason(),
            Self::Connect(error) => error.reason(),
            Self::Shoot { error, .. } => error.reason(),
            Self::NoRoom(_) => "Crowded",
            Self::NoLeases => "LeasesOutdated",
            Self::Seed { .. } => "SeedUnreadable",
        }
    }

    /// For how long the shoot asked to be left alone, if it did.
    pub fn throttled(&self) -> Option<Option<Duration>> {
        match self {
            Self::Shoot {
                error: ReadError::TooManyRequests { retry_after, .. },
                ..
            } => Some(*retry_after),
            _ => None,
        }
    }

    /// Whether the API server did not answer, or not as one that is up does.
    pub fn is_silence(&self) -> bool {
        let Self::Shoot { error, .. } = self else {
            return false;
        };
        matches!(
            error,
            ReadError::Unreachable { .. } | ReadError::Timeout { .. } | ReadError::Server { .. }
        )
    }

    /// Continues the message, if the shoot could not be read.
    pub fn add(&mut self, known: &str) {
        if let Self::Shoot { more, .. } = self {
            more.push_str(known);
        }
    }

    /// Whether a new connection may lead further than one that was kept.
    fn of_connection(&self) -> bool {
        matches!(
            self,
            Self::Shoot {
                error: ReadError::Unreachable { .. },
                ..
            }
        )
    }

    /// Whether it leaves open if an API server answers at all. Refusals do not.
    fn is_puzzling(&self) -> bool {
        matches!(
            self,
            Self::Shoot {
                error: ReadError::Timeout { .. }
                    | ReadError::NotFound { .. }
                    | ReadError::Server { .. }
                    | ReadError::Unreadable { .. }
                    | ReadError::TooLarge { .. }
                    | ReadError::TooMany { .. },
                ..
            }
        )
    }

    fn seed(what: String, error: &CallError) -> Self {
        let message = error.to_string();
        Self::Seed { what, message }
    }
}

impl From<ReadError> for EvidenceError {
    fn from(error: ReadError) -> Self {
        let more = String::new();
        Self::Shoot { error, more }
    }
}

/// What the sources of all clusters share. Clones are the same.
#[derive(Clone)]
pub struct Evidence {
    /// What can wait.
    seed: Seed,
    /// What a scale-down waits for.
    urgent: Seed,
    secrets: Secrets,
    first_reads: Arc<Semaphore>,
    node_lists: Arc<Semaphore>,
    slow_node_lists: Arc<Semaphore>,
}

impl Evidence {
    /// Evidence from the shoots of this seed. What a scale-down waits for is read from the seed on
    /// the budget of `urgent`. Watches of Secrets that break are counted by `restarts`.
    pub fn new(seed: Seed, urgent: Seed, restarts: Counter) -> Self {
        Self {
            secrets: Secrets::new(seed.client().clone(), restarts),
            seed,
            urgent: urgent.urgent(),
            first_reads: Arc::new(Semaphore::new(FIRST_READS)),
            node_lists: Arc::new(Semaphore::new(NODE_LISTS)),
            slow_node_lists: Arc::new(Semaphore::new(SLOW_NODE_LISTS)),
        }
    }

    /// The sources of the cluster of this name, whose kubeconfig is in the Secret `secret` of the
    /// namespace of that name.
    pub fn of(&self, cluster: Arc<str>, secret: &Arc<str>) -> Sources {
        Sources {
            secret: self.secrets.named(secret),
            shared: self.clone(),
            cluster,
            link: None,
            slow: false,
        }
    }
}

/// Where one cluster's evidence comes from. It moves through each read, so that one that is given
/// up takes its connection with it.
pub struct Sources {
    shared: Evidence,
    cluster: Arc<str>,
    secret: Arc<Named>,
    link: Option<Link>,
    /// The last list of Nodes failed, or took long.
    slow: bool,
}

struct Link {
    shoot: Shoot,
    /// What it was made from.
    kubeconfig: Arc<[u8]>,
}

/// What Nodes and Machines tell.
pub struct Facts {
    /// The shoot's nodes.
    pub nodes: Vec<Node>,
    /// The cluster's Machines; `None` where the seed does not serve them.
    pub machines: Option<Vec<Machine>>,
}

impl Sources {
    /// Reads the kubeconfig from this Secret from now on.
    pub fn set_secret(&mut self, secret: &Arc<str>) {
        if self.secret.name() != secret {
            self.secret = self.shared.secrets.named(secret);
            self.link = None;
        }
    }

    /// The shoot that the last read has reached, over the same connection, or `apart`, over one of
    /// its own; `None` if it has reached none.
    pub fn shoot(&self, apart: bool) -> Option<Shoot> {
        let link = self.link.as_ref()?;
        match apart {
            true => self.connect(&link.kubeconfig).ok(),
            false => Some(link.shoot.clone()),
        }
    }

    /// Waits for the turn of a cluster that is read for the first time.
    pub async fn first_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.first_reads.clone().acquire_owned().await.ok()
    }

    /// Lists the leases as requested.
    ///
    /// # Errors
    ///
    /// If the shoot cannot be reached with what the Secret holds, or does not answer usably.
    pub async fn leases(&mut self, request: Request) -> Result<LeaseRead, EvidenceError> {
        let consistency = consistency(request);
        let linked_before = self.link.is_some();
        let first = self.link().await?.leases(consistency, request.limit).await;
        let error = match first {
            Ok(read) => return Ok(read),
            Err(error) => EvidenceError::from(error),
        };
        if error.throttled().is_some() {
            return Err(error);
        }
        // A kept connection can die without a word; a new one may lead to a server that lives.
        let once_more = request.insist || (linked_before && error.of_connection());
        self.link = None;
        if !once_more {
            return Err(self.comment(error, consistency));
        }
        let second = self.link().await?.leases(consistency, request.limit).await;
        second.map_err(|error| {
            self.link = None;
            self.comment(error.into(), consistency)
        })
    }

    /// What `/version` tells about an error that leaves open whether the API server answers, as the
    /// rest of the error's sentence.
    pub async fn explain(&mut self, error: &EvidenceError, limit: Duration) -> Option<String> {
        if !error.is_puzzling() {
            return None;
        }
        match self.link().await.ok()?.version(limit).await {
            Ok(version) => Some(format!(
                "; the API server {version} answers /version, so it runs: look at its load and at \
                 its etcd"
            )),
            Err(ReadError::Timeout { .. } | ReadError::Unreachable { .. }) => {
                Some("; /version is not answered either".to_owned())
            }
            Err(error) => Some(format!("; /version fails as well ({})", error.reason())),
        }
    }

    /// Adds what is known here: that a consistent list needs more than a cached one, and that newer
    /// credentials than those that are not accepted may not be known.
    fn comment(&self, mut error: EvidenceError, consistency: Consistency) -> EvidenceError {
        let EvidenceError::Shoot { error: read, .. } = &error else {
            return error;
        };
        match (read, consistency, self.secret.trouble()) {
            (ReadError::Timeout { .. }, Consistency::Consistent, _) => {
                error.add(", and its etcd, which a consistent list needs");
            }
            (ReadError::Unauthorized { .. }, _, Some(trouble)) => error.add(&format!(
                "; a newer one may not be known here: the watch of the Secret broke, and has told \
                 nothing since ({trouble})"
            )),
            _ => {}
        }
        error
    }

    /// Reads Nodes and Machines for a verdict that depends on them.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub async fn facts(&mut self, request: Request) -> Result<Facts, EvidenceError> {
        let consistency = consistency(request);
        self.shared.urgent.turn().await;
        let machines = self.machines(&self.shared.urgent, consistency).await?;
        let nodes = self.nodes(consistency, request.patience).await?;
        Ok(Facts { nodes, machines })
    }

    /// Reads them when there is room, and if that is quick: no verdict waits for them, and they are
    /// to keep none waiting.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub async fn facts_at_leisure(&mut self) -> Result<Facts, EvidenceError> {
        let seed = self.shared.seed.clone();
        seed.turn().await;
        let machines = self.machines(&seed, Consistency::Cached).await?;
        let _permit = self.shared.node_lists.clone().acquire_owned().await;
        let nodes = self.link().await?.nodes(Consistency::Cached, SLOW).await;
        self.slow |= matches!(nodes, Err(ReadError::Timeout { .. }));
        Ok(Facts {
            nodes: nodes?,
            machines,
        })
    }

    /// Lists the Nodes when there is room. To wait for it costs nothing of the time that the list
    /// may take, but is no longer than that; and a shoot that hangs is sent where it holds up none
    /// but its like. Unlike the leases, the nodes are worth the whole time that a probe may take: they
    /// are hundreds of times as large, and read seldom.
    async fn nodes(
        &mut self,
        consistency: Consistency,
        patience: Duration,
    ) -> Result<Vec<Node>, EvidenceError> {
        let (room, limit) = if self.slow {
            (&self.shared.slow_node_lists, patience)
        } else {
            (&self.shared.node_lists, patience.min(SLOW))
        };
        let _permit = timeout(patience, room.clone().acquire_owned())
            .await
            .map_err(|_| EvidenceError::NoRoom(patience))?;
        let began = Instant::now();
        let nodes = self.link().await?.nodes(consistency, limit).await;
        self.slow = match &nodes {
            Ok(_) => began.elapsed() > SLOW,
            Err(ReadError::Timeout { .. }) => true,
            Err(_) => self.slow,
        };
        Ok(nodes?)
    }

    /// The connection by the kubeconfig as it is now. When that is another one, only the connection
    /// changes: what was seen over the last one was seen.
    async fn link(&mut self) -> Result<&mut Shoot, EvidenceError> {
        let before = self.link.take();
        let kubeconfig = self.secret.kubeconfig(&self.cluster).await?;
        let link = match before {
            Some(link) if Arc::ptr_eq(&link.kubeconfig, &kubeconfig) => link,
            _ => Link {
                shoot: self.connect(&kubeconfig)?,
                kubeconfig,
            },
        };
        Ok(&mut self.link.insert(link).shoot)
    }

    fn connect(&self, kubeconfig: &[u8]) -> Result<Shoot, EvidenceError> {
        let access = shoot::parse(kubeconfig).map_err(|source| SecretError::Kubeconfig {
            namespace: self.cluster.clone(),
            name: self.secret.name().clone(),
            source,
        })?;
        Ok(Shoot::connect(&access)?)
    }

    /// Lists the Machines, for which it is our turn.
    async fn machines(
        &self,
        seed: &Seed,
        consistency: Consistency,
    ) -> Result<Option<Vec<Machine>>, EvidenceError> {
        let what = || format!("the Machines in namespace {}", self.cluster);
        let params = match consistency {
            Consistency::Cached => ListParams::default().match_any(),
            Consistency::Consistent => ListParams::default(),
        };
        let request = Path::new(Machine::url_path(&(), Some(&self.cluster)))
            .list(&params)
            .map_err(|error| EvidenceError::Seed {
                what: what(),
                message: error.to_string(),
            })?;
        let answer = seed
            .call_at_turn(seed.client().request::<ObjectList<Machine>>(request))
            .await;
        let list = match answer {
            Ok(list) => list,
            Err(error) if error.code() == Some(404) => return Ok(None),
            Err(error) => return Err(EvidenceError::seed(what(), &error)),
        };
        // Any object with items would do as a list, and one without Machines would take all nodes
        // out of the count: a silent cluster would look like one with nothing to protect.
        if list.types.kind != MACHINE_LIST {
            return Err(EvidenceError::Seed {
                what: what(),
                message: format!("kind {:?} came instead of {MACHINE_LIST}", list.types.kind),
            });
        }
        Ok(Some(list.items))
    }
}

fn consistency(request: Request) -> Consistency {
    if request.consistent {
        Consistency::Consistent
    } else {
        Consistency::Cached
    }
}
