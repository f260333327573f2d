//! Reads what tells which leases count: Machines from the seed, Nodes from the shoot.
//!
//! Lists of Nodes are the largest of all answers, so few are read at once over all clusters, and a
//! shoot that hangs is sent where it holds up none but its like.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::{
    api::{ListParams, Request as Path},
    core::{ObjectList, Resource},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use super::evidence::EvidenceError;
use crate::{
    gardener::Machine,
    runtime::seed::Seed,
    shoot::{Consistency, Node, ReadError, Shoot},
    util::text::clean,
};

/// The kind of a list of Machines.
const MACHINE_LIST: &str = "MachineList";
/// So much is told of what another list calls itself, in characters.
const MAX_KIND: usize = 100;
/// So many lists of Nodes are read at once: one can have 128 MiB, and a node takes 15 to 20 KB.
const NODE_LISTS: usize = 16;
/// And so many of shoots that do not finish theirs, or slowly. They may use up all their time, in
/// which nobody else could read: hence a room of their own.
const SLOW_NODE_LISTS: usize = 4;
/// And so few for no verdict: at the start all are read, and what those take beside each other is never
/// needed again.
const LEISURELY_NODE_LISTS: usize = 4;
/// Whose list takes longer is slow: one of 5,000 nodes takes a second or two.
const SLOW: Duration = Duration::from_secs(5);

/// What Nodes and Machines tell.
pub struct Facts {
    /// When it was our turn to read them.
    pub began: Instant,
    /// The shoot's nodes.
    pub nodes: Vec<Node>,
    /// The cluster's Machines; `None` where the seed does not serve them.
    pub machines: Option<Vec<Machine>>,
}

/// What the reads of all clusters share. Clones are the same.
#[derive(Clone)]
pub(super) struct Rooms {
    /// What can wait.
    seed: Seed,
    /// What a scale-down waits for.
    urgent: Seed,
    node_lists: Arc<Semaphore>,
    slow_node_lists: Arc<Semaphore>,
    leisurely_node_lists: Arc<Semaphore>,
}

impl Rooms {
    pub(super) fn new(seed: Seed, urgent: &Seed) -> Self {
        Self {
            seed,
            urgent: urgent.urgent(),
            node_lists: Arc::new(Semaphore::new(NODE_LISTS)),
            slow_node_lists: Arc::new(Semaphore::new(SLOW_NODE_LISTS)),
            leisurely_node_lists: Arc::new(Semaphore::new(LEISURELY_NODE_LISTS)),
        }
    }
}

/// Whether the facts of a cluster can be read now for no verdict.
pub enum Leisure {
    /// There is room, as long as this lives.
    Room(Room),
    /// Others have it all.
    NoRoom,
    /// Its list of Nodes takes long, so that it is read among its like alone.
    Slow,
}

