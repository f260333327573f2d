use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const OLD: &str = "2025-01-01T00:00:00Z";

fn policy_json(name: &str, priority: i32, stage: Option<&str>) -> Value {
    let labels = stage.map_or(json!({}), |stage| json!({"stage": stage}));
    json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "ProbePolicy",
        "metadata": {"name": name, "generation": 1, "creationTimestamp": OLD},
        "spec": {
            "clusterSelector": {"matchLabels": labels},
            "clusterLabels": "ClusterAndShoot",
            "priority": priority,
            "mode": "Enforce",
            "kubeConfigSecretName": "dwd",
            "kcmNodeMonitorGraceDuration": "40s",
            "dependentResourceInfos": [{
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kcm"},
                "optional": false,
            }],
        },
    })
}

fn parsed(object: Value) -> Policy {
    Policy::new(&serde_json::from_value(object).unwrap())
}

fn cluster(name: &str, stage: &str) -> Cluster {
    changed_cluster(name, stage, |_| ())
}

fn changed_cluster(name: &str, stage: &str, change: impl FnOnce(&mut Value)) -> Cluster {
    let mut shoot = json!({
        "metadata": {"labels": {"stage": stage}},
        "spec": {"provider": {"workers": [{"name": "w"}]}},
        "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
    });
    change(&mut shoot);
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"shoot": shoot},
    }))
    .unwrap()
}

/// Two clusters, and a policy for all of them.
fn index() -> Index {
    let mut index = Index::default();
    list_policies(&mut index, [parsed(policy_json("all", 0, None))]);
    list_clusters(&mut index, [cluster("a", "live"), cluster("b", "dev")]);
    index
}

fn list_policies(index: &mut Index, list: impl IntoIterator<Item = Policy>) -> Changed {
    index.policies_changed(Change::All(list.into_iter().collect()))
}

fn list_clusters(index: &mut Index, list: impl IntoIterator<Item = Cluster>) -> Changed {
    index.clusters_changed(Change::All(list.into_iter().collect()))
}

fn put_cluster(index: &mut Index, cluster: Cluster) -> Changed {
    index.clusters_changed(Change::Put(cluster))
}

fn put(index: &mut Index, policy: Value) -> Changed {
    index.policies_changed(Change::Put(parsed(policy)))
}

fn delete(index: &mut Index, policy: &str) -> Changed {
    index.policies_changed(Change::Gone(parsed(policy_json(policy, 0, None))))
}

fn names(changed: &Changed) -> Vec<&str> {
    changed.iter().map(|name| &**name).collect()
}

fn policy_of<'a>(index: &'a Index, cluster: &str) -> Option<&'a str> {
    Some(&*index.assignment(cluster)?.selected.as_ref()?.policy)
}

/// A policy that is being deleted, and held by something that it protects.
fn held(name: &str, priority: i32, stage: Option<&str>) -> Policy {
    let mut object = policy_json(name, priority, stage);
    object["metadata"]["deletionTimestamp"] = json!(OLD);
    object["metadata"]["finalizers"] = json!([crate::api::FINALIZER]);
    parsed(object)
}

/// No record tells which of them it was.
#[test]
fn of_several_policies_that_are_being_deleted_the_one_that_applied_lets_go() {
    let mut index = Index::default();
    list_policies(
        &mut index,
        [
            held("other", 9, Some("dev")),
            held("low", 0, None),
            held("lower", -1, None),
            held("top", 1, None),
        ],
    );
    list_clusters(&mut index, [cluster("a", "live")]);
    let assignment = index.assignment("a").unwrap();
    assert_eq!(&*assignment.former.as_ref().unwrap().policy, "top");
}

#[test]
fn an_unreadable_cluster_is_still_selected_by_the_labels_of_its_shoot() {
    let mut index = index();
    put(&mut index, policy_json("live", 1, Some("live")));
    put_cluster(
        &mut index,
        changed_cluster("a", "live", |it| it["spec"] = json!(1)),
    );
    assert_eq!(policy_of(&index, "a"), Some("live"));
}

fn former_of_a(index: &Index) -> Option<(&str, Duration)> {
    let former = index.assignment("a")?.former.as_ref()?;
    let settings = former.settings.as_ref().unwrap();
    Some((&*former.policy, settings.rules.grace))
}

