//! Gets what a verdict needs: the kubeconfig from the seed, leases and Nodes from the shoot, Machines from the seed.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};
use tower::BoxError;

use crate::{
    cluster::Settings,
    gardener::{MACHINES, MachineList},
    observer::NodeCounts,
    prober::{
        lease_judge::Request,
        nodes::Facts,
        secrets::{Named, Secrets},
    },
    runtime::{
        seed::{CallError, Seed},
        watch::Watches,
    },
    shoot::{
        self, Consistency, Dial, Item as _, Lease, LeaseRead, SEED_UNREADABLE, Said, Shoot, Unread,
    },
    util::mono_time::MonoTime,
};

/// First reads at the same time, over all clusters. Judgement: each takes a new connection, and at the start a
/// thousand clusters want one.
const FIRST_READS: usize = 32;
/// Judgement: the time for a list of Nodes, which no probe waits for. One of 5,000 takes a second or two.
const NODES_LIMIT: Duration = Duration::from_secs(30);

/// State that the sources of all clusters share. Clones share it too.
#[derive(Clone)]
pub(crate) struct Evidence {
    seed: Seed,
    secrets: Secrets,
    /// The turns of clusters that are read for the first time.
    pub(super) first_reads: Arc<Semaphore>,
    dial: Dial,
}

impl Evidence {
    /// Evidence from the shoots of this seed, whose Secrets are among `watches`.
    pub(crate) fn new(seed: &Seed, dial: Dial, watches: &Watches) -> Self {
        Self {
            seed: seed.clone(),
            secrets: Secrets::new(seed.client().clone(), watches.clone()),
            first_reads: Arc::new(Semaphore::new(FIRST_READS)),
            dial,
        }
    }

    /// Reads this seed from now on, for a leader. Watches go on.
    #[must_use]
    pub(crate) fn led(self, seed: Seed) -> Self {
        Self { seed, ..self }
    }

    /// The sources of the cluster of this name, whose kubeconfig is in the Secret `secret` of the
    /// namespace of that name.
    pub(crate) fn of(&self, cluster: Arc<str>, secret: &Arc<str>) -> Sources {
        Sources {
            secret: self.secrets.named(secret),
            shared: self.clone(),
            cluster,
            link: None,
            took: Duration::ZERO,
        }
    }

    /// The seed from which Machines are read. What is urgent does not wait for what is reported.
    pub(crate) fn seed(&self, urgent: bool) -> Seed {
        match urgent {
            true => self.seed.acting(),
            false => self.seed.clone(),
        }
    }

    /// Lists the Nodes of the shoot of this cluster: with the Machines in this seed and neither from a cache, or alone
    /// and from a cache, for which no verdict waits.
    ///
    /// The turn on the seed comes first, since Nodes take memory; the request last, since a shoot that does not answer
    /// is to cause none.
    ///
    /// # Errors
    ///
    /// If the Nodes cannot be read.
    pub(crate) async fn nodes(
        self,
        cluster: Arc<str>,
        shoot: Shoot,
        seed: Option<Seed>,
        settings: Arc<Settings>,
    ) -> Result<NodeLists, Unread> {
        let consistency = match &seed {
            Some(seed) => {
                seed.turn().await;
                Consistency::Consistent
            }
            None => Consistency::Cached,
        };
        let mut facts = Facts::new(MonoTime::now());
        let mut counts = NodeCounts::default();
        let keep = |node| {
            facts.take_node(&node, &settings.pools);
            counts.take(&node);
        };
        let (_, bytes, _) = shoot.list(consistency, NODES_LIMIT, keep).await?;
        let facts = match &seed {
            Some(seed) => match Self::machines(&cluster, seed, &mut facts).await {
                Ok(()) => Ok(Some(facts)),
                Err(problem) => {
                    let place = format!("the Machines in namespace {cluster}");
                    let message = format!("{place} could not be read from the seed: {problem}");
                    Err(Unread::new(SEED_UNREADABLE, message))
                }
            },
            None => Ok(None),
        };
        Ok(NodeLists {
            facts,
            counts,
            bytes,
        })
    }

    /// Lists the Machines of this cluster, where the seed serves them.
    async fn machines(cluster: &str, seed: &Seed, facts: &mut Facts) -> Result<(), BoxError> {
        let list = http::Request::get(MachineList::path(cluster)).body(Vec::new())?;
        let list = seed.client().request::<MachineList>(list);
        match seed.call_at_turn(list).await {
            // Any object with items decodes as a list. One without Machines would exclude all nodes: a
            // silent cluster would look like one with nothing to protect.
            Ok(list) if list.kind != "MachineList" => {
                return Err("what came is no MachineList; see what stands before the seed".into());
            }
            Ok(list) => facts.take_machines(&list.items),
            Err(failed) if failed.code() == Some(404) && Self::lacks_machines(seed).await? => {}
            Err(failed) => return Err(failed.into()),
        }
        Ok(())
    }

