//! The nodes that count: a silent lease is evidence only if its node is meant to be alive.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    cluster::DEFAULT_NODE_CONDITIONS,
    gardener::Machine,
    shoot::{Digest, Node},
    util::mono_time::MonoTime,
};

/// Limit on the zones of a cluster that are told apart: each takes memory.
const MAX_ZONES: usize = 32;

/// Why a lease is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// No Node has the lease's name: it outlived its node.
    NoNode,
    /// No Machine names the node, so nothing would replace it.
    NoMachine,
    /// Its Machine is `Failed`: it is being replaced already.
    MachineFailed,
    /// Its Machine is `Terminating`, or is being deleted.
    MachineTerminating,
    /// The node is being deleted.
    NodeDeleted,
    /// The node has the taint `node.kubernetes.io/out-of-service`: somebody knows that it is lost.
    OutOfService,
    /// The node's label names a worker pool that is not in the Shoot.
    PoolRemoved,
    /// The node is labelled `node.kubernetes.io/exclude-disruption`, by which people leave it out.
    ExcludedByLabel,
    /// The node is annotated as not managed by machine-controller-manager.
    NotManaged,
    /// A condition that makes machine-controller-manager replace the node is True.
    PoolCondition,
    /// The node is in an in-place update, during which its kubelet stops.
    InPlaceUpdate,
    /// The lease is newer than the last read of Nodes and Machines.
    NotReadYet,
    /// Silent since long before the others, or since before the outage: the [`Assessment`] tells.
    ///
    /// [`Assessment`]: super::verdict::Assessment
    LongSilent,
    /// Silent since before a protection was ended that had lasted for the policy's maxProtection.
    Disregarded,
}

/// Meaning of a node that does not count for its cluster.
#[derive(PartialEq)]
enum Role {
    /// The node is to go, which it does not while the cluster is protected.
    Going,
    /// The node may have another network than the candidates, and is not missed.
    Apart,
    /// The node is meant to be alive.
    Staying,
    /// There is no node, or its lease tells nothing.
    Unknown,
}

impl Exclusion {
    fn row(self) -> (Role, &'static str) {
        use Role::{Apart, Going, Staying, Unknown};
        match self {
            Self::NoNode => (Unknown, "without a Node"),
            Self::NoMachine => (Apart, "without a Machine"),
            Self::MachineFailed => (Going, "with a Failed Machine"),
            Self::MachineTerminating => (Going, "with a Terminating Machine"),
            Self::NodeDeleted => (Going, "whose Node is being deleted"),
            Self::OutOfService => (Going, "tainted node.kubernetes.io/out-of-service"),
            Self::PoolRemoved => (Going, "of a worker pool that is not in the Shoot"),
            Self::ExcludedByLabel => (
                Apart,
                "labelled node.kubernetes.io/exclude-disruption, so not protected",
            ),
            Self::NotManaged => (Apart, "not managed by machine-controller-manager"),
            Self::PoolCondition => (Staying, "with a condition of their worker pool's list"),
            Self::InPlaceUpdate => (Staying, "in an in-place update"),
            Self::NotReadYet => (Staying, "newer than the last read of Nodes and Machines"),
            Self::LongSilent => (Unknown, "silent since long before"),
            Self::Disregarded => (
                Unknown,
                "silent since before the policy's maxProtection was reached",
            ),
        }
    }

    /// Name in messages.
    pub fn describe(self) -> &'static str {
        self.row().1
    }

    /// Returns whether the node is to go, which it does not while the cluster is protected: then a fresh lease counts.
    pub(crate) fn is_going(self) -> bool {
        self.row().0 == Role::Going
    }

    /// Returns whether somebody has decided that the node is not missed. A condition, or an update, says nothing of
    /// that.
    fn is_given_up(self) -> bool {
        matches!(self.row().0, Role::Going | Role::Apart)
    }

    /// Returns whether a fresh lease of such a node is evidence that the network works.
    pub fn is_evidence_if_fresh(self) -> bool {
        matches!(self.row().0, Role::Going | Role::Staying)
    }
}

/// The worker pools of a Shoot, by name: the node conditions on which their machines are replaced.
pub type Pools = BTreeMap<String, Vec<String>>;

/// State of a lease's node, and its zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Why its lease does not count; `None` if it does.
    pub(crate) excluded: Option<Exclusion>,
    /// The name of its zone, which its leases share; `None` if its Node does not say.
    pub(crate) zone: Option<Arc<str>>,
    /// Its Node says that it is Ready.
    pub(crate) ready: bool,
}

