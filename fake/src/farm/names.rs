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
pub fn by_name(nodes: usize) -> impl Iterator<Item = usize> {
    (0..ZONES.len()).flat_map(move |zone| (zone..nodes).step_by(ZONES.len()))
}

/// The UID of one of a node's objects, by a number for its kind.
pub(super) fn uid(kind: u16, shoot: usize, node: usize) -> String {
    format!("{shoot:08x}-{kind:04x}-4000-8000-{node:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_comes_once_and_in_the_order_of_its_name() {
        for nodes in [0, 1, 2, 3, 100, 500] {
            let names: Vec<String> = by_name(nodes).map(|node| node_name(7, node)).collect();
            assert_eq!(names.len(), nodes);
            assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        }
    }
}