    /// Returns whether the seed lists its API groups, and none of them has Machines. A path that is not found may be
    /// the word of a proxy; without Machines all nodes would count, and a rolling update be an outage.
    async fn lacks_machines(seed: &Seed) -> Result<bool, CallError> {
        let groups = seed.call(seed.client().list_api_groups()).await?.groups;
        Ok(!groups.is_empty() && groups.iter().all(|group| group.name != MACHINES))
    }
}

/// The Nodes and Machines of one cluster.
pub(crate) struct NodeLists {
    /// Facts from both, past every cache, if Machines were asked for; or the reason why these could not be read.
    pub(crate) facts: Result<Option<Facts>, Unread>,
    pub(crate) counts: NodeCounts,
    /// The size of the list of Nodes.
    pub(crate) bytes: usize,
}

/// The sources of one cluster's evidence. They move through each read, so that a read that is
/// dropped takes its connection with it.
pub(crate) struct Sources {
    shared: Evidence,
    cluster: Arc<str>,
    secret: Arc<Named>,
    /// The shoot, and the kubeconfig that it was connected by.
    link: Option<(Shoot, Arc<[u8]>)>,
    /// Duration of the last successful list of leases.
    took: Duration,
}

impl Sources {
    /// Reads the kubeconfig from this Secret from now on.
    pub(crate) fn set_secret(&mut self, secret: &Arc<str>) {
        // One name is one value for as long as anybody holds it.
        let secret = self.shared.secrets.named(secret);
        if !Arc::ptr_eq(&self.secret, &secret) {
            (self.secret, self.link) = (secret, None);
        }
    }

    /// The shoot that was read last, if any, over the same connection.
    pub(crate) fn shoot(&self) -> Option<Shoot> {
        self.link.as_ref().map(|(shoot, _)| shoot.clone())
    }

    /// Lists the leases as requested.
    ///
    /// # Errors
    ///
    /// If the shoot cannot be reached with what the Secret holds, or does not answer usably.
    pub(crate) async fn leases(&mut self, request: Request) -> Result<LeaseRead, Unread> {
        let shoot = self.link().await?;
        let kept = shoot.is_connected();
        // A server that always takes long does not show by it that the connection is dead.
        let limit = match kept {
            true => request.kept.max(self.took * 2).min(request.limit),
            false => request.limit,
        };
        let began = Instant::now();
        let mut read = self.list(&shoot, request.consistency, limit).await;
        let limit = match read.as_ref().map_err(|error| error.said) {
            Ok(_) | Err(Said::Throttled(_)) => Duration::ZERO,
            Err(_) if request.consistency == Consistency::Consistent => request.limit,
            // A kept connection can die unnoticed; a new one may lead to a server that lives.
            Err(Said::Broken | Said::Late) if kept => request.limit.saturating_sub(began.elapsed()),
            Err(_) => Duration::ZERO,
        };
        if !limit.is_zero() {
            shoot.disconnect();
            let shoot = self.link().await?;
            read = self.list(&shoot, request.consistency, limit).await;
        }
        read.map_err(|error| comment(error, request))
    }

    async fn list(
        &mut self,
        shoot: &Shoot,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<LeaseRead, Unread> {
        let read = shoot.leases(consistency, limit).await;
        match &read {
            Ok(read) => self.took = read.finished.since(read.started),
            // The next try gets more time: the list takes at least this long.
            Err(error) if error.said == Said::Late => self.took = self.took.max(limit),
            Err(_) => {}
        }
        read
    }

    /// The connection by the present kubeconfig. Another kubeconfig changes only the connection:
    /// what was seen over the last one stays valid.
    async fn link(&mut self) -> Result<Shoot, Unread> {
        let before = self.link.take();
        let kubeconfig = self.secret.kubeconfig(&self.cluster).await?;
        let shoot = match before {
            Some((shoot, by)) if by == kubeconfig => shoot,
            _ => self.connect(&kubeconfig)?,
        };
        self.link = Some((shoot.clone(), kubeconfig));
        Ok(shoot)
    }

    fn connect(&self, kubeconfig: &[u8]) -> Result<Shoot, Unread> {
        let access = shoot::parse(kubeconfig)
            .map_err(|error| self.secret.unusable(&self.cluster, &error))?;
        Ok(Shoot::new(access, &self.shared.dial))
    }
}

/// Adds what is known here: the time of both tries, and that a consistent list needs etcd too.
fn comment(mut error: Unread, request: Request) -> Unread {
    if error.said == Said::Late {
        error = Lease::TARGET.late(request.limit);
        if request.consistency == Consistency::Consistent {
            error.message += ", and its etcd, which a consistent list needs";
        }
    }
    error
}
