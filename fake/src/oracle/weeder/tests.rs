//! What no flaw shows: see docs/invariants.md.

use super::*;
use crate::store::Store;
use serde_json::json;

const NAMESPACE: &str = "shoot--a";
const LAG: SignedDuration = SignedDuration::from_secs(1);

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// The service becomes ready at 100 s, for which there is a window of a minute; the pod loops from the beginning.
fn store() -> Store {
    let mut store = Store::default();
    let slice = |is_ready: bool| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "etcd-x", "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": "etcd"},
            },
            "endpoints": [{"conditions": {"ready": is_ready}}],
        })
    };
    let policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": "policy"},
        "spec": {
            "mode": "Enforce", "watchDuration": "1m0s",
            "servicesAndDependantSelectors": {"etcd": {"podSelectors": [
                {"matchLabels": {"role": "apiserver"}},
            ]}},
        },
    });
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "crasher", "namespace": NAMESPACE, "uid": "p", "labels": {"role": "apiserver"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ReplicaSet", "name": "o", "uid": "o", "controller": true,
            }],
        },
        "status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        ]},
    });
    for object in [policy, namespace, slice(false), pod] {
        store.put(second(0), object).unwrap();
    }
    store.put(second(100), slice(true)).unwrap();
    store
}

/// Asked for then, of the pod as it is.
fn deletion(store: &Store, at: i64) -> Deletion {
    let pod = store.get(&Key::new("pods", NAMESPACE, "crasher")).unwrap();
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

fn seed<'a>(store: &'a Store, looks: &'a [Timestamp]) -> Seed<'a> {
    let kinds = ["weedpolicies", "namespaces", "endpointslices", "pods"];
    Seed::new(kinds.iter().flat_map(|it| store.versions(it)), looks, LAG)
}

#[test]
fn a_pod_that_loops_in_a_window_is_deleted_in_time() {
    let store = store();
    let missed = |deletions: &[Deletion], calm: &[(i64, i64)]| {
        let calm = calm.iter().map(|it| (second(it.0), second(it.1)));
        let calm: Vec<Span> = calm.collect();
        let within = SignedDuration::from_secs(10);
        seed(&store, &[]).missed(deletions, &calm, within).len()
    };
    let always = [(0, 1_000)];
    assert_eq!(missed(&[], &always), 1);
    assert_eq!(missed(&[deletion(&store, 110)], &always), 0);
    assert_eq!(missed(&[deletion(&store, 111)], &always), 1);
    for (calm, expected) in [
        (&[][..], 0),
        (&[(0, 109)], 0),
        (&[(0, 110)], 1),
        (&[(0, 102), (120, 200)], 0),
        (&[(90, 115)], 1),
    ] {
        assert_eq!(missed(&[], calm), expected, "{calm:?}");
    }
}
