//! Gets what a verdict needs: the kubeconfig from the seed, leases from the shoot, and through
//! [`node_lists`](super::node_lists) which of them count.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    prober::{
        node_lists::{Background, ListPermits, NodeLists, Reader},
        secrets::{Named, Secrets},
        watch::Request,
    },
    runtime::{seed::Seed, watch::Watches},
    shoot::{self, Consistency, Dial, LeaseRead, Said, Shoot, Target, Unread},
};

/// First reads at the same time, over all clusters. Judgement: each takes a new connection and the
/// largest of a cluster's lists, and at the start a thousand clusters want one.
const FIRST_READS: usize = 32;

/// What the sources of all clusters share. Clones share it too.
#[derive(Clone)]
pub(crate) struct Evidence {
    secrets: Secrets,
    first_reads: Arc<Semaphore>,
    permits: ListPermits,
    dial: Dial,
}

impl Evidence {
    /// Evidence from the shoots of this seed, whose Secrets are among `watches`.
    pub(crate) fn new(seed: &Seed, dial: Dial, watches: &Watches) -> Self {
        Self {
            secrets: Secrets::new(seed.client().clone(), watches.clone()),
            first_reads: Arc::new(Semaphore::new(FIRST_READS)),
            permits: ListPermits::new(seed),
            dial,
        }
    }

    /// The same for a leader, which reads this seed. Watches go on.
    #[must_use]
    pub(crate) fn led(mut self, seed: Seed) -> Self {
        self.permits.seed = seed;
        self
    }

    /// The sources of the cluster of this name, whose kubeconfig is in the Secret `secret` of the
    /// namespace of that name.
    pub(crate) fn of(&self, cluster: Arc<str>, secret: &Arc<str>) -> Sources {
        Sources {
            secret: self.secrets.named(secret),
            shared: self.clone(),
            cluster,
            slow: Arc::default(),
            link: None,
            took: Duration::ZERO,
        }
    }
}

/// The sources of one cluster's evidence. They move through each read, so that a read that is
/// dropped takes its connection with it.
pub(crate) struct Sources {
    shared: Evidence,
    cluster: Arc<str>,
    secret: Arc<Named>,
    /// The last list of Nodes failed, or took long.
    slow: Arc<AtomicBool>,
    /// The shoot, and the kubeconfig that it was connected by.
    link: Option<(Shoot, Arc<[u8]>)>,
    /// Duration of the last successful list of leases.
    took: Duration,
}

impl Sources {
    /// The name of the cluster.
    pub(crate) fn cluster(&self) -> &Arc<str> {
        &self.cluster
    }

    /// Shares what the sources of a leader share from now on.
    pub(crate) fn begin_term(&mut self, shared: Evidence) {
        self.shared = shared;
    }

    /// Reads the kubeconfig from this Secret from now on.
    pub(crate) fn set_secret(&mut self, secret: &Arc<str>) {
        if self.secret.name() != secret {
            self.secret = self.shared.secrets.named(secret);
            self.link = None;
        }
    }

    /// The shoot that was read last, if any: over the same connection, or over another if `apart`.
    pub(crate) fn shoot(&self, apart: bool) -> Option<Shoot> {
        let (shoot, kubeconfig) = self.link.as_ref()?;
        if apart {
            return self.connect(kubeconfig).ok();
        }
        Some(shoot.clone())
    }

    /// Waits for the turn of a cluster that is read for the first time.
    pub(crate) async fn first_turn(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.first_reads.clone().acquire_owned().await.ok()
    }

