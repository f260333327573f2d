//! What the Nodes of a cluster say of themselves.

use crate::{
    api::{MAX_UNHEALTHY_NODES, UnhealthyNode, is_dns_subdomain},
    shoot::Node,
};

/// The problem of a node that is not ready, or has not said that it is.
pub(super) const NOT_READY: &str = "NotReady";
/// Conditions by which a node reports pressure, as Kubernetes calls them.
pub(crate) const PID_PRESSURE: &str = "PIDPressure";
pub(crate) const MEMORY_PRESSURE: &str = "MemoryPressure";
pub(crate) const DISK_PRESSURE: &str = "DiskPressure";

/// Problems of a node, from the worst, each with its words in a sentence.
const PROBLEMS: [(&str, &str); 4] = [
    (NOT_READY, "not ready"),
    (PID_PRESSURE, "under PID pressure"),
    (MEMORY_PRESSURE, "under memory pressure"),
    (DISK_PRESSURE, "under disk pressure"),
];

/// Number of nodes that are named in a message.
const NAMED: usize = 3;

/// The nodes of a cluster, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Number of Nodes.
    pub all: usize,
    /// Number of those that are ready and under no pressure.
    pub well: usize,
    /// Number of those with each problem.
    troubled: [usize; PROBLEMS.len()],
    /// The first [`MAX_UNHEALTHY_NODES`] that are not as they should be, by name.
    pub unhealthy: Vec<UnhealthyNode>,
}

impl NodeCounts {
    /// Counts this one as well.
    pub(crate) fn take(&mut self, node: &Node) {
        self.all += 1;
        let Some(node) = unhealthy(node) else {
            self.well += 1;
            return;
        };
        for (count, (problem, _)) in self.troubled.iter_mut().zip(PROBLEMS) {
            *count += usize::from(has(&node, problem));
        }
        let before = |other: &UnhealthyNode| other.name <= node.name;
        let place = self.unhealthy.partition_point(before);
        self.unhealthy.insert(place, node);
        self.unhealthy.truncate(MAX_UNHEALTHY_NODES);
    }

    /// Number of nodes with this problem.
    pub(crate) fn with(&self, problem: &str) -> usize {
        let mut counts = self.troubled.iter().zip(PROBLEMS);
        let count = counts.find(|(_, (it, _))| *it == problem);
        count.map_or(0, |(count, _)| *count)
    }

    /// Troubles of these nodes, from the worst, each as a part of a sentence.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        let troubles = self.troubled.into_iter().zip(PROBLEMS);
        let troubles = troubles.filter(|(count, _)| *count > 0);
        troubles.map(|(count, (problem, words))| {
            let verb = if count == 1 { "is" } else { "are" };
            let named = self.unhealthy.iter().filter(|node| has(node, problem));
            let mut names: Vec<_> = named.map(|node| &*node.name).take(NAMED).collect();
            if names.len() < count {
                names.push("…");
            }
            let (all, names) = (self.all, names.join(", "));
            format!("{count} of {all} nodes {verb} {words} ({names})")
        })
    }
}

/// Describes a node that is not as it should be. The shoot may give it any name.
fn unhealthy(node: &Node) -> Option<UnhealthyNode> {
    let problems = PROBLEMS.into_iter().map(|(problem, _)| problem);
    let problems = problems.filter(|problem| match *problem {
        NOT_READY => !node.is_ready(),
        pressure => node.true_conditions.iter().any(|it| it == pressure),
    });
    let problems: Vec<_> = problems.map(str::to_owned).collect();
    let name = match is_dns_subdomain(&node.name) {
        true => &*node.name,
        false => "(not a name)",
    };
    let name = name.to_owned();
    (!problems.is_empty()).then_some(UnhealthyNode { name, problems })
}

fn has(node: &UnhealthyNode, problem: &str) -> bool {
    node.problems.iter().any(|it| it == problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_many_are_named() {
        let mut counts = NodeCounts::default();
        for name in ["e", "d", "c", "b", "a"] {
            counts.take(&Node {
                name: name.into(),
                ..Node::default()
            });
        }
        let troubles: Vec<_> = counts.troubles().collect();
        assert_eq!(troubles, ["5 of 5 nodes are not ready (a, b, c, …)"]);
    }
}
