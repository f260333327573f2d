use super::*;
use crate::store::Store;
use serde_json::json;

const NAMESPACE: &str = "shoot--a";
const LAG: SignedDuration = SignedDuration::from_secs(1);

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn key(plural: &str) -> Key {
    let (namespace, name) = match plural {
        "pods" => (NAMESPACE, "crasher"),
        "endpointslices" => (NAMESPACE, "etcd-x"),
        "namespaces" => ("", NAMESPACE),
        _ => ("", "policy"),
    };
    Key::new(plural, namespace, name)
}

fn owner(kind: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": true}])
}

fn endpoints(is_ready: bool) -> Value {
    json!([{"conditions": {"ready": is_ready}}])
}

/// The service becomes ready at 100 s, for which there is a window of a minute.
fn store() -> Store {
    let mut store = Store::default();
    let policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": "policy"},
        "spec": {
            "mode": "Enforce",
            "watchDuration": "1m0s",
            "namespaceSelector": {"matchLabels": {"zone": "a"}},
            "servicesAndDependantSelectors": {"etcd": {"podSelectors": [
                {"matchLabels": {"role": "other"}},
                {"matchExpressions": [
                    {"key": "role", "operator": "In", "values": ["apiserver", "scheduler"]},
                    {"key": "spared", "operator": "DoesNotExist"},
                ]},
            ]}},
        },
    });
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"zone": "a"}},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "etcd-x", "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": "etcd"},
        },
        "endpoints": endpoints(false),
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "crasher", "namespace": NAMESPACE, "uid": "p",
            "labels": {"role": "apiserver"}, "ownerReferences": owner("ReplicaSet"),
        },
        "status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]},
    });
    for object in [policy, namespace, slice, pod] {
        store.put(second(0), object).unwrap();
    }
    set(
        &mut store,
        100,
        "endpointslices",
        "/endpoints",
        endpoints(true),
    );
    store
}

/// Sets a field of the object of this kind then.
fn set(store: &mut Store, at: i64, plural: &str, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/");
    let change = |object: &mut Value| object.pointer_mut(parent).unwrap()[field] = value;
    assert!(store.edit(&key(plural), second(at), change));
}

/// Asked for then, of the newest version of the pod.
fn deletion(store: &Store, at: i64) -> Deletion {
    let changes = store.versions("pods");
    let versions = changes
        .filter(|it| it.at <= second(at))
        .filter_map(|it| it.after.clone());
    let pod = versions.last().unwrap();
    let metadata = |field: &str| pod["metadata"][field].as_str().map(str::to_owned);
    Deletion {
        at: second(at),
        until: second(at),
        namespace: NAMESPACE.to_owned(),
        pod: "crasher".to_owned(),
        uid: metadata("uid"),
        version: metadata("resourceVersion"),
        is_done: true,
    }
}

/// The rules that are broken.
fn broken(store: &Store, looks: &[Timestamp], deletions: &[Deletion]) -> Vec<String> {
    let kinds = ["weedpolicies", "namespaces", "endpointslices", "pods"];
    let history = kinds.iter().flat_map(|it| store.versions(it));
    let broken = Seed::new(history, looks, LAG).broken(deletions);
    let rule = |it: &String| it.split(':').next().unwrap().to_owned();
    broken.iter().map(rule).collect()
}