/// Room for one read of facts at leisure.
pub struct Room(#[expect(dead_code, reason = "it is given back with this")] OwnedSemaphorePermit);

/// Reads the facts of one cluster. Clones are the same.
#[derive(Clone)]
pub(super) struct Reader {
    rooms: Rooms,
    cluster: Arc<str>,
    /// The last list of Nodes failed, or took long.
    slow: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn new(rooms: Rooms, cluster: Arc<str>) -> Self {
        Self {
            rooms,
            cluster,
            slow: Arc::default(),
        }
    }

    /// Reads them for a verdict that depends on them. `patience` is the time that may be spent on
    /// Nodes.
    pub(super) async fn read(
        self,
        shoot: Shoot,
        consistency: Consistency,
        patience: Duration,
    ) -> Result<Facts, EvidenceError> {
        let urgent = &self.rooms.urgent;
        urgent.turn().await;
        let began = Instant::now();
        let machines = self.machines(urgent, consistency).await?;
        let nodes = self.nodes(&shoot, consistency, patience).await?;
        Ok(Facts {
            began,
            nodes,
            machines,
        })
    }

    /// Whether they can be read at leisure. Nobody waits for room: who is at the front of a queue has
    /// hardly any time left until its leases are due.
    pub(super) fn leisure(&self) -> Leisure {
        if self.slow.load(Ordering::Relaxed) {
            return Leisure::Slow;
        }
        let room = self.rooms.leisurely_node_lists.clone();
        room.try_acquire_owned()
            .map_or(Leisure::NoRoom, |permit| Leisure::Room(Room(permit)))
    }

    /// Reads them if that is quick: no verdict waits for them, and they are to keep none waiting. A
    /// turn on the seed is not to be spent on waiting for the room.
    pub(super) async fn read_at_leisure(
        self,
        shoot: Shoot,
        _room: Room,
        consistency: Consistency,
    ) -> Result<Facts, EvidenceError> {
        let seed = &self.rooms.seed;
        seed.turn().await;
        let began = Instant::now();
        let machines = self.machines(seed, consistency).await?;
        let _permit = self.rooms.node_lists.acquire().await;
        let nodes = shoot.nodes(consistency, SLOW).await;
        if let Err(ReadError::Timeout { .. }) = nodes {
            self.slow.store(true, Ordering::Relaxed);
        }
        Ok(Facts {
            began,
            nodes: nodes?,
            machines,
        })
    }

    /// Lists the Nodes when there is room. To wait for it costs nothing of the time that the list
    /// may take, but is no longer than that. Unlike the leases, the nodes are worth the whole time that
    /// a probe may take: they are hundreds of times as large, and read seldom.
    async fn nodes(
        &self,
        shoot: &Shoot,
        consistency: Consistency,
        patience: Duration,
    ) -> Result<Vec<Node>, EvidenceError> {
        let (room, limit) = match self.slow.load(Ordering::Relaxed) {
            true => (&self.rooms.slow_node_lists, patience),
            false => (&self.rooms.node_lists, patience.min(SLOW)),
        };
        let _permit = timeout(patience, room.acquire())
            .await
            .map_err(|_| EvidenceError::NoRoom(patience))?;
        let began = Instant::now();
        let nodes = shoot.nodes(consistency, limit).await;
        let slow = match &nodes {
            Ok(_) => Some(began.elapsed() > SLOW),
            Err(ReadError::Timeout { .. }) => Some(true),
            // In whatever way it fails in the end: it has kept others waiting.
            Err(_) => (began.elapsed() > SLOW / 2).then_some(true),
        };
        if let Some(slow) = slow {
            self.slow.store(slow, Ordering::Relaxed);
        }
        Ok(nodes?)
    }

    /// Lists the Machines, for which it is our turn.
    async fn machines(
        &self,
        seed: &Seed,
        consistency: Consistency,
    ) -> Result<Option<Vec<Machine>>, EvidenceError> {
        let error = |message: String| EvidenceError::Seed {
            what: format!("the Machines in namespace {}", self.cluster),
            message,
        };
        let params = match consistency {
            Consistency::Cached => ListParams::default().match_any(),
            Consistency::Consistent => ListParams::default(),
        };
        let request = Path::new(Machine::url_path(&(), Some(&self.cluster)))
            .list(&params)
            .map_err(|refused| error(refused.to_string()))?;
        let answer = seed
            .call_at_turn(seed.client().request::<ObjectList<Machine>>(request))
            .await;
        let list = match answer {
            Ok(list) => list,
            Err(failed) if failed.code() == Some(404) => return Ok(None),
            Err(failed) => return Err(error(failed.to_string())),
        };
        // Any object with items would do as a list, and one without Machines would take all nodes
        // out of the count: a silent cluster would look like one with nothing to protect.
        if list.types.kind != MACHINE_LIST {
            let kind = clean(&list.types.kind, MAX_KIND);
            let came = format!("kind {kind:?} came instead of {MACHINE_LIST}");
            return Err(error(came));
        }
        Ok(Some(list.items))
    }
}
