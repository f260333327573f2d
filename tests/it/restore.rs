//! Restoring by hand, over a scripted seed: what is shown, what is done, and what is left.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::support::{Activity, Failure, Seed, Stage, info, policy, put_workload, run};
use dependency_watchdog::{
    prober::{
        LEASE,
        plan::{Aim, IGNORE, MARK, RECORD},
        scale::Scaler,
    },
    restore::{
        Restorer,
        look::{LookError, Scope, View},
        operator::OperatorPresence,
        run::Ended,
    },
    status::set_finalizer,
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Those of [`policy`], with what they had and their level on the way up.
const DEPENDENTS: [(&str, i64, i32); 3] = [("ca", 3, 0), ("mcm", 2, 1), ("kcm", 1, 2)];

fn restorer(seed: &Seed) -> Restorer {
    Restorer {
        seed: seed.unlimited(),
        scaler: Scaler::new(seed.unlimited()),
        lease_namespace: "garden".to_owned(),
        overrule: false,
    }
}

fn overruling(seed: &Seed) -> Restorer {
    Restorer {
        overrule: true,
        ..restorer(seed)
    }
}

fn a() -> Scope {
    Scope::Cluster("a".to_owned())
}

async fn look(restorer: &Restorer, scope: &Scope) -> View {
    restorer.look(scope, &|_| ()).await.unwrap()
}

/// Looks and restores; tells what was said and what came of it.
async fn restore(restorer: &Restorer, scope: &Scope) -> (Vec<String>, Vec<Ended>) {
    let view = look(restorer, scope).await;
    let said = Mutex::new(Vec::new());
    let say = |line: &str| said.lock().unwrap().push(line.to_owned());
    let ended = restorer
        .restore(view.plans, &CancellationToken::new(), &say)
        .await;
    (said.into_inner().unwrap(), ended)
}

fn left(ended: &[Ended]) -> Vec<&str> {
    let all = ended.iter().flat_map(|ended| &ended.left);
    all.map(String::as_str).collect()
}

fn put_health(seed: &Seed, cluster: &str, policy: &str, dependents: &[Value]) {
    seed.put(&json!({
        "kind": "ClusterHealth", "metadata": {"name": cluster}, "spec": {},
        "status": {"protection": "Active", "policy": policy, "dependents": dependents},
    }));
}

fn entry(kind: &str, name: &str, level: i32, owed: Option<i64>) -> Value {
    json!({
        "ref": info(kind, name, 0)["ref"], "owed": owed.is_some(), "recordedReplicas": owed,
        "level": level, "initialDelay": "0s", "timeout": "30s",
    })
}

fn annotate(seed: &Seed, resource: &str, cluster: &str, name: &str, annotations: &Value) {
    seed.change(resource, cluster, name, |object| {
        object["metadata"]["annotations"] = annotations.clone();
    });
}

/// A workload at zero with the mark, and this record.
fn put_taken(seed: &Seed, kind: &str, cluster: &str, name: &str, record: Option<&str>) {
    put_workload(seed, kind, cluster, name, 0);
    let mut annotations = json!({MARK: ""});
    if let Some(record) = record {
        annotations[RECORD] = json!(record);
    }
    let resource = format!("{}s", kind.to_lowercase());
    annotate(seed, &resource, cluster, name, &annotations);
}

/// A cluster whose dependents are all taken, as its ClusterHealth tells.
fn put_down(seed: &Seed, cluster: &str) {
    let dependents = DEPENDENTS.map(|(name, replicas, level)| {
        put_taken(
            seed,
            "Deployment",
            cluster,
            name,
            Some(&replicas.to_string()),
        );
        entry("Deployment", name, level, Some(replicas))
    });
    put_health(seed, cluster, "p", &dependents);
}

fn assert_back(seed: &Seed, cluster: &str) {
    for (name, replicas, _) in DEPENDENTS {
        let object = seed.get("deployments", cluster, name).unwrap();
        assert_eq!(object["spec"]["replicas"], replicas, "{name}");
        assert_eq!(object["metadata"]["annotations"], Value::Null, "{name}");
    }
}

fn new_seed() -> Seed {
    Seed::new(Activity::default())
}

#[tokio::test(start_paused = true)]
async fn levels_are_restored_in_order_and_each_is_waited_for() {
    let seed = new_seed();
    put_down(&seed, "a");
    // Its pods do not come.
    seed.follow("mcm", false);
    let started = Instant::now();
    let view = look(&restorer(&seed), &a()).await;
    insta::assert_snapshot!(view.plans[0].table());
    let (said, ended) = restore(&restorer(&seed), &a()).await;
    insta::assert_snapshot!(said.join("\n"));
    let order: Vec<String> = seed.writes().into_iter().map(|call| call.name).collect();
    // The replicas, then the mark.
    assert_eq!(order, ["ca", "ca", "mcm", "mcm", "kcm", "kcm"]);
    assert_eq!(started.elapsed().as_secs(), 30, "the timeout of its level");
    assert_back(&seed, "a");
    assert_eq!(left(&ended).len(), 1, "{ended:?}");
    assert!(left(&ended)[0].contains("Deployment/mcm: scaled, and not up after 30s"));

    // The record is as it was: only the operator writes it. What is up is paid.
    seed.follow("mcm", true);
    let writes = seed.writes().len();
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(left(&ended), [""; 0]);
    assert_eq!(seed.writes().len(), writes);
    let view = look(&restorer(&seed), &Scope::All).await;
    assert_eq!((view.plans.len(), view.quiet), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_owed_is_passed_over_and_told() {
    let seed = new_seed();
    let all = [
        ("no-record", Some(7)),
        ("no-number", None),
        ("zero", None),
        ("unmarked", Some(2)),
        ("scaled-up", Some(2)),
        ("up", None),
        ("ignored", Some(4)),
        ("missing", Some(4)),
    ];
    for (name, _) in all.iter().filter(|(name, _)| *name != "missing") {
        put_taken(&seed, "Deployment", "a", name, None);
    }
    for name in ["zero", "unmarked", "up"] {
        annotate(&seed, "deployments", "a", name, &json!({}));
    }
    for name in ["scaled-up", "up"] {
        seed.change("deployments", "a", name, |it| {
            it["spec"]["replicas"] = json!(5)
        });
    }
    let ignored = json!({MARK: "", RECORD: "4", IGNORE: "true"});
    annotate(&seed, "deployments", "a", "ignored", &ignored);
    let dependents = all.map(|(name, owed)| entry("Deployment", name, 0, owed));
    put_health(&seed, "a", "p", &dependents);

    let view = look(&restorer(&seed), &a()).await;
    insta::assert_snapshot!(view.plans[0].table());
    let (said, ended) = restore(&restorer(&seed), &a()).await;
    insta::assert_snapshot!(sorted(said).join("\n"));
    insta::assert_snapshot!(left(&ended).join("\n"));
    for (name, replicas) in [
        ("no-record", 7),
        ("no-number", 1),
        ("zero", 0),
        ("unmarked", 0),
        ("scaled-up", 5),
        ("up", 5),
        ("ignored", 0),
    ] {
        let object = seed.get("deployments", "a", name).unwrap();
        assert_eq!(object["spec"]["replicas"], replicas, "{name}");
        assert_eq!(
            object["metadata"]["annotations"][MARK],
            Value::Null,
            "{name}"
        );
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_stops_its_own_cluster_alone() {
    let seed = new_seed();
    for cluster in ["a", "b"] {
        put_down(&seed, cluster);
    }
    put_taken(&seed, "Deployment", "a", "mcm", Some("two"));
    let view = look(&restorer(&seed), &Scope::All).await;
    insta::assert_snapshot!(view.plans[0].table());
    let (_, ended) = restore(&restorer(&seed), &Scope::All).await;
    assert!(left(&ended)[1].contains(r#"is "two", not"#), "{ended:?}");
    assert_back(&seed, "b");
    let kcm = seed.get("deployments", "a", "kcm").unwrap();
    assert_eq!(kcm["spec"]["replicas"], 0);

    // As the remedy says.
    let corrected = json!({MARK: "", RECORD: "2"});
    annotate(&seed, "deployments", "a", "mcm", &corrected);
    let (_, ended) = restore(&restorer(&seed), &Scope::All).await;
    assert_eq!(left(&ended), [""; 0]);
    assert_back(&seed, "a");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_done_is_told_by_verb_and_object() {
    let seed = new_seed();
    put_down(&seed, "a");
    let patches = |call: &crate::support::Call| call.method == "PATCH";
    seed.fail(Failure::Status(403), (0, 1), patches);
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(
        left(&ended),
        [
            "a  Deployment/ca: you may not patch it; have it granted, or ask somebody who may: \
             scripted failure",
            "a  Deployment/kcm: not begun: an earlier level is not complete",
            "a  Deployment/mcm: not begun: an earlier level is not complete",
        ]
    );
    seed.fail(Failure::Status(403), (0, 1), |call| {
        call.resource == "clusterhealths"
    });
    let looked = restorer(&seed).look(&Scope::All, &|_| ()).await;
    let error = looked.err().unwrap().to_string();
    assert!(
        error.starts_with("you may not list clusterhealths"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_record_is_looked_at_by_its_policies() {
    let seed = new_seed();
    let looked = restorer(&seed).look(&a(), &|_| ()).await;
    assert!(matches!(looked.err(), Some(LookError::NoSuchCluster(_))));

    put_down(&seed, "a");
    seed.delete("clusterhealths", "", "a");
    let mut policy = policy("p");
    // Whoever may write this must not choose the paths that an administrator's rights reach.
    policy["status"]["protectedClusters"] = json!(["a", "a/deployments/kcm?x=$(id)", "a.b"]);
    seed.put(&policy);
    restore(&restorer(&seed), &Scope::All).await;
    assert_back(&seed, "a");
    assert!((seed.calls().iter()).all(|it| ["", "a"].contains(&&*it.namespace)));

    // One that cannot be read counts as none, and is told.
    put_down(&seed, "a");
    seed.change("clusterhealths", "", "a", |it| {
        it["status"]["dependents"] = json!("?")
    });
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(ended[0].restored.len(), 3);
    assert!(left(&ended)[0].starts_with("a: its ClusterHealth cannot be read"));

    // Whoever has no record, and no policy that says so, may still be selected.
    put_down(&seed, "a");
    seed.delete("clusterhealths", "", "a");
    policy["status"] = json!({});
    seed.put(&policy);
    put_cluster(&seed);
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(ended[0].restored.len(), 3);
}

fn put_cluster(seed: &Seed) {
    put_cluster_in(seed, "Reconcile");
}

/// The Cluster, of which this was the last operation.
fn put_cluster_in(seed: &Seed, operation: &str) {
    seed.put(&json!({
        "kind": "Cluster", "metadata": {"name": "a", "uid": "u", "labels": {"name": "a"}},
        "spec": {"shoot": {
            "spec": {"provider": {"workers": [{"name": "w"}]}},
            "status": {"lastOperation": {"type": operation, "state": "Processing"}},
        }},
    }));
}

#[tokio::test(start_paused = true)]
async fn what_gardenlet_decides_about_only_loses_its_marks() {
    let seed = new_seed();
    put_down(&seed, "a");
    put_cluster_in(&seed, "Migrate");
    seed.change("deployments", "a", "ca", |it| {
        it["spec"]["replicas"] = json!(1)
    });
    let view = look(&overruling(&seed), &Scope::All).await;
    insta::assert_snapshot!(view.plans[0].table());
    let (said, ended) = restore(&overruling(&seed), &Scope::All).await;
    insta::assert_snapshot!(sorted(said).join("\n"));
    assert_eq!(left(&ended), [""; 0]);
    for (name, replicas, annotations) in [
        ("ca", 1, Value::Null),
        ("mcm", 0, json!({RECORD: "2"})),
        ("kcm", 0, json!({RECORD: "1"})),
    ] {
        let object = seed.get("deployments", "a", name).unwrap();
        assert_eq!(object["spec"]["replicas"], replicas, "{name}");
        assert_eq!(object["metadata"]["annotations"], annotations, "{name}");
    }
    assert_eq!(look(&restorer(&seed), &Scope::All).await.plans.len(), 0);

    // Whether it does has to be known.
    put_down(&seed, "a");
    let clusters = |call: &crate::support::Call| call.resource == "clusters";
    seed.fail(Failure::Status(403), (0, usize::MAX), clusters);
    let view = look(&restorer(&seed), &a()).await;
    let why = view.plans[0].held_back.as_ref().unwrap();
    assert!(why.contains("you may not get the Cluster a"), "{why}");
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(left(&ended).len(), 3);
}

fn put_lease(seed: &Seed, holder: &str, seconds: i32) {
    seed.put(&json!({
        "kind": "Lease", "metadata": {"name": LEASE, "namespace": "garden"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds,
            // Whatever the holder's clock says.
            "renewTime": "2031-01-01T00:00:00.000000Z",
        },
    }));
}

/// The Lease is renewed before each of the looks after these many.
fn renew_after(seed: &Seed, looks: usize) {
    let mut look = 0;
    seed.interfere(
        usize::MAX,
        |call| call.brief() == format!("GET leases/{LEASE}"),
        move |lease| {
            look += 1;
            if look > looks {
                lease["spec"]["renewTime"] = json!(format!("2031-01-01T00:01:{look:02}.000000Z"));
            }
        },
    );
}

#[rstest]
#[case::dead(Some(("old", 15)), None, 15, "Gone")]
#[case::alive(Some(("dwd", 15)), Some(4), 4, "Alive")]
#[case::slow(Some(("dwd", 3_600)), None, 60, "Unknown")]
#[tokio::test(start_paused = true)]
async fn an_operator_is_alive_that_is_seen_to_renew(
    #[case] lease: Option<(&str, i32)>,
    #[case] renewed: Option<usize>,
    #[case] seconds: u64,
    #[case] expected: &str,
) {
    let seed = new_seed();
    put_down(&seed, "a");
    put_cluster(&seed);
    seed.put(&policy("p"));
    if let Some((holder, seconds)) = lease {
        put_lease(&seed, holder, seconds);
    }
    if let Some(looks) = renewed {
        renew_after(&seed, looks);
    }
    let started = Instant::now();
    let view = look(&restorer(&seed), &a()).await;
    let presence = view.operator.as_ref().unwrap();
    assert!(
        format!("{presence:?}").starts_with(expected),
        "{presence:?}"
    );
    assert_eq!(started.elapsed(), Duration::from_secs(seconds));
    let gone = expected == "Gone";
    assert_eq!(view.plans[0].held_back.is_none(), gone);
    assert_eq!(view.plans[0].workable(), if gone { 3 } else { 0 });
}

/// Whatever is there, of whatever kind.
#[tokio::test(start_paused = true)]
async fn to_look_changes_nothing() {
    let seed = new_seed();
    put_down(&seed, "a");
    put_taken(&seed, "Etcd", "a", "main", Some("3"));
    put_taken(&seed, "StatefulSet", "a", "garbled", Some("two"));
    put_cluster(&seed);
    put_deleting_policy(&seed).await;
    let before = seed.writes().len();
    for restorer in [restorer(&seed), overruling(&seed)] {
        let view = look(&restorer, &Scope::All).await;
        assert_eq!((view.plans.len(), view.deleting.len()), (1, 1));
    }
    assert_eq!(seed.writes().len(), before);
}

#[rstest]
#[case::enforced(json!({}), true)]
#[case::dry_run(json!({"mode": "DryRun"}), false)]
#[tokio::test(start_paused = true)]
async fn a_cluster_is_held_back_where_a_living_operator_protects_it(
    #[case] change: Value,
    #[case] held_back: bool,
) {
    let seed = new_seed();
    put_down(&seed, "a");
    put_cluster(&seed);
    let mut policy = policy("p");
    json_patch::merge(&mut policy["spec"], &change);
    seed.put(&policy);
    put_lease(&seed, "dwd", 15);
    renew_after(&seed, 1);
    let (_, ended) = restore(&restorer(&seed), &a()).await;
    assert_eq!(
        left(&ended).len(),
        if held_back { 3 } else { 0 },
        "{ended:?}"
    );
    assert_eq!(seed.writes().is_empty(), held_back);
    if held_back {
        let view = look(&restorer(&seed), &a()).await;
        insta::assert_snapshot!(view.plans[0].table());
        // It makes no difference to whoever overrules it.
        let (_, ended) = restore(&overruling(&seed), &a()).await;
        assert_eq!(left(&ended), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_read_holds_back() {
    let seed = new_seed();
    put_down(&seed, "a");
    put_cluster(&seed);
    seed.put(&policy("p"));
    seed.fail(Failure::Status(403), (0, 1), |call| {
        call.resource == "leases"
    });
    let view = look(&restorer(&seed), &a()).await;
    let Some(OperatorPresence::Unknown(why)) = view.operator else {
        panic!("{:?}", view.operator);
    };
    assert!(
        why.contains("you may not get the Lease dwd-prober-leader-election"),
        "{why}"
    );
    assert!(view.plans[0].held_back.is_some());
}

/// In an outage that goes on, the operator takes nothing of it again.
#[test]
fn what_is_overruled_the_operator_leaves_alone() {
    for kind in ["Deployment", "StatefulSet", "Etcd"] {
        run(async {
            let mut stage = Stage::new(&[info(kind, "x", 0)]);
            stage.act(Aim::Protect).await;
            let resource = format!("{}s", kind.to_lowercase());
            stage.assert_down(&resource, "x", kind);
            let known = serde_json::to_value(stage.protector.machine().debts().status()).unwrap();
            put_health(&stage.seed, "a", "p", known.as_array().unwrap());

            let before = stage.seed.writes().len();
            let (_, ended) = restore(&overruling(&stage.seed), &a()).await;
            assert_eq!(left(&ended), [""; 0], "{kind}");
            // At once, where one write can carry all of it. Elsewhere the controller comes between two, once.
            let writes = stage.seed.writes().len() - before;
            assert_eq!(writes, if kind == "Etcd" { 4 } else { 1 }, "{kind}");
            assert_eq!(ended[0].ignored.len(), 1, "{kind}");
            for _ in 0..3 {
                tokio::time::advance(Duration::from_secs(60)).await;
                stage.act(Aim::Protect).await;
            }
            assert_eq!(stage.replicas(&resource, "x"), 3, "{kind}");
            let annotations = stage.object(&resource, "x")["metadata"]["annotations"].clone();
            assert_eq!(annotations, json!({IGNORE: "true"}), "{kind}");
            assert!(!stage.protector.machine().debts().owes(), "{kind}");
        });
    }
}

/// A policy in deletion, held by the finalizer as the operator has put it on.
async fn put_deleting_policy(seed: &Seed) {
    seed.put(&policy("p"));
    set_finalizer(&seed.unlimited(), "p", "uid-p", true)
        .await
        .unwrap();
    seed.ask_to_delete("probepolicies", "", "p");
    assert!(seed.get("probepolicies", "", "p").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_let_go_when_nothing_is_owed_and_not_before() {
    let seed = new_seed();
    put_down(&seed, "a");
    put_deleting_policy(&seed).await;
    let restorer = restorer(&seed);
    let view = look(&restorer, &Scope::All).await;
    assert_eq!(view.deleting, ["p".into()]);
    assert!(view.operator.unwrap().is_gone());
    let done = restorer.let_go().await;
    assert_eq!(done.freed, [""; 0]);
    assert_eq!(
        done.left,
        ["ProbePolicy p: keeps its finalizer, since something is owed to a"]
    );
    assert!(seed.get("probepolicies", "", "p").is_some());

    // What another policy took makes no difference.
    put_down(&seed, "b");
    seed.change("clusterhealths", "", "b", |it| {
        it["status"]["policy"] = json!("q")
    });
    let (_, ended) = restore(&restorer, &a()).await;
    assert_eq!(left(&ended), [""; 0]);
    assert_eq!(restorer.let_go().await.freed, ["p"]);
    assert!(seed.get("probepolicies", "", "p").is_none());
}

/// What somebody else asks for in between.
const BY_USER: i64 = 9;

/// What breaks a run: after so many requests about dependents nothing works any more, and whether
/// the last of them was carried out all the same.
type Crash = (usize, bool);

fn crashes() -> impl Strategy<Value = Vec<Crash>> {
    prop::collection::vec((0_usize..16, any::<bool>()), 0..4)
}

/// A dependent that was taken: kind, replicas, whether it says so itself, whether its ClusterHealth
/// does.
fn taken() -> impl Strategy<Value = (&'static str, i64, bool, bool)> {
    let kinds = prop_oneof![Just("Deployment"), Just("StatefulSet"), Just("Etcd")];
    (kinds, 1_i64..6, any::<bool>(), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        ..ProptestConfig::with_failure_persistence(FileFailurePersistence::WithSource("regressions"))
    })]

    /// Wherever runs break off, the next that does not restores all to what it was, or to what
    /// somebody else has asked for meanwhile; and no run ever leaves a number that nobody had.
    #[test]
    fn what_a_crash_leaves_the_next_run_completes(
        taken in prop::collection::vec((taken(), 0..3), 1..4),
        crashes in crashes(),
        overrule in any::<bool>(),
        user in prop::option::of(0_usize..6),
    ) {
        run(async {
            tokio::time::pause();
            let seed = new_seed();
            let mut dependents = Vec::new();
            let mut wanted = Vec::new();
            for (index, ((kind, replicas, annotated, recorded), level)) in taken.iter().enumerate() {
                let name = format!("d{index}");
                let record = annotated.then(|| replicas.to_string());
                put_taken(&seed, kind, "a", &name, record.as_deref());
                let mut entry = entry(kind, &name, *level, Some(*replicas));
                let replicas = match (annotated, recorded) {
                    (false, false) => {
                        entry["recordedReplicas"] = Value::Null;
                        1
                    }
                    _ => *replicas,
                };
                dependents.push(entry);
                wanted.push((format!("{}s", kind.to_lowercase()), name, replicas));
            }
            put_health(&seed, "a", "p", &dependents);
            let restorer = if overrule { overruling(&seed) } else { restorer(&seed) };
            let (came, asked) = (Arc::new(AtomicBool::new(false)), user.is_some());
            let (skip, at) = (user.unwrap_or_default(), came.clone());
            let writes = AtomicUsize::new(0);
            let before = move |call: &crate::support::Call| {
                let write = asked && call.method == "PATCH" && call.name == "d0";
                write && writes.fetch_add(1, Relaxed) == skip
            };
            seed.interfere(1, before, move |object| {
                object["spec"]["replicas"] = json!(BY_USER);
                at.store(true, Relaxed);
            });
            for (after, carried_out) in crashes {
                let of_dependents = |call: &crate::support::Call| call.namespace == "a";
                if carried_out {
                    seed.fail_committed(Failure::Reset, (after, 1), of_dependents);
                }
                seed.fail(Failure::Reset, (after, usize::MAX), of_dependents);
                restore(&restorer, &a()).await;
                seed.heal();
                for (resource, name, replicas) in &wanted {
                    let found = seed.get(resource, "a", name).unwrap();
                    let ignored = found["metadata"]["annotations"][IGNORE] == "true";
                    let found = found["spec"]["replicas"].as_i64().unwrap();
                    let by_user = came.load(Relaxed) && name == "d0" && found == BY_USER;
                    assert!(found == 0 || found == *replicas || by_user, "{name} at {found}");
                    assert!(found == 0 || by_user || ignored == overrule, "{name}");
                }
            }
            let (_, ended) = restore(&restorer, &a()).await;
            assert_eq!(left(&ended), [""; 0]);
            for (resource, name, replicas) in &wanted {
                let object = seed.get(resource, "a", name).unwrap();
                let by_user = came.load(Relaxed) && name == "d0";
                let wanted = if by_user { BY_USER } else { *replicas };
                assert_eq!(object["spec"]["replicas"], wanted, "{name}");
                let annotations = &object["metadata"]["annotations"];
                assert_eq!(annotations[MARK], Value::Null, "{name}");
                let ignored = &annotations[IGNORE];
                assert_eq!(*ignored == json!("true"), overrule, "{name}: {annotations}");
            }
        });
    }
}
