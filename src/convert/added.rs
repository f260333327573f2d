//! What a policy has to say that the tool's configuration cannot.

use super::tree::Tree;

/// What replaces machines, and those it would replace for not being Ready when it starts.
const REPLACE_MACHINES: [&str; 2] = ["machine-controller-manager", "cluster-autoscaler"];
/// How long these wait for the nodes that were silent: kubelets need up to a minute to be back.
const AWAIT_NODES: &str = "2m";

/// Adds the mode, which a policy must have: the tool acts.
pub(super) fn mode(spec: &mut Tree) {
    if let Tree::Map(fields) = spec {
        fields.insert(0, ("mode".to_owned(), text("Enforce")));
    }
}

/// Adds the wait for nodes to the specification of a ProbePolicy.
pub(super) fn to_prober(spec: &mut Tree) {
    let Some(Tree::List(dependents)) = spec.get_mut("dependentResourceInfos") else {
        return;
    };
    let others = dependents.iter().filter(|it| !replaces_machines(it));
    let last = others.map(level).max().unwrap_or_default();
    // What comes after it would wait as well.
    let those = dependents.iter_mut();
    for dependent in those.filter(|it| replaces_machines(it) && level(it) >= last) {
        await_nodes(dependent);
    }
}

fn replaces_machines(dependent: &Tree) -> bool {
    let name = dependent.get("ref").and_then(|it| it.get("name"));
    matches!(name, Some(Tree::Text(name)) if REPLACE_MACHINES.contains(&name.as_str()))
}

fn level(dependent: &Tree) -> i64 {
    match dependent.get("scaleUp").and_then(|it| it.get("level")) {
        Some(Tree::Int(level)) => *level,
        _ => 0,
    }
}

fn await_nodes(dependent: &mut Tree) {
    if dependent.get("scaleUp").is_none()
        && let Tree::Map(fields) = dependent
    {
        let level = Tree::Map(vec![("level".to_owned(), Tree::Int(0))]);
        fields.push(("scaleUp".to_owned(), level));
    }
    if let Some(Tree::Map(fields)) = dependent.get_mut("scaleUp") {
        fields.push(("awaitNodes".to_owned(), text(AWAIT_NODES)));
    }
}

fn text(text: &str) -> Tree {
    Tree::Text(text.to_owned())
}