impl Place {
    /// A place of which no more is known.
    pub(super) fn of(excluded: Option<Exclusion>) -> Self {
        Self {
            excluded,
            ..Self::default()
        }
    }

    pub(super) fn is_unread(&self) -> bool {
        self.excluded == Some(Exclusion::NotReadYet)
    }
}

/// Facts about the leases of a cluster, from its Nodes and Machines as they were read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// When the reads began.
    pub began: MonoTime,
    places: HashMap<Digest, Place>,
    zones: BTreeSet<Arc<str>>,
    /// The seed serves Machines; otherwise the rules about them are skipped.
    pub(super) has_machines: bool,
    /// A Machine names no node: it may be that of a Node without one.
    unnamed: bool,
}

impl Facts {
    /// Reads that began then, and of which nothing has come.
    pub fn new(began: MonoTime) -> Self {
        Self {
            began,
            ..Self::default()
        }
    }

    /// Takes in a Node.
    pub fn take_node(&mut self, node: &Node, pools: &Pools) {
        let zone = zone(node).and_then(|name| {
            if self.zones.len() < MAX_ZONES {
                self.zones.insert(name.into());
            }
            self.zones.get(name).cloned()
        });
        let place = Place {
            excluded: excluded(node, pools),
            zone,
            ready: node.is_ready(),
        };
        self.places.insert((&*node.name).into(), place);
    }

    /// Takes in the Machines, once all Nodes are there. Of several Machines of one node, a live one decides.
    pub fn take_machines(&mut self, machines: &[Machine]) {
        let mut by_node = HashMap::with_capacity(machines.len());
        for machine in machines {
            let excluded = match machine.phase.as_deref() {
                Some("Failed") => Some(Exclusion::MachineFailed),
                Some("Terminating") => Some(Exclusion::MachineTerminating),
                // While the machine-controller-manager does not run, the phase does not say so.
                _ if machine.deleted => Some(Exclusion::MachineTerminating),
                _ => None,
            };
            let Some(node) = machine.node.as_deref() else {
                self.unnamed = true;
                continue;
            };
            let known = by_node.entry(Digest::from(node)).or_insert(excluded);
            *known = excluded.and(*known);
        }
        for (name, place) in &mut self.places {
            let of_machine = by_node.get(name).copied();
            let of_machine = of_machine.unwrap_or(Some(Exclusion::NoMachine));
            place.excluded = match place.excluded {
                by_people @ Some(Exclusion::ExcludedByLabel | Exclusion::NotManaged) => by_people,
                by_itself => of_machine.or(by_itself),
            };
        }
        self.has_machines = true;
    }

    /// Counts the Nodes that count, whether or not they have a lease, and those that are meant to be alive.
    pub(super) fn counts(&self) -> (usize, usize) {
        let is_alive = |why: Exclusion| match why {
            Exclusion::NoMachine => self.unnamed,
            why => !why.is_given_up(),
        };
        let all = self.places.values().map(|place| place.excluded);
        let alive = all.clone().filter(|why| why.is_none_or(is_alive));
        (all.filter(Option::is_none).count(), alive.count())
    }

    /// The place of the lease of this name.
    pub(super) fn of(&self, lease: Digest) -> Place {
        let place = self.places.get(&lease).cloned();
        place.unwrap_or_else(|| Place::of(Some(Exclusion::NoNode)))
    }
}

/// The zone of a node, if it is a valid value of a label: messages quote it, and the shoot may send
/// any text.
fn zone(node: &Node) -> Option<&str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let zone = node.zone.as_deref()?;
    zone.bytes().all(allowed).then_some(zone)
}

