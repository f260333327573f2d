//! What the Nodes of a cluster say of themselves.

use super::view::NodeCounts;
use crate::{
    api::{ClusterHealthStatus, MAX_UNHEALTHY_NODES, UnhealthyNode, is_dns_subdomain},
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

    /// What was reported of them; `None` if nothing was that can have been so. How many were not ready is
    /// told only by those that were named.
    pub fn recalled(status: &ClusterHealthStatus) -> Option<Self> {
        let (well, all) = status.nodes.as_deref()?.split_once('/')?;
        let all: usize = all.parse().ok()?;
        let count = |text: &str| text.parse().ok().filter(|some| *some <= all);
        let some = |text: &Option<String>| count(text.as_deref()?.split_once('/')?.0);
        let mut counts = Self {
            all,
            well: count(well)?,
            pid_pressure: some(&status.nodes_pid_pressure)?,
            memory_pressure: some(&status.nodes_memory_pressure)?,
            disk_pressure: some(&status.nodes_disk_pressure)?,
            ..Self::default()
        };
        // It may have been edited, under rules that no longer hold; it is reported again as it is here.
        for node in status
            .unhealthy_nodes
            .iter()
            .take(MAX_UNHEALTHY_NODES.min(all))
        {
            let known = |problem: &&str| node.problems.iter().any(|it| it == problem);
            let problems = [NOT_READY].into_iter().chain(PRESSURES).filter(known);
            counts.name(UnhealthyNode {
                name: shown(&node.name).to_owned(),
                problems: problems.map(str::to_owned).collect(),
            });
        }
        let not_ready = |node: &&UnhealthyNode| node.problems.iter().any(|it| it == NOT_READY);
        counts.not_ready = counts.unhealthy.iter().filter(not_ready).count();
        Some(counts)
    }
}

/// What is wrong with a node, in the words of a ClusterHealth.
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

/// What is wrong with them, from the worst, each as a part of a sentence.
pub(super) fn troubles(counts: &NodeCounts) -> Vec<String> {
    let kinds = [
        (counts.not_ready, NOT_READY, "not ready"),
        (counts.pid_pressure, PID_PRESSURE, "under PID pressure"),
        (
            counts.memory_pressure,
            MEMORY_PRESSURE,
            "under memory pressure",
        ),
        (counts.disk_pressure, DISK_PRESSURE, "under disk pressure"),
    ];
    let some = kinds.into_iter().filter(|(count, ..)| *count > 0);
    some.map(|(count, problem, words)| {
        let verb = if count == 1 { "is" } else { "are" };
        let names = named(counts, count, problem);
        format!("{count} of {} nodes {verb} {words}{names}", counts.all)
    })
    .collect()
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
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn node(name: &str, conditions: &[&str]) -> Node {
        Node {
            name: name.into(),
            true_conditions: conditions.iter().map(|it| (*it).to_owned()).collect(),
            ..Node::default()
        }
    }

    #[rstest]
    #[case::well(&["Ready"], &[])]
    #[case::well_by_its_network(&["NetworkUnavailable", "Ready"], &[])]
    #[case::nothing_said(&[], &["NotReady"])]
    #[case::pids(&["Ready", "PIDPressure"], &["PIDPressure"])]
    #[case::memory(&["MemoryPressure", "Ready"], &["MemoryPressure"])]
    #[case::disk(&["Ready", "DiskPressure"], &["DiskPressure"])]
    #[case::all(
        &["DiskPressure", "MemoryPressure", "PIDPressure"],
        &["NotReady", "PIDPressure", "MemoryPressure", "DiskPressure"]
    )]
    fn what_is_wrong_with_a_node(#[case] conditions: &[&str], #[case] expected: &[&str]) {
        assert_eq!(problems(&node("n", conditions)), expected);
    }

    #[test]
    fn a_few_of_many_are_named() {
        let nodes: Vec<Node> = ["e", "d", "c", "b", "a"].map(|name| node(name, &[])).into();
        let troubles = troubles(&NodeCounts::of(&nodes));
        assert_eq!(
            troubles,
            ["5 of 5 nodes are not ready (a, b, c, and 2 more)"]
        );
    }

    #[test]
    fn a_record_of_what_cannot_be_is_not_recalled() {
        let recalled = |nodes: &str, pressed: &str| {
            NodeCounts::recalled(&ClusterHealthStatus {
                nodes: Some(nodes.to_owned()),
                nodes_pid_pressure: Some(pressed.to_owned()),
                nodes_memory_pressure: Some("0/3".to_owned()),
                nodes_disk_pressure: Some("0/3".to_owned()),
                unhealthy_nodes: vec![
                    UnhealthyNode {
                        name: "a\nb".to_owned(),
                        problems: vec!["no\nword".to_owned(), NOT_READY.to_owned()],
                    };
                    MAX_UNHEALTHY_NODES + 1
                ],
                ..ClusterHealthStatus::default()
            })
        };
        for (nodes, pressed) in [
            ("4/3", "0/3"),
            ("2/3", "4/3"),
            ("-1/3", "0/3"),
            ("3", "0/3"),
        ] {
            assert_eq!(recalled(nodes, pressed), None, "{nodes} {pressed}");
        }
        let counts = recalled("7/50", "0/50").unwrap();
        assert_eq!((counts.all, counts.well), (50, 7));
        assert_eq!(counts.unhealthy.len(), MAX_UNHEALTHY_NODES);
        let all = |holds: fn(&UnhealthyNode) -> bool| counts.unhealthy.iter().all(holds);
        assert!(all(
            |it| it.name == "(not a name)" && it.problems == [NOT_READY]
        ));
    }

    proptest! {
        /// What a record tells is what was counted, as long as all are named.
        #[test]
        fn a_record_recalls_the_counts(
            nodes in prop::collection::vec(
                prop::sample::subsequence(vec!["Ready", "PIDPressure", "MemoryPressure", "DiskPressure"], 0..=4),
                0..=MAX_UNHEALTHY_NODES,
            )
        ) {
            let nodes: Vec<Node> = nodes
                .iter()
                .enumerate()
                .map(|(index, conditions)| node(&format!("n{index}"), conditions))
                .collect();
            let counts = NodeCounts::of(&nodes);
            prop_assert!(counts.well + counts.unhealthy.len() == counts.all);
            let status = ClusterHealthStatus {
                nodes: Some(counts.of_all(counts.well)),
                nodes_pid_pressure: Some(counts.of_all(counts.pid_pressure)),
                nodes_memory_pressure: Some(counts.of_all(counts.memory_pressure)),
                nodes_disk_pressure: Some(counts.of_all(counts.disk_pressure)),
                unhealthy_nodes: counts.unhealthy.clone(),
                ..ClusterHealthStatus::default()
            };
            prop_assert_eq!(NodeCounts::recalled(&status), Some(counts));
        }
    }
}