#[test]
fn each_deletion_is_judged() {
    let pod = |field, value| vec![(50, "pods", field, value)];
    let policy = |at, field, value| vec![(at, "weedpolicies", field, value)];
    let slice = |at, is_ready| (at, "endpointslices", "/endpoints", endpoints(is_ready));
    let container = |state: Value| json!([{"name": "c", "restartCount": 3, "state": state}]);
    let ended = |code: i32, finished: i64| {
        container(json!({"terminated": {
            "exitCode": code,
            "startedAt": second(0).to_string(), "finishedAt": second(finished).to_string(),
        }}))
    };
    let window = Some("only-in-a-window");
    let loops = Some("only-what-crash-loops");
    let back = Some("only-what-comes-back");
    let statuses = "/status/containerStatuses";
    for (at, settings, expected) in [
        (101, vec![], None),
        (160, vec![], None),
        // Before, and too late.
        (99, vec![], window),
        (162, vec![], window),
        // The pod.
        (110, pod(statuses, ended(1, 30)), None),
        (110, pod(statuses, ended(0, 30)), loops),
        (110, pod(statuses, ended(1, 700)), loops),
        (110, pod(statuses, container(json!({"running": {}}))), loops),
        (110, pod("/status/phase", json!("Failed")), loops),
        (
            110,
            pod("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            loops,
        ),
        (
            110,
            pod("/metadata/ownerReferences", owner("CloneSet")),
            None,
        ),
        (110, pod("/metadata/ownerReferences", owner("Job")), back),
        (110, pod("/metadata/ownerReferences", owner("Node")), back),
        (
            110,
            pod("/metadata/ownerReferences", json!([{"kind": "ReplicaSet"}])),
            back,
        ),
        (110, pod("/metadata/labels/role", json!("other")), None),
        (110, pod("/metadata/labels/role", json!("etcd")), window),
        (110, pod("/metadata/labels/spared", json!("")), window),
        // The policy and the namespace.
        (110, policy(50, "/spec/mode", json!("DryRun")), window),
        (110, policy(50, "/spec/suspend", json!(true)), window),
        (110, policy(109, "/spec/suspend", json!(true)), None),
        (110, policy(108, "/spec/suspend", json!(true)), window),
        (
            110,
            policy(
                50,
                "/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
            ),
            window,
        ),
        (110, policy(50, "/spec/namespaceSelector", json!({})), None),
        (150, policy(50, "/spec/watchDuration", json!("30s")), window),
        (
            180,
            policy(120, "/spec/watchDuration", json!("1h0m0s")),
            None,
        ),
        (
            110,
            vec![(50, "namespaces", "/metadata/labels/zone", json!("b"))],
            window,
        ),
        (
            110,
            vec![(50, "namespaces", "/metadata/deletionTimestamp", json!("x"))],
            window,
        ),
        // The service.
        (111, vec![slice(110, false)], None),
        (112, vec![slice(110, false)], window),
        (170, vec![slice(110, false), slice(120, true)], None),
        (
            110,
            vec![(105, "endpointslices", "/metadata/labels", json!({}))],
            window,
        ),
        (
            110,
            vec![(
                105,
                "endpointslices",
                "/endpoints",
                json!([{"conditions": {"terminating": true}}]),
            )],
            window,
        ),
    ] {
        let mut store = store();
        let context = format!("{at}: {settings:?}");
        for (at, plural, pointer, value) in settings {
            set(&mut store, at, plural, pointer, value);
        }
        let found = broken(&store, &[], &[deletion(&store, at)]);
        assert_eq!(found, Vec::from_iter(expected), "{context}");
    }
}

/// Ready since 100 s, as the slice says; looked at anew then.
#[test]
fn who_did_not_see_a_service_become_ready_believes_its_slices() {
    let annotation = "/metadata/annotations";
    let changed = |at: i64| json!({"endpoints.kubernetes.io/last-change-trigger-time": second(at)});
    for (look, annotations, at, expected) in [
        (None, changed(100), 170, true),
        (Some(150), changed(100), 170, false),
        (Some(150), changed(100), 212, true),
        (Some(165), changed(100), 170, true),
        (Some(150), json!({}), 170, true),
        (Some(150), changed(80), 170, true),
        // A clock that is ahead.
        (Some(150), changed(200), 170, false),
        (Some(180), changed(150), 170, true),
    ] {
        let mut store = store();
        set(&mut store, 100, "endpointslices", annotation, annotations);
        let looks: Vec<Timestamp> = look.map(second).into_iter().collect();
        let found = broken(&store, &looks, &[deletion(&store, at)]);
        assert_eq!(!found.is_empty(), expected, "{look:?} {at}: {found:?}");
    }
    // To a policy that is edited a service may be new.
    let mut store = store();
    set(&mut store, 100, "endpointslices", annotation, changed(100));
    set(
        &mut store,
        150,
        "weedpolicies",
        "/spec/suspend",
        json!(false),
    );
    assert_eq!(broken(&store, &[], &[deletion(&store, 170)]).len(), 1);
    set(
        &mut store,
        150,
        "weedpolicies",
        "/spec/suspend",
        json!(true),
    );
    set(
        &mut store,
        151,
        "weedpolicies",
        "/spec/suspend",
        json!(false),
    );
    assert_eq!(
        broken(&store, &[], &[deletion(&store, 170)]),
        Vec::<String>::new()
    );
}

#[test]
fn only_the_version_that_was_judged_is_deleted_and_once() {
    let store = store();
    let usual = deletion(&store, 110);
    let other = |field: Option<&str>| field.map(str::to_owned);
    for (uid, version) in [
        (None, usual.version.clone()),
        (usual.uid.clone(), None),
        (other(Some("q")), usual.version.clone()),
        (usual.uid.clone(), other(Some("999"))),
    ] {
        let deletion = Deletion {
            uid,
            version,
            ..usual.clone()
        };
        assert_eq!(broken(&store, &[], &[deletion]), ["only-what-was-judged"]);
    }
    let unanswered = Deletion {
        is_done: false,
        ..usual.clone()
    };
    let twice = [usual.clone(), usual.clone()];
    assert_eq!(broken(&store, &[], &twice), ["once"]);
    assert!(broken(&store, &[], &[unanswered, usual]).is_empty());
}

#[test]
fn few_are_under_way_at_once() {
    let mut store = store();
    let mut deletions = Vec::new();
    for number in 0..40 {
        let namespace = format!("shoot--{}", number / 4);
        for (plural, name) in [("namespaces", &namespace), ("endpointslices", &namespace)] {
            let mut object = store.get(&key(plural)).unwrap().clone();
            let named = if plural == "namespaces" {
                "name"
            } else {
                "namespace"
            };
            object["metadata"][named] = json!(name);
            store.put(second(100), object).unwrap();
        }
        let mut pod = store.get(&key("pods")).unwrap().clone();
        pod["metadata"]["namespace"] = json!(namespace);
        pod["metadata"]["name"] = json!(format!("crasher-{number}"));
        pod["metadata"]["uid"] = json!(format!("p-{number}"));
        let key = store.put(second(100), pod).unwrap();
        let version = store.get(&key).unwrap()["metadata"]["resourceVersion"].clone();
        deletions.push(Deletion {
            until: second(120),
            namespace,
            pod: key.name,
            uid: Some(format!("p-{number}")),
            version: version.as_str().map(str::to_owned),
            is_done: false,
            ..deletion(&store, 110)
        });
    }
    let found = broken(&store, &[], &deletions);
    assert_eq!(found, vec!["few-at-once"; 8]);
    // One more in a namespace with four, and after one of them has ended.
    deletions.truncate(4);
    let mut fifth = deletions[0].clone();
    fifth.at = second(111);
    deletions.push(fifth);
    assert_eq!(broken(&store, &[], &deletions), ["few-at-once"]);
    deletions[1].until = second(111);
    assert!(broken(&store, &[], &deletions).is_empty());
}

/// The window is open from 100 s to 160 s, and the pod loops from the beginning.
#[test]
fn a_pod_that_loops_in_a_window_is_deleted_in_time() {
    const WITHIN: SignedDuration = SignedDuration::from_secs(10);
    let missed = |store: &Store, deletions: &[Deletion], calm: &[(i64, i64)]| {
        let calm: Vec<Span> = calm
            .iter()
            .map(|(from, until)| (second(*from), second(*until)))
            .collect();
        let kinds = ["weedpolicies", "namespaces", "endpointslices", "pods"];
        let history = kinds.iter().flat_map(|it| store.versions(it));
        Seed::new(history, &[], LAG).missed(deletions, &calm, WITHIN)
    };
    let all = [(0, 1_000)];
    let usual = store();
    let found = missed(&usual, &[], &all);
    assert!(
        found.len() == 1 && found[0].contains("2027-01-15T08:01:50Z"),
        "{found:?}"
    );
    assert!(missed(&usual, &[deletion(&usual, 110)], &all).is_empty());
    assert_eq!(missed(&usual, &[deletion(&usual, 111)], &all).len(), 1);
    // Of another pod of the controller, and of another controller.
    let other = |controller: &str| {
        let mut store = store();
        let mut pod = store.get(&key("pods")).unwrap().clone();
        pod["metadata"]["uid"] = json!("q");
        pod["metadata"]["name"] = json!("other");
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(controller);
        pod["status"] = json!({});
        store.put(second(50), pod).unwrap();
        let deletion = Deletion {
            pod: "other".to_owned(),
            uid: Some("q".to_owned()),
            ..deletion(&store, 105)
        };
        missed(&store, &[deletion], &all).len()
    };
    assert_eq!((other("o"), other("another")), (0, 1));
    // Not calm, or not calm for long enough.
    for (calm, expected) in [
        (&[][..], 0),
        (&[(101, 1_000)], 0),
        (&[(0, 109)], 0),
        (&[(0, 110)], 1),
        (&[(0, 102), (120, 200)], 0),
        (&[(90, 115)], 1),
    ] {
        assert_eq!(missed(&usual, &[], calm).len(), expected, "{calm:?}");
    }
    let slice = |at, is_ready| (at, "endpointslices", "/endpoints", endpoints(is_ready));
    let statuses = "/status/containerStatuses";
    let looping = json!([{"name": "d", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    let suspended = "/spec/suspend";
    for (settings, expected) in [
        // Another version that loops as well.
        (vec![(105, "pods", statuses, looping)], 1),
        (vec![(105, "pods", statuses, json!([]))], 0),
        (vec![(115, "pods", statuses, json!([]))], 1),
        (
            vec![(105, "pods", "/metadata/labels/role", json!("other"))],
            1,
        ),
        (
            vec![(105, "pods", "/metadata/labels/role", json!("etcd"))],
            0,
        ),
        (
            vec![(50, "pods", "/metadata/ownerReferences", owner("Job"))],
            0,
        ),
        (vec![slice(105, false)], 0),
        (vec![slice(105, false), slice(108, true)], 1),
        (vec![(50, "weedpolicies", suspended, json!(true))], 0),
        (vec![(105, "weedpolicies", suspended, json!(true))], 0),
        (
            vec![
                (50, "weedpolicies", suspended, json!(true)),
                (101, "weedpolicies", suspended, json!(false)),
            ],
            0,
        ),
        (
            vec![(50, "weedpolicies", "/spec/watchDuration", json!("9s"))],
            0,
        ),
        (vec![(50, "weedpolicies", "/status", json!({}))], 1),
        (
            vec![(50, "namespaces", "/metadata/labels/zone", json!("b"))],
            0,
        ),
    ] {
        let mut store = store();
        let context = format!("{settings:?}");
        for (at, plural, pointer, value) in settings {
            set(&mut store, at, plural, pointer, value);
        }
        let found = missed(&store, &[], &all);
        assert_eq!(found.len(), expected, "{context}: {found:?}");
    }
}
