//! Reads the Nodes (from the shoot) and Machines (from the seed) by which leases count.
//!
//! A list of Nodes is the largest of all answers, so only a few are read at once over all clusters. A
//! shoot that hangs is read among others that hang, so that it delays no other shoot.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{Api, Resource as _, api::ListParams};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use crate::{
    gardener::Machine,
    runtime::seed::{CallError, Seed},
    shoot::{Consistency, Node, SEED_UNREADABLE, Said, Shoot, Unread},
    util::text::clean,
};

/// The kind of a list of Machines.
const MACHINE_LIST: &str = "MachineList";
/// Limit on the quoted kind of another list, in characters.
const MAX_KIND: usize = 100;
/// Lists of Nodes at the same time. Judgement: one can have 128 MiB, and a node takes 15 to 20 KB.
const NODE_LISTS: usize = 16;
/// Lists of Nodes at the same time of shoots that are slow or did not finish theirs. They may use
/// up all their time, in which no other could read: hence a limit of their own.
const SLOW_NODE_LISTS: usize = 4;
/// Lists of Nodes at the same time that no verdict waits for. Few, since at the start all clusters
/// are read, and the memory that this takes is never needed again.
const BACKGROUND_NODE_LISTS: usize = 4;
/// A list that takes longer is slow: one of 5,000 nodes takes a second or two.
const SLOW: Duration = Duration::from_secs(5);

/// The Nodes and Machines of one cluster.
pub(crate) struct NodeLists {
    /// When the requests began.
    pub(crate) began: Instant,
    pub(crate) nodes: Vec<Node>,
    /// `None` where the seed does not serve Machines.
    pub(crate) machines: Option<Vec<Machine>>,
}

/// What the reads of all clusters share. Clones share it too.
#[derive(Clone)]
pub(crate) struct ListPermits {
    pub(super) seed: Seed,
    node_lists: Arc<Semaphore>,
    slow_node_lists: Arc<Semaphore>,
    background_node_lists: Arc<Semaphore>,
}

impl ListPermits {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self {
            seed: seed.clone(),
            node_lists: Arc::new(Semaphore::new(NODE_LISTS)),
            slow_node_lists: Arc::new(Semaphore::new(SLOW_NODE_LISTS)),
            background_node_lists: Arc::new(Semaphore::new(BACKGROUND_NODE_LISTS)),
        }
    }
}

/// The result of a read that no verdict waits for.
pub(crate) enum Background {
    Read(NodeLists),
    Failed(Unread),
    /// Other clusters hold all permits.
    NoPermit,
    /// The list of Nodes takes long, so it is read only for a verdict, under the limit for slow
    /// ones.
    Slow,
}

/// Reads the Nodes and Machines of one cluster.
pub(crate) struct Reader {
    pub(crate) permits: ListPermits,
    pub(crate) cluster: Arc<str>,
    /// The last list of Nodes failed, or took long.
    pub(crate) slow: Arc<AtomicBool>,
}

impl Reader {
    /// Reads them for a verdict that depends on them. `patience` is the time that the list of
    /// Nodes may take.
    pub(crate) async fn read(
        self,
        shoot: Shoot,
        consistency: Consistency,
        patience: Duration,
        urgent: bool,
    ) -> Result<NodeLists, Unread> {
        let seed = match urgent {
            true => &self.permits.seed.acting(),
            false => &self.permits.seed,
        };
        let (began, machines) = self.machines(seed, consistency).await?;
        let nodes = self.nodes(&shoot, consistency, patience).await?;
        Ok(NodeLists {
            began,
            nodes,
            machines,
        })
    }

    /// Permits a read in the background. There is no queue: a cluster that reached its front would have
    /// hardly any time left until its leases are due. A slow list is read only if it is `awaited`, among
    /// slow ones.
    ///
    /// # Errors
    ///
    /// If there is no permit, the result to report.
    pub(crate) fn background_permit(
        &self,
        awaited: bool,
    ) -> Result<OwnedSemaphorePermit, Background> {
        let permits = match self.slow.load(Ordering::Relaxed) {
            false => &self.permits.background_node_lists,
            true if awaited => &self.permits.slow_node_lists,
            true => return Err(Background::Slow),
        };
        permits
            .clone()
            .try_acquire_owned()
            .map_err(|_| Background::NoPermit)
    }