#[test]
fn a_cluster_without_policy_remembers_the_last_as_long_as_that_exists() {
    let mut index = index();
    assert_eq!(former_of_a(&index), None);
    let narrowed = |grace: &str| {
        let mut object = policy_json("all", 0, Some("other"));
        object["spec"]["kcmNodeMonitorGraceDuration"] = json!(grace);
        object
    };
    assert_eq!(names(&put(&mut index, narrowed("40s"))), ["a", "b"]);
    assert_eq!(former_of_a(&index), Some(("all", Duration::from_secs(40))));
    assert_eq!(index.policy_view("all").unwrap().kept.len(), 2);

    // As it is now, and after a repeated list.
    assert_eq!(names(&put(&mut index, narrowed("50s"))), ["a", "b"]);
    list_clusters(&mut index, [cluster("a", "live"), cluster("b", "dev")]);
    assert_eq!(former_of_a(&index), Some(("all", Duration::from_secs(50))));

    index.forget("b");
    assert_eq!(index.policy_view("all").unwrap().kept, ["a".into()]);
    delete(&mut index, "all");
    assert_eq!(former_of_a(&index), None);

    // Another one takes the cluster over.
    put(&mut index, narrowed("50s"));
    put(&mut index, policy_json("heir", 0, None));
    assert_eq!(former_of_a(&index), None);
    delete(&mut index, "heir");
    assert_eq!(
        former_of_a(&index),
        None,
        "the last is gone, not the one before"
    );
}

/// As of a replica that has watched before it leads: what it remembers itself counts for nothing.
#[test]
fn what_an_earlier_run_knew_may_come_after_the_objects() {
    for let_go in [false, true] {
        let mut index = Index::default();
        put(&mut index, policy_json("heir", 0, None));
        list_policies(&mut index, [parsed(policy_json("heir", 0, None))]);
        list_clusters(&mut index, [cluster("a", "live"), cluster("b", "dev")]);
        list_policies(
            &mut index,
            ["heir", "all"].map(|it| parsed(policy_json(it, 0, Some("other")))),
        );
        assert_eq!(former_of_a(&index).map(|(name, _)| name), Some("heir"));
        if let_go {
            index.forget("a");
        }
        index.recall(BTreeMap::from([("a".into(), "all".into())]));
        assert_eq!(former_of_a(&index), Some(("all", Duration::from_secs(40))));
        assert_eq!(index.assignment("b").unwrap().former, None);
    }
}

#[test]
fn what_an_earlier_run_knew_counts_until_a_policy_applies() {
    let recalled = BTreeMap::from([("a".into(), "all".into()), ("b".into(), "gone".into())]);
    let mut index = Index::default();
    index.recall(recalled);
    list_policies(&mut index, [parsed(policy_json("all", 0, Some("other")))]);
    list_clusters(&mut index, [cluster("a", "live"), cluster("b", "dev")]);
    assert_eq!(former_of_a(&index), Some(("all", Duration::from_secs(40))));
    assert_eq!(index.assignment("b").unwrap().former, None);

    // A Cluster that is created anew is another one.
    index.clusters_changed(Change::Gone(cluster("a", "live")));
    put_cluster(&mut index, cluster("a", "live"));
    assert_eq!(former_of_a(&index), None);
}

#[test]
fn a_view_tells_what_a_policy_won_and_lost() {
    let mut index = index();
    put(&mut index, policy_json("live", 1, Some("live")));
    put(&mut index, policy_json("last", -1, None));
    let view = |name: &str| {
        let view = index.policy_view(name).unwrap();
        let owned = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let lost: Vec<_> = view
            .lost
            .iter()
            .map(|(to, of)| (to.to_string(), owned(of)))
            .collect();
        (owned(&view.selected), lost)
    };
    let lost_to = |to: &str, of: &str| (to.to_owned(), vec![of.to_owned()]);
    assert_eq!(view("live"), (vec!["a".to_owned()], vec![]));
    assert_eq!(
        view("all"),
        (vec!["b".to_owned()], vec![lost_to("live", "a")])
    );
    assert_eq!(
        view("last"),
        (vec![], vec![lost_to("all", "b"), lost_to("live", "a")])
    );
    assert_eq!(index.policy_view("unknown"), None);
}

#[test]
fn nothing_is_assigned_before_both_kinds_are_listed() {
    let mut index = Index::default();
    assert_eq!(
        names(&list_clusters(&mut index, [cluster("a", "live")])),
        [""; 0]
    );
    // The Clusters are watched on while the policies are still to come.
    let changes = [
        Change::Put(cluster("a", "dev")),
        Change::Put(cluster("b", "dev")),
        Change::Gone(cluster("b", "dev")),
    ];
    for change in changes {
        index.clusters_changed(change);
        assert_eq!(index.assignments().count(), 0);
    }
    assert!(!index.synced());
    let all = [parsed(policy_json("all", 0, None))];
    assert_eq!(names(&list_policies(&mut index, all)), ["a"]);
    assert!(index.synced());
    assert_eq!(policy_of(&index, "a"), Some("all"));
}

