//! What the objects of a shoot are called.

/// Where nodes are.
pub(super) const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// The name of a node, as the machine-controller-manager gives them.
pub fn node_name(shoot: usize, node: usize) -> String {
    let zone = node % ZONES.len() + 1;
    format!("shoot--bench--s{shoot:04}-worker-z{zone}-5d7f9-{node:05}")
}

/// The UID of one of a node's objects, by a number for its kind.
pub(super) fn uid(kind: u16, shoot: usize, node: usize) -> String {
    format!("{shoot:08x}-{kind:04x}-4000-8000-{node:012x}")
}
