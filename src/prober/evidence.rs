//! Gets what a verdict needs: the kubeconfig and the Machines from the seed, leases and Nodes from
//! the shoot.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{ListParams, Request as Path},
    core::{ObjectList, Resource},
};
use tokio::time::Instant;

use super::watch::Request;
use crate::{
    gardener::Machine,
    runtime::seed::{CallError, Seed},
    shoot::{
        self, ConnectError, Consistency, KubeconfigError, LeaseRead, Node, Obstacle, ReadError,
        Shoot,
    },
};

/// The key of the kubeconfig in its Secret.
const KUBECONFIG: &str = "kubeconfig";
/// The kind of a list of Machines.
const MACHINE_LIST: &str = "MachineList";
/// A shoot that cannot be reached may have got another kubeconfig; so often it is looked at. One
/// that refuses the credentials has it looked at every time.
const SECRET_AGE: Duration = Duration::from_secs(60);

/// Why there is no evidence. Each message names the object and what to do.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The Secret does not exist.
    #[error(
        "the Secret {namespace}/{name} does not exist; create it, or correct kubeConfigSecretName \
         in the policy"
    )]
    SecretMissing {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// The Secret has no kubeconfig.
    #[error("the Secret {namespace}/{name} has no key {KUBECONFIG:?}; put the kubeconfig there")]
    KeyMissing {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig in the Secret {namespace}/{name} cannot be used: {source}")]
    Kubeconfig {
        /// Its namespace.
        namespace: Arc<str>,
        /// Its name.
        name: Arc<str>,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// No client can be made from the kubeconfig.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The shoot could not be read.
    #[error(transparent)]
    Shoot(#[from] ReadError),
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
            Self::SecretMissing { .. } => "SecretMissing",
            Self::KeyMissing { .. } => "SecretKeyMissing",
            Self::Kubeconfig { source, .. } => source.reason(),
            Self::Connect(error) => error.reason(),
            Self::Shoot(error) => error.reason(),
            Self::NoLeases => "LeasesOutdated",
            Self::Seed { .. } => "SeedUnreadable",
        }
    }

    /// For how long the shoot asked to be left alone, if it did.
    pub fn throttled(&self) -> Option<Option<Duration>> {
        match self {
            Self::Shoot(ReadError::TooManyRequests { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }

    /// Whether the API server did not answer, or not as one that is up does.
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Shoot(
                ReadError::Unreachable { .. }
                    | ReadError::Timeout { .. }
                    | ReadError::Server { .. }
            )
        )
    }

    /// Whether a new connection may lead further than one that was kept.
    fn of_connection(&self) -> bool {
        matches!(self, Self::Shoot(ReadError::Unreachable { .. })) || self.of_credentials()
    }

    /// Whether other credentials may help, so that the Secret is worth reading again.
    fn of_credentials(&self) -> bool {
        matches!(
            self,
            Self::Shoot(
                ReadError::Unauthorized { .. }
                    | ReadError::Unreachable {
                        obstacle: Obstacle::Tls,
                        ..
                    }
            )
        )
    }

    fn seed(what: String, error: &CallError) -> Self {
        let message = error.to_string();
        Self::Seed { what, message }
    }
}

/// Where one cluster's evidence comes from. It moves through each read, so that one that is given
/// up takes its connection with it.
pub struct Sources {
    /// What can wait.
    seed: Seed,
    /// What a scale-down waits for.
    urgent: Seed,
    cluster: Arc<str>,
    secret: Arc<str>,
    link: Option<Link>,
}

struct Link {
    shoot: Shoot,
    /// When the Secret was read.
    since: Instant,
}

/// What Nodes and Machines tell.
pub struct Facts {
    /// The shoot's nodes.
    pub nodes: Vec<Node>,
    /// The cluster's Machines; `None` where the seed does not serve them.
    pub machines: Option<Vec<Machine>>,
}

impl Sources {
    /// The sources of the cluster of this name, whose kubeconfig is in the Secret `secret` of the
    /// namespace of that name.
    /// What a scale-down waits for is read from the seed on the budget of `urgent`.
    pub fn new(seed: Seed, urgent: Seed, cluster: Arc<str>, secret: Arc<str>) -> Self {
        Self {
            seed,
            urgent,
            cluster,
            secret,
            link: None,
        }
    }

    /// Reads the kubeconfig from this Secret from now on.
    pub fn set_secret(&mut self, secret: &Arc<str>) {
        if self.secret != *secret {
            self.secret = secret.clone();
            self.link = None;
        }
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
        self.part(&error);
        if !once_more {
            return Err(error);
        }
        let second = self.link().await?.leases(consistency, request.limit).await;
        second.map_err(|error| {
            let error = EvidenceError::from(error);
            self.part(&error);
            error
        })
    }

    /// Reads Nodes and Machines.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub async fn facts(&mut self, request: Request) -> Result<Facts, EvidenceError> {
        let consistency = consistency(request);
        let machines = self.machines(consistency).await?;
        // Unlike the leases, the nodes are worth the whole time that a probe may take: they are
        // hundreds of times as large, and read seldom.
        let nodes = self
            .link()
            .await?
            .nodes(consistency, request.patience)
            .await?;
        Ok(Facts { nodes, machines })
    }

    async fn link(&mut self) -> Result<&mut Shoot, EvidenceError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Link {
                shoot: self.connect().await?,
                since: Instant::now(),
            },
        };
        Ok(&mut self.link.insert(link).shoot)
    }

    /// Drops a connection that has led to an error; the credentials too, if others may help.
    fn part(&mut self, error: &EvidenceError) {
        let kept = self
            .link
            .take()
            .filter(|link| !error.of_credentials() && link.since.elapsed() < SECRET_AGE);
        self.link = kept.and_then(|mut link| {
            link.shoot.fresh_connection().ok()?;
            Some(link)
        });
    }

    async fn connect(&self) -> Result<Shoot, EvidenceError> {
        let (namespace, name) = (self.cluster.clone(), self.secret.clone());
        let secrets: Api<Secret> = Api::namespaced(self.seed.client().clone(), &namespace);
        let secret = self.seed.call(secrets.get_opt(&name)).await;
        let secret = secret.map_err(|error| {
            EvidenceError::seed(format!("the Secret {namespace}/{name}"), &error)
        })?;
        let Some(mut secret) = secret else {
            return Err(EvidenceError::SecretMissing { namespace, name });
        };
        let kubeconfig = secret
            .data
            .as_mut()
            .and_then(|data| data.remove(KUBECONFIG));
        let Some(kubeconfig) = kubeconfig else {
            return Err(EvidenceError::KeyMissing { namespace, name });
        };
        let access = shoot::parse(&kubeconfig.0).map_err(|source| EvidenceError::Kubeconfig {
            namespace,
            name,
            source,
        })?;
        Ok(Shoot::connect(&access)?)
    }

    async fn machines(
        &self,
        consistency: Consistency,
    ) -> Result<Option<Vec<Machine>>, EvidenceError> {
        let what = || format!("the Machines in namespace {}", self.cluster);
        let (params, seed) = match consistency {
            Consistency::Cached => (ListParams::default().match_any(), &self.seed),
            Consistency::Consistent => (ListParams::default(), &self.urgent),
        };
        let request = Path::new(Machine::url_path(&(), Some(&self.cluster)))
            .list(&params)
            .map_err(|error| EvidenceError::Seed {
                what: what(),
                message: error.to_string(),
            })?;
        let answer = seed
            .call(seed.client().request::<ObjectList<Machine>>(request))
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
