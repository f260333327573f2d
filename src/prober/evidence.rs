//! Gets what a verdict needs: the kubeconfig from the seed, leases from the shoot, and through
//! [`facts`] which of them count.

use std::{sync::Arc, time::Duration};

use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::{
    facts::{self, Facts, Leisure, Room, Rooms},
    secrets::{Named, SecretError, Secrets},
    watch::Request,
};
use crate::{
    runtime::seed::Seed,
    shoot::{self, ConnectError, Consistency, LeaseRead, ReadError, Shoot},
};

/// So many clusters are read for the first time at once: each takes a new connection and the largest
/// of its lists, and at the start a thousand want them in the same moment.
const FIRST_READS: usize = 32;
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
    secrets: Secrets,
    first_reads: Arc<Semaphore>,
    rooms: Rooms,
}

impl Evidence {
    /// Evidence from the shoots of this seed. What a scale-down waits for is read from the seed on
    /// the budget of `urgent`. Watches of Secrets that break are counted by `restarts`.
    pub fn new(seed: Seed, urgent: &Seed, restarts: Counter) -> Self {
        Self {
            secrets: Secrets::new(seed.client().clone(), restarts),
            first_reads: Arc::new(Semaphore::new(FIRST_READS)),
            rooms: Rooms::new(seed, urgent),
        }
    }

    /// The sources of the cluster of this name, whose kubeconfig is in the Secret `secret` of the
    /// namespace of that name.
    pub fn of(&self, cluster: Arc<str>, secret: &Arc<str>) -> Sources {
        Sources {
            secret: self.secrets.named(secret),
            shared: self.clone(),
            facts: facts::Reader::new(self.rooms.clone(), cluster.clone()),
            cluster,
            link: None,
            took: Duration::ZERO,
        }
    }
}

/// Where one cluster's evidence comes from. It moves through each read, so that one that is given
/// up takes its connection with it.
pub struct Sources {
    shared: Evidence,
    cluster: Arc<str>,
    secret: Arc<Named>,
    facts: facts::Reader,
    link: Option<Link>,
    /// How long the last list of leases took that came.
    took: Duration,
}

struct Link {
    shoot: Shoot,
    /// What it was made from.
    kubeconfig: Arc<[u8]>,
}

impl Sources {
    /// Reads the kubeconfig from this Secret from now on.
    pub fn set_secret(&mut self, secret: &Arc<str>) {
        if self.secret.name() != secret {
            self.secret = self.shared.secrets.named(secret);
            self.link = None;
        }
    }

    /// The shoot that was read last, over the same connection, or `apart`, over one of its own; `None`
    /// if none was.
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
        let shoot = self.link().await?;
        let kept = shoot.is_connected();
        // Where an answer takes long each time, that it does is no sign of a connection that is dead.
        let limit = match kept {
            true => request.kept.max(self.took * 2).min(request.limit),
            false => request.limit,
        };
        let began = Instant::now();
        let error = match shoot.leases(consistency, limit).await {
            Ok(read) => return Ok(self.noted(read)),
            Err(error) => error,
        };
        if let ReadError::Timeout { .. } = error {
            // So much at least, as far as anybody knows: the next try has more.
            self.took = self.took.max(limit);
        }
        let left = request.limit.saturating_sub(began.elapsed());
        let limit = match error {
            ReadError::TooManyRequests { .. } => Duration::ZERO,
            _ if request.insist => request.limit,
            // A kept connection can die without a word; a new one may lead to a server that lives.
            ReadError::Unreachable { .. } | ReadError::Timeout { .. } if kept => left,
            _ => Duration::ZERO,
        };
        if limit.is_zero() {
            return Err(self.comment(error, consistency));
        }
        shoot.disconnect();
        match self.link().await?.leases(consistency, limit).await {
            Ok(read) => Ok(self.noted(read)),
            Err(ReadError::Timeout { tried, .. }) => {
                // However much of it was left for the second try.
                let after = request.limit;
                Err(self.comment(ReadError::Timeout { tried, after }, consistency))
            }
            Err(error) => Err(self.comment(error, consistency)),
        }
    }

    fn noted(&mut self, read: LeaseRead) -> LeaseRead {
        self.took = read.finished.saturating_duration_since(read.started);
        read
    }

    /// Has the next read make a connection, for which the name is looked up anew.
    pub fn disconnect(&self) {
        if let Some(link) = &self.link {
            link.shoot.disconnect();
        }
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
    fn comment(&self, error: ReadError, consistency: Consistency) -> EvidenceError {
        let more = match (&error, consistency, self.secret.trouble()) {
            (ReadError::Timeout { .. }, Consistency::Consistent, _) => {
                ", and its etcd, which a consistent list needs".to_owned()
            }
            (ReadError::Unauthorized { .. }, _, Some(trouble)) => format!(
                "; a newer one may not be known here: the watch of the Secret broke, and has told \
                 nothing since ({trouble})"
            ),
            _ => String::new(),
        };
        EvidenceError::Shoot { error, more }
    }

    /// Begins to read Nodes and Machines for a verdict that depends on them; the leases can be read
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub async fn facts(
        &mut self,
        request: Request,
    ) -> Result<impl Future<Output = Result<Facts, EvidenceError>> + use<>, EvidenceError> {
        let shoot = self.link().await?;
        let reader = self.facts.clone();
        Ok(reader.read(shoot, consistency(request), request.patience))
    }

    /// Whether Nodes and Machines can be read at leisure.
    pub fn leisure(&self) -> Leisure {
        self.facts.leisure()
    }

    /// Reads them if that is quick: no verdict waits for them, and they are to keep none waiting.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub async fn facts_at_leisure(
        &mut self,
        room: Room,
        consistency: Consistency,
    ) -> Result<Facts, EvidenceError> {
        let shoot = self.link().await?;
        let reader = self.facts.clone();
        reader.read_at_leisure(shoot, room, consistency).await
    }

    /// The connection by the kubeconfig as it is now. When that is another one, only the connection
    /// changes: what was seen over the last one was seen.
    async fn link(&mut self) -> Result<Shoot, EvidenceError> {
        let kubeconfig = match self.secret.kubeconfig(&self.cluster).await {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                self.link = None;
                return Err(error.into());
            }
        };
        let link = match self.link.take() {
            Some(link) if Arc::ptr_eq(&link.kubeconfig, &kubeconfig) => link,
            _ => Link {
                shoot: self.connect(&kubeconfig)?,
                kubeconfig,
            },
        };
        Ok(self.link.insert(link).shoot.clone())
    }

    fn connect(&self, kubeconfig: &[u8]) -> Result<Shoot, EvidenceError> {
        let access = shoot::parse(kubeconfig).map_err(|source| SecretError::Kubeconfig {
            namespace: self.cluster.clone(),
            name: self.secret.name().clone(),
            source,
        })?;
        Ok(Shoot::connect(&access)?)
    }
}

fn consistency(request: Request) -> Consistency {
    if request.consistent {
        Consistency::Consistent
    } else {
        Consistency::Cached
    }
}