/// One change of one object.
#[derive(Clone, Debug)]
enum Edit {
    Policy(&'static str, i32, Option<&'static str>),
    NoPolicy(&'static str),
    Cluster(&'static str, &'static str, bool),
    NoCluster(&'static str),
}

impl Edit {
    fn object(&self) -> &'static str {
        match self {
            Self::Policy(name, ..)
            | Self::NoPolicy(name)
            | Self::Cluster(name, ..)
            | Self::NoCluster(name) => name,
        }
    }

    fn apply(&self, index: &mut Index) -> Changed {
        match *self {
            Self::Policy(name, priority, stage) => put(index, policy_json(name, priority, stage)),
            Self::NoPolicy(name) => delete(index, name),
            Self::Cluster(name, stage, asleep) => put_cluster(
                index,
                changed_cluster(name, stage, |it| {
                    it["status"]["hibernated"] = json!(asleep);
                }),
            ),
            Self::NoCluster(name) => index.clusters_changed(Change::Gone(cluster(name, ""))),
        }
    }
}

fn stage() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["live", "dev"])
}

fn edit() -> impl Strategy<Value = Edit> {
    let policy = prop::sample::select(vec!["p1", "p2", "p3"]);
    let cluster = prop::sample::select(vec!["c1", "c2", "c3", "c4"]);
    prop_oneof![
        4 => (policy.clone(), -1..2i32, prop::option::of(stage()))
            .prop_map(|(name, priority, stage)| Edit::Policy(name, priority, stage)),
        1 => policy.prop_map(Edit::NoPolicy),
        4 => (cluster.clone(), stage(), any::<bool>())
            .prop_map(|(name, stage, asleep)| Edit::Cluster(name, stage, asleep)),
        1 => cluster.prop_map(Edit::NoCluster),
    ]
}

fn snapshot(index: &Index) -> BTreeMap<Arc<str>, Assignment> {
    index
        .assignments()
        .map(|(name, assignment)| (name.clone(), assignment.clone()))
        .collect()
}

/// The same without what is remembered, which depends on the order.
fn of_objects(index: &Index) -> BTreeMap<Arc<str>, Assignment> {
    let mut assignments = snapshot(index);
    for assignment in assignments.values_mut() {
        assignment.former = None;
    }
    assignments
}

fn empty() -> Index {
    let mut index = Index::default();
    list_policies(&mut index, []);
    list_clusters(&mut index, []);
    index
}

proptest! {
    /// Objects are stored in any order; only the changes of one object are ordered.
    #[test]
    fn the_order_of_events_of_different_objects_makes_no_difference(
        changes in prop::collection::vec(edit(), 0..24),
        order in prop::collection::vec(any::<u8>(), 24),
    ) {
        let mut expected = empty();
        for change in &changes {
            change.apply(&mut expected);
        }

        let mut queues: BTreeMap<_, std::collections::VecDeque<_>> = BTreeMap::new();
        for change in &changes {
            queues.entry(change.object()).or_default().push_back(change);
        }
        let mut index = empty();
        for pick in order.iter().take(changes.len()) {
            let at = usize::from(*pick) % queues.len();
            let object = *queues.keys().nth(at).unwrap();
            let queue = queues.get_mut(object).unwrap();
            queue.pop_front().unwrap().apply(&mut index);
            if queue.is_empty() {
                queues.remove(object);
            }
        }
        prop_assert_eq!(of_objects(&index), of_objects(&expected));
    }

    /// What is reported as changed is exactly what is another than before.
    #[test]
    fn exactly_what_changed_is_reported(changes in prop::collection::vec(edit(), 0..24)) {
        let mut index = empty();
        for change in &changes {
            let before = snapshot(&index);
            let changed = change.apply(&mut index);
            let after = snapshot(&index);
            let all: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
            let expected: Changed =
                all.into_iter().filter(|name| before.get(name) != after.get(name)).collect();
            prop_assert_eq!(changed, expected);
        }
    }

    /// A list of what there is now leads to the same as the changes that led there.
    #[test]
    fn a_list_is_worth_the_events_it_replaces(
        before in prop::collection::vec(edit(), 0..12),
        after in prop::collection::vec(edit(), 0..12),
    ) {
        let mut watched = empty();
        let mut listed = empty();
        for change in &before {
            change.apply(&mut watched);
            change.apply(&mut listed);
        }
        for change in &after {
            change.apply(&mut watched);
        }

        let clusters = watched.clusters.values().map(|entry| entry.cluster.clone());
        list_clusters(&mut listed, clusters);
        list_policies(&mut listed, watched.policies().cloned());
        prop_assert_eq!(of_objects(&listed), of_objects(&watched));
    }
}
