//! Restoring by hand, over a scripted seed: what is shown, what is done, and what is left.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::support::{Activity, Call, Failure, Seed, info, policy, put_workload, run};
use dependency_watchdog::{
    prober::{
        LEASE,
        scale::Scaler,
        step::{IGNORE, MARK, RECORD},
    },
    restore::{Part, Restorer, State},
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

async fn look(restorer: &Restorer, cluster: Option<&str>) -> Vec<String> {
    let parts = restorer.look(cluster).await.unwrap();
    parts.iter().map(Part::line).collect()
}

/// Looks and restores; returns what was reported, and the dependents that something was owed to.
async fn restore(restorer: &Restorer, cluster: Option<&str>) -> (Vec<String>, Vec<Part>) {
    let mut parts = restorer.look(cluster).await.unwrap();
    let said = Mutex::new(Vec::new());
    let say = |line: &str| said.lock().unwrap().push(line.to_owned());
    let stop = CancellationToken::new();
    restorer.restore(&mut parts, &stop, Some(&say)).await;
    (said.into_inner().unwrap(), parts)
}

fn left(parts: &[Part]) -> Vec<String> {
    let left = parts.iter().filter(|part| part.state != State::Settled);
    left.map(Part::line).collect()
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
        let record = replicas.to_string();
        put_taken(seed, "Deployment", cluster, name, Some(&record));
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
    for restorer in [restorer(&seed), overruling(&seed)] {
        assert_eq!(look(&restorer, None).await.len(), 3);
    }
    assert_eq!(seed.writes().len(), 0, "to look changes nothing");
    let started = Instant::now();
    let (said, parts) = restore(&restorer(&seed), Some("a")).await;
    assert_eq!(
        said,
        [
            "a  level 0  deployment/ca: scale up to 3, under way",
            "a  level 0  deployment/ca: drop mark and record, under way",
            "a  level 0  deployment/ca: as it should be",
            "a  level 1  deployment/mcm: scale up to 2, under way",
            "a  level 1  deployment/mcm: drop mark and record, under way",
            "a  level 1  deployment/mcm: not running after 30s: see its pods",
            "a  level 2  deployment/kcm: scale up to 1, under way",
            "a  level 2  deployment/kcm: drop mark and record, under way",
            "a  level 2  deployment/kcm: as it should be",
        ]
    );
    assert_eq!(started.elapsed().as_secs(), 34, "the timeout of its level");
    assert_back(&seed, "a");
    assert_eq!(left(&parts), said[5..6]);

    // The record is as it was: only the operator writes it. What is up is paid.
    seed.follow("mcm", true);
    assert_eq!(look(&restorer(&seed), None).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn its_initial_delay_is_waited_for() {
    let seed = new_seed();
    put_taken(&seed, "Deployment", "a", "kcm", Some("2"));
    let mut entry = entry("Deployment", "kcm", 0, Some(2));
    entry["initialDelay"] = json!("5m0s");
    put_health(&seed, "a", "p", &[entry]);
    let started = Instant::now();
    let (_, parts) = restore(&restorer(&seed), None).await;
    assert_eq!(left(&parts), [""; 0]);
    let writes = seed.writes();
    assert_eq!(writes[0].at - started, Duration::from_secs(300));
}

/// What is marked is restored, by the annotation, the record or as one replica. Nothing else is scaled.
#[rstest]
#[case::recorded(json!({MARK: "", RECORD: "3"}), 0, Some(9), 3, None)]
#[case::by_its_health(json!({MARK: ""}), 0, Some(7), 7, None)]
#[case::by_default(json!({MARK: ""}), 0, None, 1, None)]
#[case::not_ours(json!({}), 0, None, 0, None)]
#[case::unmarked(json!({}), 0, Some(2), 0, Some("scale it to 2 by kubectl"))]
#[case::ignored(json!({MARK: "", RECORD: "4", IGNORE: "true"}), 0, Some(4), 0, Some("scale it to 4 by kubectl"))]
#[case::scaled_up(json!({MARK: "", RECORD: "2"}), 5, Some(2), 5, None)]
#[case::up(json!({}), 5, None, 5, None)]
#[case::unreadable(json!({MARK: "", RECORD: "two"}), 0, Some(2), 0, Some(r#"is "two", not a whole number"#))]
#[tokio::test(start_paused = true)]
async fn what_is_marked_is_restored(
    #[case] annotations: Value,
    #[case] replicas: i64,
    #[case] recorded: Option<i64>,
    #[case] restored: i64,
    #[case] expected: Option<&str>,
) {
    let seed = new_seed();
    put_workload(&seed, "Deployment", "a", "x", replicas);
    annotate(&seed, "deployments", "a", "x", &annotations);
    let entries = [
        entry("Deployment", "x", 0, recorded),
        entry("Deployment", "gone", 0, Some(4)),
    ];
    put_health(&seed, "a", "p", &entries);
    let (_, parts) = restore(&restorer(&seed), None).await;
    let left = left(&parts);
    assert_eq!(left.len(), usize::from(expected.is_some()), "{left:?}");
    assert!(
        expected.is_none_or(|expected| left[0].contains(expected)),
        "{left:?}"
    );
    let object = seed.get("deployments", "a", "x").unwrap();
    assert_eq!(object["spec"]["replicas"], restored);
    let is_marked = object["metadata"]["annotations"][MARK] != Value::Null;
    assert_eq!(is_marked, annotations[RECORD] == "two");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_stops_its_own_cluster_alone() {
    let seed = new_seed();
    for cluster in ["a", "b"] {
        put_down(&seed, cluster);
    }
    put_taken(&seed, "Deployment", "a", "mcm", Some("two"));
    let (_, parts) = restore(&restorer(&seed), None).await;
    let left = left(&parts);
    assert!(
        left[0].contains(r#"deployment/mcm: its annotation"#),
        "{left:?}"
    );
    assert_eq!(left[1..], ["a  level 2  deployment/kcm: scale up to 1"]);
    assert_back(&seed, "b");

    // As the remedy says.
    let corrected = json!({MARK: "", RECORD: "2"});
    annotate(&seed, "deployments", "a", "mcm", &corrected);
    restore(&restorer(&seed), None).await;
    assert_back(&seed, "a");
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_done_is_told_by_verb_and_object() {
    let seed = new_seed();
    put_down(&seed, "a");
    seed.fail(Failure::Status(403), (0, 1), |call| call.method == "PATCH");
    let (_, parts) = restore(&restorer(&seed), Some("a")).await;
    assert_eq!(
        left(&parts),
        [
            "a  level 0  deployment/ca: you may not patch it: scripted failure",
            "a  level 1  deployment/mcm: scale up to 2",
            "a  level 2  deployment/kcm: scale up to 1",
        ]
    );
    for resource in ["clusterhealths", "probepolicies", "leases"] {
        seed.fail(Failure::Status(403), (0, 1), move |call| {
            call.resource == resource
        });
        let looked = async {
            restorer(&seed).look(None).await?;
            restorer(&seed).operator().await
        };
        let error = looked.await.unwrap_err();
        assert!(error.starts_with("cannot "), "{error}");
        assert!(error.contains("scripted failure (403)"), "{error}");
    }
    // Whether gardenlet decides about its replicas has to be known.
    let clusters = |call: &Call| call.resource == "clusters";
    seed.fail(Failure::Status(403), (0, usize::MAX), clusters);
    let writes = seed.writes().len();
    let (_, parts) = restore(&restorer(&seed), Some("a")).await;
    assert_eq!(left(&parts).len(), 3);
    assert!(
        parts[0].says.contains("cannot get the Cluster a"),
        "{parts:?}"
    );
    assert_eq!(seed.writes().len(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_record_is_looked_at_by_all_policies() {
    let seed = new_seed();
    let unknown = restorer(&seed).look(Some("a")).await;
    assert!(unknown.unwrap_err().contains("nor a Cluster a"));
    put_down(&seed, "a");
    seed.delete("clusterhealths", "", "a");
    seed.put(&policy("p"));
    put_cluster_in(&seed, "Reconcile");
    restore(&restorer(&seed), Some("a")).await;
    assert_back(&seed, "a");

    // It is read as far as it can be. Where it says nothing, the policy does.
    put_down(&seed, "a");
    seed.change("clusterhealths", "", "a", |it| {
        it["status"]["dependents"] = json!("?")
    });
    restore(&restorer(&seed), None).await;
    assert_back(&seed, "a");
    seed.delete("probepolicies", "", "p");
    let lost = restorer(&seed).look(None).await.unwrap_err();
    assert!(lost.contains("which dependents a has"), "{lost}");
    put_down(&seed, "a");
    seed.change("clusterhealths", "", "a", |it| {
        it["status"]["state"] = json!("ASLEEP")
    });
    restore(&restorer(&seed), None).await;
    assert_back(&seed, "a");
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
    let (said, parts) = restore(&overruling(&seed), None).await;
    assert!(
        said[0].contains("gardenlet decides about its replicas"),
        "{said:?}"
    );
    assert_eq!(left(&parts), [""; 0]);
    assert!(parts.iter().all(|part| !part.ignored));
    for (name, replicas, annotations) in [
        ("ca", 1, Value::Null),
        ("mcm", 0, json!({RECORD: "2"})),
        ("kcm", 0, json!({RECORD: "1"})),
    ] {
        let object = seed.get("deployments", "a", name).unwrap();
        assert_eq!(object["spec"]["replicas"], replicas, "{name}");
        assert_eq!(object["metadata"]["annotations"], annotations, "{name}");
    }
    assert_eq!(look(&restorer(&seed), None).await, [""; 0]);
}

#[rstest]
#[case::none(None, false, None)]
#[case::dead(Some("dwd"), false, None)]
#[case::given_back(Some(""), true, None)]
#[case::alive(Some("dwd"), true, Some("dwd"))]
#[tokio::test(start_paused = true)]
async fn an_operator_is_alive_that_renews_within_three_seconds(
    #[case] holder: Option<&str>,
    #[case] renews: bool,
    #[case] expected: Option<&str>,
) {
    let seed = new_seed();
    if let Some(holder) = holder {
        seed.put(&json!({
            "kind": "Lease", "metadata": {"name": LEASE, "namespace": "garden"},
            // Whatever the holder's clock says.
            "spec": {"holderIdentity": holder, "renewTime": "2031-01-01T00:00:00.000000Z"},
        }));
    }
    let mut reads = 0;
    let read = move |call: &Call| renews && call.brief() == format!("GET leases/{LEASE}");
    seed.interfere(usize::MAX, read, move |lease| {
        reads += 1;
        lease["spec"]["renewTime"] = json!(format!("2031-01-01T00:01:{reads:02}.000000Z"));
    });
    let started = Instant::now();
    let alive = restorer(&seed).operator().await.unwrap();
    assert_eq!(alive.as_deref(), expected);
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

/// At once, where one write can carry all of it: the operator takes it no more.
#[rstest]
#[case("Deployment", 1)]
#[case("StatefulSet", 1)]
#[case("Etcd", 3)]
#[tokio::test(start_paused = true)]
async fn what_is_overruled_is_ignored_from_then_on(#[case] kind: &str, #[case] writes: usize) {
    let seed = new_seed();
    put_taken(&seed, kind, "a", "x", Some("3"));
    put_health(&seed, "a", "p", &[entry(kind, "x", 0, Some(3))]);
    let (_, parts) = restore(&overruling(&seed), Some("a")).await;
    assert_eq!(left(&parts), [""; 0]);
    assert!(parts[0].ignored);
    assert_eq!(seed.writes().len(), writes);
    let resource = format!("{}s", kind.to_lowercase());
    let object = seed.get(&resource, "a", "x").unwrap();
    assert_eq!(object["spec"]["replicas"], 3);
    assert_eq!(object["metadata"]["annotations"], json!({IGNORE: "true"}));
}

/// What is back, and keeps its mark for a minute, is left to the operator that is overruled.
#[tokio::test(start_paused = true)]
async fn what_is_back_is_not_overruled() {
    let seed = new_seed();
    put_workload(&seed, "Deployment", "a", "x", 2);
    let marked = json!({MARK: "", RECORD: "2"});
    annotate(&seed, "deployments", "a", "x", &marked);
    put_health(&seed, "a", "p", &[entry("Deployment", "x", 0, None)]);
    assert_eq!(look(&overruling(&seed), None).await, [""; 0]);
    restore(&restorer(&seed), None).await;
    let object = seed.get("deployments", "a", "x").unwrap();
    assert_eq!(object["metadata"]["annotations"], Value::Null);
}

/// It would become a part of paths and commands.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_none_is_not_looked_at() {
    let seed = new_seed();
    put_taken(&seed, "Deployment", "$(x)", "x", Some("1"));
    put_health(&seed, "$(x)", "p", &[entry("Deployment", "x", 0, Some(1))]);
    assert_eq!(look(&restorer(&seed), None).await, [""; 0]);
}

/// What somebody else asks for in between.
const BY_USER: i64 = 9;

/// What breaks a run: after so many requests about dependents nothing works any more, and whether
/// the last of them was carried out all the same.
type Crash = (usize, bool);

fn crashes() -> impl Strategy<Value = Vec<Crash>> {
    prop::collection::vec((0_usize..16, any::<bool>()), 0..4)
}

/// A dependent that was taken: its kind and replicas.
fn taken() -> impl Strategy<Value = (&'static str, i64)> {
    let kinds = prop_oneof![Just("Deployment"), Just("StatefulSet"), Just("Etcd")];
    (kinds, 1_i64..6)
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
            for (index, ((kind, replicas), level)) in taken.iter().enumerate() {
                let name = format!("d{index}");
                put_taken(&seed, kind, "a", &name, Some(&replicas.to_string()));
                dependents.push(entry(kind, &name, *level, Some(*replicas)));
                wanted.push((format!("{}s", kind.to_lowercase()), name, *replicas));
            }
            put_health(&seed, "a", "p", &dependents);
            let restorer = if overrule { overruling(&seed) } else { restorer(&seed) };
            let (came, asked) = (Arc::new(AtomicBool::new(false)), user.is_some());
            let (skip, at) = (user.unwrap_or_default(), came.clone());
            let writes = AtomicUsize::new(0);
            let before = move |call: &Call| {
                let write = asked && call.method == "PATCH" && call.name == "d0";
                write && writes.fetch_add(1, Relaxed) == skip
            };
            seed.interfere(1, before, move |object| {
                object["spec"]["replicas"] = json!(BY_USER);
                at.store(true, Relaxed);
            });
            for (after, carried_out) in crashes {
                let of_dependents = |call: &Call| call.namespace == "a";
                if carried_out {
                    seed.fail_committed(Failure::Reset, (after, 1), of_dependents);
                }
                seed.fail(Failure::Reset, (after, usize::MAX), of_dependents);
                restore(&restorer, None).await;
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
            let (_, parts) = restore(&restorer, None).await;
            assert_eq!(left(&parts), [""; 0]);
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
