//! What the Nodes of a cluster say of themselves.

use crate::{
    api::{MAX_UNHEALTHY_NODES, UnhealthyNode, is_dns_subdomain},
    shoot::Node,
};

/// A node that is not ready, or has not said that it is.
const NOT_READY: &str = "NotReady";
/// The conditions by which a node reports pressure, as Kubernetes calls them.
const PID_PRESSURE: &str = "PIDPressure";
const MEMORY_PRESSURE: &str = "MemoryPressure";
const DISK_PRESSURE: &str = "DiskPressure";

/// All of these, from the worst.
const PRESSURES: [&str; 3] = [PID_PRESSURE, MEMORY_PRESSURE, DISK_PRESSURE];

/// So many nodes are named in a message.
const NAMED: usize = 3;

/// The nodes of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Number of Nodes.
    pub all: usize,
    /// Number of those that are ready and under no pressure.
    pub well: usize,
    /// Number of those that are not ready, or have not said so lately.
    pub not_ready: usize,
    /// Number of those that run out of process IDs.
    pub pid_pressure: usize,
    /// Number of those that run out of memory.
    pub memory_pressure: usize,
    /// Number of those that run out of disk.
    pub disk_pressure: usize,
    /// The first [`MAX_UNHEALTHY_NODES`] that are not as they should be, by name.
    pub unhealthy: Vec<UnhealthyNode>,
}

impl NodeCounts {
    /// Counts these.
    pub fn of(nodes: &[Node]) -> Self {
        let mut counts = Self {
            all: nodes.len(),
            ..Self::default()
        };
        for node in nodes {
            let problems = problems(node);
            if problems.is_empty() {
                counts.well += 1;
                continue;
            }
            for problem in &problems {
                *match *problem {
                    PID_PRESSURE => &mut counts.pid_pressure,
                    MEMORY_PRESSURE => &mut counts.memory_pressure,
                    DISK_PRESSURE => &mut counts.disk_pressure,
                    _ => &mut counts.not_ready,
                } += 1;
            }
            counts.name(UnhealthyNode {
                name: shown(&node.name).to_owned(),
                problems: problems.into_iter().map(str::to_owned).collect(),
            });
        }
        counts
    }

    /// Troubles of these nodes, from the worst, each as a part of a sentence.
    pub(super) fn troubles(&self) -> Vec<String> {
        let kinds = [
            (self.not_ready, NOT_READY, "not ready"),
            (self.pid_pressure, PID_PRESSURE, "under PID pressure"),
            (
                self.memory_pressure,
                MEMORY_PRESSURE,
                "under memory pressure",
            ),
            (self.disk_pressure, DISK_PRESSURE, "under disk pressure"),
        ];
        let some = kinds.into_iter().filter(|(count, ..)| *count > 0);
        some.map(|(count, problem, words)| {
            let verb = if count == 1 { "is" } else { "are" };
            let names = named(self, count, problem);
            format!("{count} of {} nodes {verb} {words}{names}", self.all)
        })
        .collect()
    }

    /// Tells whether these are other troubles than what was said. More nodes that are well are none.
    pub fn is_news(&self, said: &Self) -> bool {
        let (all, well) = (said.all, said.well);
        let as_many = Self {
            all,
            well,
            ..self.clone()
        };
        as_many != *said
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

/// Returns what is wrong with a node, in the words of a ClusterHealth.
fn problems(node: &Node) -> Vec<&'static str> {
    let is_true = |condition: &str| node.true_conditions.iter().any(|it| it == condition);
    let not_ready = (!node.is_ready()).then_some(NOT_READY);
    let pressures = PRESSURES.into_iter().filter(|it| is_true(it));
    not_ready.into_iter().chain(pressures).collect()
}

/// The name of a node, if it is one that an object can have: the shoot may say anything.
fn shown(name: &str) -> &str {
    if is_dns_subdomain(name) {
        name
    } else {
        "(not a name)"
    }
}

/// The first of those with this problem, in brackets.
fn named(counts: &NodeCounts, count: usize, problem: &str) -> String {
    let with = |node: &&UnhealthyNode| node.problems.iter().any(|it| it == problem);
    let names: Vec<&str> = counts
        .unhealthy
        .iter()
        .filter(with)
        .take(NAMED)
        .map(|node| &*node.name)
        .collect();
    match names.len() {
        0 => String::new(),
        some if some < count => format!(" ({}, and {} more)", names.join(", "), count - some),
        _ => format!(" ({})", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_many_are_named() {
        let nodes = ["e", "d", "c", "b", "a"].map(|name| Node {
            name: name.into(),
            ..Node::default()
        });
        let troubles = NodeCounts::of(&nodes).troubles();
        assert_eq!(
            troubles,
            ["5 of 5 nodes are not ready (a, b, c, and 2 more)"]
        );
    }
}