    /// Reads them if that is quick. The caller has a permit already, so that no turn on the
    /// seed is spent on waiting for it.
    pub(crate) async fn read_in_background(
        &self,
        shoot: &Shoot,
        consistency: Consistency,
    ) -> Result<NodeLists, Unread> {
        let (began, machines) = self.machines(&self.permits.seed, consistency).await?;
        let _permit = self.permits.node_lists.acquire().await;
        let nodes = shoot.nodes(consistency, SLOW).await;
        match &nodes {
            Ok(_) => self.slow.store(false, Ordering::Relaxed),
            Err(error) if error.said == Said::Late => self.slow.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
        Ok(NodeLists {
            began,
            nodes: nodes?,
            machines,
        })
    }

    /// Lists the Nodes under a permit. Waiting for it does not shorten the time that the list may
    /// take, and takes no longer than that. Unlike the leases, the nodes may take the whole time of
    /// a probe: they are hundreds of times as large, and read seldom.
    async fn nodes(
        &self,
        shoot: &Shoot,
        consistency: Consistency,
        patience: Duration,
    ) -> Result<Vec<Node>, Unread> {
        let (permits, limit) = if self.slow.load(Ordering::Relaxed) {
            (&self.permits.slow_node_lists, patience)
        } else {
            (&self.permits.node_lists, patience.min(SLOW))
        };
        let _permit = timeout(patience, permits.acquire()).await.map_err(|_| {
            let message = format!(
                "so many clusters are reading lists of Nodes that its turn did not come within \
                     {patience:?}; it is tried again"
            );
            Unread::new("Crowded", message)
        })?;
        let began = Instant::now();
        let nodes = shoot.nodes(consistency, limit).await;
        let slow = match &nodes {
            Ok(_) => began.elapsed() > SLOW,
            Err(error) if error.said == Said::Late => true,
            // Any other late failure has kept others waiting as well; an early one says nothing.
            Err(_) => self.slow.load(Ordering::Relaxed) || began.elapsed() > SLOW / 2,
        };
        self.slow.store(slow, Ordering::Relaxed);
        nodes
    }

    /// Lists the Machines when it is our turn; also returns when that was.
    async fn machines(
        &self,
        seed: &Seed,
        consistency: Consistency,
    ) -> Result<(Instant, Option<Vec<Machine>>), Unread> {
        seed.turn().await;
        let began = Instant::now();
        let error = |problem: String| {
            let place = format!("the Machines in namespace {}", self.cluster);
            let message = format!("{place} could not be read from the seed: {problem}");
            Unread::new(SEED_UNREADABLE, message)
        };
        let params = match consistency {
            Consistency::Cached => ListParams::default().match_any(),
            Consistency::Consistent => ListParams::default(),
        };
        let machines: Api<Machine> = Api::namespaced(seed.client().clone(), &self.cluster);
        let answer = seed.call_at_turn(machines.list(&params)).await;
        let list = match answer {
            Ok(list) => list,
            Err(failed) if failed.code() == Some(404) => {
                let lacks = lacks_machines(seed).await;
                return match lacks.map_err(|failed| error(failed.to_string()))? {
                    true => Ok((began, None)),
                    false => Err(error(failed.to_string())),
                };
            }
            Err(failed) => return Err(error(failed.to_string())),
        };
        // Any object with items decodes as a list. One without Machines would exclude all nodes: a
        // silent cluster would look like one with nothing to protect.
        if list.types.kind != MACHINE_LIST {
            let kind = clean(&list.types.kind, MAX_KIND);
            return Err(error(format!(
                "kind {kind:?} came instead of {MACHINE_LIST}"
            )));
        }
        Ok((began, Some(list.items)))
    }
}

/// Whether the seed lists its API groups, and none of them has Machines. A path that is not found may be
/// the word of a proxy; without Machines all nodes would count, and a rolling update be an outage.
async fn lacks_machines(seed: &Seed) -> Result<bool, CallError> {
    let groups = seed.call_at_turn(seed.client().list_api_groups()).await?;
    let machines = Machine::group(&());
    let mut names = groups.groups.iter().map(|group| &group.name);
    Ok(!groups.groups.is_empty() && names.all(|name| *name != machines))
}
