//! Which nodes count: a silent lease is evidence only if its node is meant to be alive.

use std::collections::{BTreeMap, HashMap};

use crate::{cluster::DEFAULT_NODE_CONDITIONS, gardener::Machine, shoot::Node};

/// Why a lease is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// No Node has the lease's name: it outlived its node.
    NoNode,
    /// No Machine names the node, so nothing would replace it.
    NoMachine,
    /// Its Machine is `Failed`: it is being replaced already.
    MachineFailed,
    /// Its Machine is `Terminating`.
    MachineTerminating,
    /// The node is annotated as not managed by machine-controller-manager.
    NotManaged,
    /// A condition that makes machine-controller-manager replace the node is True.
    PoolCondition,
    /// The node is in an in-place update, during which its kubelet stops.
    InPlaceUpdate,
}

impl Exclusion {
    /// How messages name it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NoNode => "without a Node",
            Self::NoMachine => "without a Machine",
            Self::MachineFailed => "with a Failed Machine",
            Self::MachineTerminating => "with a Terminating Machine",
            Self::NotManaged => "not managed by machine-controller-manager",
            Self::PoolCondition => "with a condition of their worker pool's list",
            Self::InPlaceUpdate => "in an in-place update",
        }
    }
}

/// The node conditions on which a worker pool's machines are replaced, by pool name.
pub type PoolConditions = BTreeMap<String, Vec<String>>;

/// The nodes of a cluster and whether each counts, as of the last read of Nodes and Machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    standings: HashMap<Box<str>, Standing>,
    machines: Option<usize>,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its lease counts.
    Counts,
    /// Its lease does not count.
    Excluded(Exclusion),
}

impl Roster {
    /// Applies the rules to what was read. `machines` is `None` where the seed does not serve them:
    /// then the rules about Machines are skipped.
    pub fn new(nodes: &[Node], machines: Option<&[Machine]>, pools: &PoolConditions) -> Self {
        let machine_of = machines.map(standing_of_machines);
        let standings = nodes
            .iter()
            .map(|node| {
                let standing = standing(node, machine_of.as_ref(), pools);
                (node.name.clone(), standing)
            })
            .collect();
        Self {
            standings,
            machines: machines.map(<[Machine]>::len),
        }
    }

    /// Whether the lease of this name counts. While the cluster is protected its Machines' phases
    /// are frozen, so that a fresh lease speaks for itself.
    pub fn standing(&self, lease: &str, protected_and_fresh: bool) -> Standing {
        let standing = self.standings.get(lease).copied();
        match standing.unwrap_or(Standing::Excluded(Exclusion::NoNode)) {
            Standing::Excluded(Exclusion::MachineFailed | Exclusion::MachineTerminating)
                if protected_and_fresh =>
            {
                Standing::Counts
            }
            other => other,
        }
    }

    /// The number of Machines, or `None` where the seed does not serve them.
    pub fn machines(&self) -> Option<usize> {
        self.machines
    }
}

/// The verdict on each node that a Machine names. Of several Machines of one node, one that is
/// alive decides.
fn standing_of_machines(machines: &[Machine]) -> HashMap<&str, Standing> {
    let mut by_node = HashMap::with_capacity(machines.len());
    for machine in machines {
        let Some(node) = machine.node() else { continue };
        let standing = match machine.phase.as_deref() {
            Some("Failed") => Standing::Excluded(Exclusion::MachineFailed),
            Some("Terminating") => Standing::Excluded(Exclusion::MachineTerminating),
            _ => Standing::Counts,
        };
        let entry = by_node.entry(node).or_insert(standing);
        if standing == Standing::Counts {
            *entry = standing;
        }
    }
    by_node
}

fn standing(
    node: &Node,
    machine_of: Option<&HashMap<&str, Standing>>,
    pools: &PoolConditions,
) -> Standing {
    if node.not_managed_by_mcm {
        return Standing::Excluded(Exclusion::NotManaged);
    }
    if let Some(machine_of) = machine_of {
        match machine_of.get(&*node.name) {
            None => return Standing::Excluded(Exclusion::NoMachine),
            Some(Standing::Excluded(why)) => return Standing::Excluded(*why),
            Some(Standing::Counts) => {}
        }
    }
    if node.in_place_update {
        return Standing::Excluded(Exclusion::InPlaceUpdate);
    }
    let listed = node.worker_pool.as_deref().and_then(|pool| pools.get(pool));
    let replaced_for = |condition: &str| match listed {
        Some(listed) => listed.iter().any(|entry| entry == condition),
        None => DEFAULT_NODE_CONDITIONS.contains(&condition),
    };
    if node.true_conditions.iter().any(|c| replaced_for(c)) {
        return Standing::Excluded(Exclusion::PoolCondition);
    }
    Standing::Counts
}
