//! What the objects of a shoot are called.

/// Where nodes are.
pub(super) const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// The name of a shoot's Cluster and of its namespace in the seed.
pub fn namespace(shoot: usize) -> String {
    format!("shoot--bench--s{shoot:04}")
}

/// The name of a node, as the machine-controller-manager gives them.
pub fn node_name(shoot: usize, node: usize) -> String {
    let zone = node % ZONES.len() + 1;
    format!("{}-worker-z{zone}-5d7f9-{node:05}", namespace(shoot))
}

/// So many nodes in the order of their names, in which an API server lists them, as etcd does.
pub(super) fn by_name(nodes: usize) -> impl Iterator<Item = usize> {
    (0..ZONES.len()).flat_map(move |zone| (zone..nodes).step_by(ZONES.len()))
}

/// The UID of one of a node's objects, by a number for its kind.
pub(super) fn uid(kind: u16, shoot: usize, node: usize) -> String {
    format!("{shoot:08x}-{kind:04x}-4000-8000-{node:012x}")
}