/// Returns why the lease of a node does not count, by the Node alone.
fn excluded(node: &Node, pools: &Pools) -> Option<Exclusion> {
    let pool = node.worker_pool.as_deref();
    let listed = pool.map(|pool| pools.get(pool));
    let replaced_for = |condition: &String| match listed.flatten() {
        Some(listed) => listed.contains(condition),
        None => DEFAULT_NODE_CONDITIONS.contains(&&**condition),
    };
    let rules = [
        (node.exclude_disruption, Exclusion::ExcludedByLabel),
        (node.not_managed_by_mcm, Exclusion::NotManaged),
        (node.deleted, Exclusion::NodeDeleted),
        (node.out_of_service, Exclusion::OutOfService),
        (listed == Some(None), Exclusion::PoolRemoved),
        (node.in_place_update, Exclusion::InPlaceUpdate),
        (
            node.true_conditions.iter().any(replaced_for),
            Exclusion::PoolCondition,
        ),
    ];
    let mut rules = rules.into_iter();
    rules.find_map(|(applies, why)| applies.then_some(why))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            ..Node::default()
        }
    }

    fn ill(pool: Option<&str>, conditions: &[&str]) -> Node {
        Node {
            worker_pool: pool.map(str::to_owned),
            true_conditions: conditions.iter().map(|c| (*c).to_owned()).collect(),
            ..node("n")
        }
    }

    fn unmanaged(node: Node) -> Node {
        Node {
            not_managed_by_mcm: true,
            ..node
        }
    }

    fn labelled(node: Node) -> Node {
        Node {
            exclude_disruption: true,
            ..node
        }
    }

    fn deleted(node: Node) -> Node {
        Node {
            deleted: true,
            ..node
        }
    }

    fn lost(node: Node) -> Node {
        Node {
            out_of_service: true,
            ..node
        }
    }

    /// Machines of the node, the last of which is being deleted.
    fn last_deleted(count: usize) -> Option<Vec<Machine>> {
        let mut machines = of(&vec!["Running"; count])?;
        machines.last_mut()?.deleted = true;
        Some(machines)
    }

    fn updating(node: Node) -> Node {
        Node {
            in_place_update: true,
            ..node
        }
    }

    fn machine(node: Option<&str>, phase: Option<&str>) -> Machine {
        Machine {
            node: node.map(str::to_owned),
            phase: phase.map(str::to_owned),
            deleted: false,
        }
    }

    fn of(phases: &[&str]) -> Option<Vec<Machine>> {
        let machines = phases.iter().map(|phase| machine(Some("n"), Some(phase)));
        Some(machines.collect())
    }

    fn facts(nodes: Vec<Node>, machines: Option<Vec<Machine>>) -> Facts {
        let mut facts = Facts::new(MonoTime::default());
        nodes.iter().for_each(|it| facts.take_node(it, &pools()));
        machines.iter().for_each(|it| facts.take_machines(it));
        facts
    }

    /// The place of the lease `n`, where this is the only Node.
    fn place(node: Node, machines: Option<Vec<Machine>>) -> Place {
        facts(vec![node], machines).of("n".into())
    }

    fn pools() -> Pools {
        BTreeMap::from([
            ("own".to_owned(), vec!["Rusty".to_owned()]),
            ("none".to_owned(), Vec::new()),
        ])
    }

    const COUNTS: Option<Exclusion> = None;

    const fn excluded(why: Exclusion) -> Option<Exclusion> {
        Some(why)
    }

    #[rstest]
    #[case::running(node("n"), of(&["Running"]), COUNTS)]
    #[case::phase_not_set(node("n"), Some(vec![machine(Some("n"), None)]), COUNTS)]
    #[case::unknown_counts(node("n"), of(&["Unknown"]), COUNTS)]
    #[case::failed(node("n"), of(&["Failed"]), excluded(Exclusion::MachineFailed))]
    #[case::terminating(node("n"), of(&["Terminating"]), excluded(Exclusion::MachineTerminating))]
    #[case::one_alive_decides(node("n"), of(&["Failed", "Running", "Terminating"]), COUNTS)]
    #[case::none_alive(node("n"), of(&["Terminating", "Terminating"]), excluded(Exclusion::MachineTerminating))]
    #[case::no_machine(node("n"), of(&[]), excluded(Exclusion::NoMachine))]
    #[case::machine_of_another(node("n"), Some(vec![machine(Some("m"), Some("Running")), machine(None, None)]), excluded(Exclusion::NoMachine))]
    #[case::machines_not_served(node("n"), None, COUNTS)]
    #[case::lease_without_node(node("m"), of(&["Running"]), excluded(Exclusion::NoNode))]
    #[case::lease_without_node_or_machine(node("m"), None, excluded(Exclusion::NoNode))]
    #[case::unmanaged(unmanaged(node("n")), of(&["Running"]), excluded(Exclusion::NotManaged))]
    #[case::unmanaged_and_machines_not_served(
        unmanaged(node("n")),
        None,
        excluded(Exclusion::NotManaged)
    )]
    #[case::labelled(labelled(node("n")), of(&["Running"]), excluded(Exclusion::ExcludedByLabel))]
    #[case::labelled_before_all(labelled(unmanaged(node("n"))), of(&[]), excluded(Exclusion::ExcludedByLabel))]
    #[case::updating(updating(node("n")), of(&["Running"]), excluded(Exclusion::InPlaceUpdate))]
    #[case::updating_and_machines_not_served(
        updating(node("n")),
        None,
        excluded(Exclusion::InPlaceUpdate)
    )]
    #[case::unmanaged_before_machine(unmanaged(node("n")), of(&["Failed"]), excluded(Exclusion::NotManaged))]
    #[case::unmanaged_before_no_machine(unmanaged(node("n")), of(&[]), excluded(Exclusion::NotManaged))]
    #[case::machine_before_update(updating(node("n")), of(&["Failed"]), excluded(Exclusion::MachineFailed))]
    #[case::machine_before_condition(ill(None, &["DiskPressure"]), of(&["Failed"]), excluded(Exclusion::MachineFailed))]
    #[case::update_before_condition(updating(ill(None, &["DiskPressure"])), of(&["Running"]), excluded(Exclusion::InPlaceUpdate))]
    #[case::deleted(deleted(node("n")), of(&["Running"]), excluded(Exclusion::NodeDeleted))]
    #[case::deleted_and_machines_not_served(
        deleted(node("n")),
        None,
        excluded(Exclusion::NodeDeleted)
    )]
    #[case::out_of_service(lost(node("n")), of(&["Running"]), excluded(Exclusion::OutOfService))]
    #[case::machine_deleted(node("n"), last_deleted(1), excluded(Exclusion::MachineTerminating))]
    #[case::one_alive_beside_a_deleted(node("n"), last_deleted(2), COUNTS)]
    #[case::pool_removed(ill(Some("gone"), &[]), of(&["Running"]), excluded(Exclusion::PoolRemoved))]
    #[case::pool_there(ill(Some("own"), &[]), of(&["Running"]), COUNTS)]
    // It may have another network.
    #[case::no_machine_before_deleted(deleted(node("n")), of(&[]), excluded(Exclusion::NoMachine))]
    #[case::pool_before_update(updating(ill(Some("gone"), &[])), None, excluded(Exclusion::PoolRemoved))]
    fn nodes_and_machines(
        #[case] node: Node,
        #[case] machines: Option<Vec<Machine>>,
        #[case] expected: Option<Exclusion>,
    ) {
        assert_eq!(place(node, machines).excluded, expected);
    }

    #[rstest]
    #[case::no_pool(None, "KernelDeadlock", false)]
    #[case::no_pool(None, "ReadonlyFilesystem", false)]
    #[case::no_pool(None, "DiskPressure", false)]
    #[case::no_pool(None, "NetworkUnavailable", false)]
    #[case::no_pool(None, "Ready", true)]
    #[case::no_pool(None, "MemoryPressure", true)]
    #[case::own_list(Some("own"), "Rusty", false)]
    #[case::own_list_replaces_the_default(Some("own"), "DiskPressure", true)]
    #[case::empty_list(Some("none"), "DiskPressure", true)]
    fn conditions(#[case] pool: Option<&str>, #[case] condition: &str, #[case] counts: bool) {
        let expected = match counts {
            true => COUNTS,
            false => excluded(Exclusion::PoolCondition),
        };
        // The rule needs no Machines.
        for machines in [of(&["Running"]), None] {
            let node = ill(pool, &["Ready", condition]);
            assert_eq!(place(node, machines).excluded, expected);
        }
    }

    /// That it is gone, or without a lease, is no decision.
    #[rstest]
    #[case::with_a_condition(ill(None, &["NetworkUnavailable"]), None, 1)]
    #[case::without_a_lease(node("m"), None, 1)]
    #[case::no_machine_of_it(node("n"), Some(vec![machine(Some("m"), None)]), 0)]
    // Which may be its own.
    #[case::a_machine_that_names_no_node(node("n"), Some(vec![machine(Some("m"), None), machine(None, None)]), 1)]
    fn a_node_is_meant_to_be_alive_until_somebody_gives_it_up(
        #[case] node: Node,
        #[case] machines: Option<Vec<Machine>>,
        #[case] alive: usize,
    ) {
        assert_eq!(facts(vec![node], machines).counts().1, alive);
    }

    #[test]
    fn nodes_are_where_their_label_says() {
        let zoned = |name: &str, zone: Option<&str>| Node {
            zone: zone.map(str::to_owned),
            ..node(name)
        };
        let nodes = vec![
            zoned("n", Some("b")),
            zoned("o", Some("a")),
            zoned("p", None),
            zoned("q", Some("b")),
            zoned("s", Some("a\nb")),
        ];
        let facts = facts(nodes, None);
        let leases = ["n", "o", "p", "q", "s", "gone"];
        let found = leases.map(|lease| facts.of(lease.into()).zone);
        let expected = [Some("b"), Some("a"), None, Some("b"), None, None];
        assert_eq!(found, expected.map(|zone| zone.map(Arc::from)));
    }
}
