//! What is known of the state of a cluster, for those who report it.

use crate::api::{ClusterState, MAX_UNHEALTHY_NODES, UnhealthyNode};

/// The state of one cluster, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The state.
    pub state: ClusterState,
    /// Why, as a sentence for people.
    pub message: String,
    /// What its Nodes say. `None` until they were seen.
    pub nodes: Option<NodeCounts>,
}

/// The nodes of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// All of them.
    pub all: usize,
    /// Those that are ready and under no pressure.
    pub well: usize,
    /// Those that are not ready, or have not said so lately.
    pub not_ready: usize,
    /// Those that run out of process IDs.
    pub pid_pressure: usize,
    /// Those that run out of memory.
    pub memory_pressure: usize,
    /// Those that run out of disk.
    pub disk_pressure: usize,
    /// The first [`MAX_UNHEALTHY_NODES`] that are not as they should be, by name.
    pub unhealthy: Vec<UnhealthyNode>,
}

impl NodeCounts {
    /// Whether the second counts tell of other troubles than the first. That a healthy cluster has
    /// grown is none.
    pub fn is_news(&self, said: &Self) -> bool {
        let troubles = |it: &Self| {
            (
                it.not_ready,
                it.pid_pressure,
                it.memory_pressure,
                it.disk_pressure,
            )
        };
        troubles(self) != troubles(said) || self.unhealthy != said.unhealthy
    }

    /// Some nodes of all, as ClusterHealth shows it: `0/3`.
    pub fn of_all(&self, some: usize) -> String {
        format!("{some}/{}", self.all)
    }

    /// Adds a node that is not as it should be, if there is room.
    pub fn name(&mut self, node: UnhealthyNode) {
        let at = self
            .unhealthy
            .partition_point(|known| known.name < node.name);
        self.unhealthy.insert(at, node);
        self.unhealthy.truncate(MAX_UNHEALTHY_NODES);
    }
}