    /// Lists the leases as requested.
    ///
    /// # Errors
    ///
    /// If the shoot cannot be reached with what the Secret holds, or does not answer usably.
    pub(crate) async fn leases(&mut self, request: Request) -> Result<LeaseRead, Unread> {
        let consistency = consistency(request.consistent);
        let shoot = self.link().await?;
        let kept = shoot.is_connected();
        // A server that always takes long does not show by it that the connection is dead.
        let limit = if kept {
            request.kept.max(self.took * 2).min(request.limit)
        } else {
            request.limit
        };
        let began = Instant::now();
        let mut error = match shoot.leases(consistency, limit).await {
            Ok(read) => return Ok(self.noted(read)),
            Err(error) => error,
        };
        if error.said == Said::Late {
            // The next try gets more time: the list takes at least this long.
            self.took = self.took.max(limit);
        }
        let limit = match error.said {
            Said::Throttled(_) => Duration::ZERO,
            _ if request.insist => request.limit,
            // A kept connection can die unnoticed; a new one may lead to a server that lives.
            Said::Broken | Said::Late if kept => request.limit.saturating_sub(began.elapsed()),
            _ => Duration::ZERO,
        };
        if !limit.is_zero() {
            shoot.disconnect();
            error = match self.link().await?.leases(consistency, limit).await {
                Ok(read) => return Ok(self.noted(read)),
                // The message names the time of both tries.
                Err(error) if error.said == Said::Late => Target::Leases.late(request.limit),
                Err(error) => error,
            };
        }
        Err(self.comment(error, consistency))
    }

    fn noted(&mut self, read: LeaseRead) -> LeaseRead {
        self.took = read.finished.saturating_duration_since(read.started);
        read
    }

    /// Makes the next read open a connection, for which the name is resolved again.
    pub(crate) fn disconnect(&self) {
        if let Some((shoot, _)) = &self.link {
            shoot.disconnect();
        }
    }

    /// Adds what is known here: a consistent list needs etcd too, and while the watch of the Secret
    /// is broken, newer credentials than the refused ones may be unknown.
    fn comment(&self, mut error: Unread, consistency: Consistency) -> Unread {
        if error.said == Said::Late && consistency == Consistency::Consistent {
            error.message += ", and its etcd, which a consistent list needs";
        } else if error.reason == "Unauthorized"
            && let Some(trouble) = self.secret.trouble()
        {
            error.message += &format!(
                "; a newer one may not be known here: the watch of the Secret broke, and has told \
                 nothing since ({trouble})"
            );
        }
        error
    }

    /// Begins to read Nodes and Machines for a verdict that depends on them; the leases can be read
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read.
    pub(crate) async fn facts(
        &mut self,
        request: Request,
    ) -> Result<impl Future<Output = Result<NodeLists, Unread>> + use<>, Unread> {
        let (shoot, reader) = (self.link().await?, self.reader());
        let (consistency, patience) = (consistency(request.consistent), request.patience);
        Ok(reader.read(shoot, consistency, patience, request.urgent))
    }

    /// Reads Nodes and Machines that no verdict waits for, if that is quick. Ones that are `awaited` by a
    /// restore are tried even if the last list was slow.
    pub(crate) async fn facts_in_background(
        &mut self,
        consistent: bool,
        awaited: bool,
    ) -> Background {
        let reader = self.reader();
        let _permit = match reader.background_permit(awaited) {
            Ok(permit) => permit,
            Err(background) => return background,
        };
        let shoot = match self.link().await {
            Ok(shoot) => shoot,
            Err(error) => return Background::Failed(error),
        };
        let facts = reader.read_in_background(&shoot, consistency(consistent));
        facts
            .await
            .map_or_else(Background::Failed, Background::Read)
    }

    fn reader(&self) -> Reader {
        Reader {
            permits: self.shared.permits.clone(),
            cluster: self.cluster.clone(),
            slow: self.slow.clone(),
        }
    }

    /// The connection by the present kubeconfig. Another kubeconfig changes only the connection:
    /// what was seen over the last one stays valid.
    async fn link(&mut self) -> Result<Shoot, Unread> {
        let kubeconfig = match self.secret.kubeconfig(&self.cluster).await {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                self.link = None;
                return Err(error);
            }
        };
        let shoot = match self.link.take() {
            Some((shoot, before)) if before == kubeconfig => shoot,
            _ => self.connect(&kubeconfig)?,
        };
        self.link = Some((shoot.clone(), kubeconfig));
        Ok(shoot)
    }

    fn connect(&self, kubeconfig: &[u8]) -> Result<Shoot, Unread> {
        let access = shoot::parse(kubeconfig)
            .map_err(|error| self.secret.unusable(&self.cluster, &error))?;
        Shoot::connect(&access, &self.shared.dial)
    }
}

fn consistency(consistent: bool) -> Consistency {
    if consistent {
        Consistency::Consistent
    } else {
        Consistency::Cached
    }
}
