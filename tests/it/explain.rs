//! The page of `explain` about a cluster, against a seed of fixed objects and a fixed time.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use dependency_watchdog::{
    explain::{ask, page},
    runtime::seed::Seed,
};
use fake::{
    fault::{Fate, Rule},
    server::Server,
    store::Key,
};
use jiff::Timestamp;
use kube::{Client, client::Body};
use rstest::rstest;
use serde_json::{Value, json};
use tower::service_fn;

const CLUSTER: &str = "shoot--garden--alpha";
const GROUP: &str = "dependency-watchdog.gardener.cloud";
const LEASE: &str = "dwd-prober-leader-election";
/// When all is asked.
const NOW: &str = "12:00:00";

fn second(time: &str) -> i64 {
    let time: Timestamp = format!("2026-11-20T{time}Z").parse().unwrap();
    time.as_second()
}

/// A seed of these objects, with its clock.
#[derive(Clone)]
struct Fixed(Server, Arc<AtomicI64>);

impl Fixed {
    /// A healthy cluster, two dependents, the policy that applies, a prober.
    fn healthy() -> Self {
        let clock = Arc::new(AtomicI64::new(second("11:59:58")));
        let time = clock.clone();
        let server = Server::new(move || Timestamp::from_second(time.load(Relaxed)).unwrap());
        let seed = Self(server, clock);
        let deployments = [("kcm", 1), ("mcm", 2)].map(|it| deployment(it.0, it.1));
        seed.put([cluster(), policy("shoots", 0), lease("11:59:58"), health()]);
        seed.put(deployments);
        seed
    }

    /// The same in an outage: everything is scaled to zero.
    fn protected() -> Self {
        let seed = Self::healthy();
        for (name, replicas) in [("kcm", "1"), ("mcm", "2")] {
            seed.merge("deployments", name, json!({
                "spec": {"replicas": 0}, "status": null, "metadata": {"annotations": taken(replicas)},
            }));
        }
        let owed = |name: &str, replicas: i32| {
            json!({
                "ref": reference(name), "owed": true, "recordedReplicas": replicas,
                "level": 0, "initialDelay": "0s", "timeout": "30s",
            })
        };
        seed.record(json!({
            "protection": "Active", "protectedSince": "2026-11-20T11:48:00Z", "reason": "Outage",
            "message": "3 of 3 node leases that count are expired, and 2 are an outage; the API server \
                        answers and accepts writes; zones: a 2 of 2, b 1 of 1; scaled to zero until the \
                        leases are fresh again: kcm, mcm",
            "state": "NOTREADY", "lastStateTransitionTime": "2026-11-20T11:48:00Z",
            "stateMessage": "its kubelets are silent: 3 of 3 node leases that count are expired",
            "lastAction": {
                "time": "2026-11-20T11:48:01Z", "action": "ScaledDown",
                "message": "scaled to zero: kcm, mcm; 3 of 3 node leases that count were expired",
            },
            "dependents": [owed("kcm", 1), owed("mcm", 2)],
        }));
        seed
    }

    fn put(&self, objects: impl IntoIterator<Item = Value>) {
        for object in objects {
            self.0.store(|store, now| store.put(now, object)).unwrap();
        }
    }

    fn merge(&self, plural: &str, name: &str, patch: Value) {
        let namespace = match plural {
            "deployments" => CLUSTER,
            "leases" => "garden",
            _ => "",
        };
        let key = Key::new(plural, namespace, name);
        let merge = |object: &mut Value| json_patch::merge(object, &patch);
        assert!(self.0.store(|store, now| store.edit(&key, now, merge)));
    }

    fn record(&self, status: Value) {
        self.merge("clusterhealths", CLUSTER, json!({"status": status}));
    }

    fn spec(&self, spec: Value) {
        self.merge("probepolicies", "shoots", json!({"spec": spec}));
    }

    /// Has these plurals be refused.
    fn deny(&self, denied: &'static [&'static str]) {
        self.0
            .deny(move |_, resource, _| denied.contains(&resource));
    }

    async fn page(&self) -> String {
        let answers = ask(&self.seed(), CLUSTER, "garden").await;
        page(&answers.unwrap().unwrap())
    }

    fn seed(&self) -> Seed {
        self.1.store(second(NOW), Relaxed);
        let connection = self.0.connect();
        let service = service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.method(), "GET", "it only reads");
            let connection = connection.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.map_err(io::Error::other)?;
                connection.call(http::Request::from_parts(head, body)).await
            }
        });
        Seed::unlimited(Client::new(service, "default"))
    }
}

fn cluster() -> Value {
    json!({
        "kind": "Cluster", "apiVersion": "extensions.gardener.cloud/v1alpha1",
        "metadata": {"name": CLUSTER, "uid": "uid", "labels": {"stage": "live"}},
        "spec": {"shoot": {
            "spec": {"provider": {"workers": [{"name": "w"}]}},
            "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
        }},
    })
}

fn reference(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
}

fn policy(name: &str, priority: i32) -> Value {
    let dependents = ["kcm", "mcm"].map(|name| {
        json!({
            "ref": reference(name), "optional": false, "scaleUp": {"level": 0}, "scaleDown": {"level": 0},
        })
    });
    json!({
        "kind": "ProbePolicy", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {
            "priority": priority, "mode": "Enforce", "kubeConfigSecretName": "dwd",
            "kcmNodeMonitorGraceDuration": "40s", "dependentResourceInfos": dependents,
        },
    })
}

fn health() -> Value {
    json!({
        "kind": "ClusterHealth", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": CLUSTER}, "spec": {},
        "status": {
            "protection": "None", "policy": "shoots", "reason": "Healthy",
            "message": "none of 3 node leases is expired",
            "state": "ONLINE", "stateMessage": "it answers, and its 3 nodes are well",
            "lastStateTransitionTime": "2026-11-20T11:20:00Z",
            "nodes": "3/3", "nodesPidPressure": "0/3", "nodesMemoryPressure": "0/3",
            "nodesDiskPressure": "0/3", "lastProbeTime": "2026-11-20T11:59:00Z",
        },
    })
}

fn lease(renewed: &str) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": LEASE, "namespace": "garden"},
        "spec": {
            "holderIdentity": "dwd-prober-0", "leaseDurationSeconds": 15,
            "renewTime": format!("2026-11-20T{renewed}.000000Z"),
        },
    })
}

fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": name, "namespace": CLUSTER, "generation": 1, "resourceVersion": "1"},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas},
    })
}

fn taken(replicas: &str) -> Value {
    json!({
        format!("{GROUP}/meltdown-protection-active"): "", format!("{GROUP}/replicas"): replicas,
    })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-20T11:48:00Z",
    })
}

fn healthy() -> Fixed {
    let mut invalid = policy("invalid", 9);
    invalid["spec"]["failureThreshold"] = json!(0);
    let mut elsewhere = policy("elsewhere", 9);
    elsewhere["spec"]["clusterSelector"] = json!({"matchLabels": {"stage": "dev"}});
    let seed = Fixed::healthy();
    seed.put([policy("default", -5), elsewhere, invalid]);
    seed
}

/// The policy that applied last cannot be read any more, so no other acts in its place.
fn another_policy() -> Fixed {
    let seed = Fixed::healthy();
    seed.put([policy("others", -1)]);
    seed.spec(json!({"mode": "Later"}));
    let conditions = [condition(
        "Degraded",
        "True",
        "PolicyInvalid",
        "it cannot be decoded",
    )];
    seed.record(json!({"reason": "PolicyInvalid", "conditions": conditions}));
    seed
}

fn undetermined() -> Fixed {
    let seed = Fixed::healthy();
    let message = "no answer within 5s from https://api.alpha";
    let check = json!({
        "name": "etcd", "role": "Gate", "type": "TcpSocket", "result": "Failing", "message": "refused",
    });
    seed.record(json!({
        "reason": "Timeout", "message": message, "state": "OFFLINE", "stateMessage": "it is not reached",
        "nodes": "3/3\nforged", "conditions": [condition("Ready", "False", "Timeout", message)], "checks": [check],
    }));
    seed
}

fn trouble_with_dependents() -> Fixed {
    let seed = Fixed::protected();
    let ignored = json!({
        format!("{GROUP}/meltdown-protection-active"): null, format!("{GROUP}/ignore-scaling"): "true",
    });
    for (name, annotations) in [("kcm", taken("\u{1b}[2Jmany")), ("mcm", ignored)] {
        seed.merge(
            "deployments",
            name,
            json!({"metadata": {"annotations": annotations}}),
        );
    }
    let message = "kcm: its record is no number";
    seed.record(
        json!({"protection": "Restoring", "reason": "Healthy", "conditions": [
            condition("Protecting", "True", "Restoring", "not all restored yet: kcm, mcm"),
            condition("Degraded", "True", "RecordUnreadable", message),
        ]}),
    );
    seed
}

fn weeded() -> Fixed {
    let weed = |namespace: &str, pod: &str| {
        json!({
            "time": "2026-11-20T11:58:00Z", "namespace": namespace, "pod": pod, "service": "etcd-main-client",
            "owner": "ReplicaSet/kube-apiserver", "containers": ["kube-apiserver"],
        })
    };
    let policy = |name: &str, role: &str| {
        json!({
            "kind": "WeedPolicy", "apiVersion": format!("{GROUP}/v1alpha1"), "metadata": {"name": name},
            "spec": {
                "namespaceSelector": {"matchLabels": {"role": role}}, "mode": "Enforce",
                "servicesAndDependantSelectors": {
                    "etcd-main-client": {"podSelectors": [{"matchLabels": {"role": "apiserver"}}]},
                },
            },
            "status": {"lastWeeds": [weed(CLUSTER, "kube-apiserver-x"), weed("another", "y")], "leftAlone": [{
                "time": "2026-11-20T11:50:00Z", "namespace": CLUSTER, "pod": "debug",
                "service": "etcd-main-client", "reason": "NoController", "message": "it has no controller",
            }]},
        })
    };
    let namespace = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": CLUSTER, "labels": {"role": "shoot"}},
    });
    let seed = Fixed::healthy();
    let mut unrelated = policy("unrelated", "other");
    unrelated["status"] = json!({});
    seed.put([
        namespace,
        policy("weeds", "shoot"),
        policy("former", "other"),
        unrelated,
    ]);
    seed
}

fn without_rights() -> Fixed {
    let seed = Fixed::protected();
    seed.deny(&["deployments", "leases", "probepolicies", "weedpolicies"]);
    seed
}

/// In each situation the page says who decides, what was seen, done and is owed, and what is waited for.
#[rstest]
#[case::healthy(healthy(), [
    "dwd-prober-0 leads; it renewed its Lease 2s ago Policies default selects the cluster as well, and \
     comes after (priority -5): the highest priority counts, then the oldest; one that cannot be read any \
     more is waited for elsewhere does not select the cluster: it asks for stage=dev, and finds \
     stage=live invalid is not valid, and selects nothing: spec.failureThreshold: ",
    "Seen Healthy (policy: shoots), last probed 60s ago: none of 3 node leases is expired Done",
    "Done nothing State ONLINE since 2026-11-20T11:20:00Z (40m ago): it answers",
    "deployment/kcm 1 - no",
    "is Healthy; protection: None.",
])]
#[case::another_policy(another_policy(), [
    "others selects the cluster as well, and comes after (priority -1): the highest priority counts, then \
     the oldest; one that cannot be read any more is waited for shoots applied last, and is waited for: \
     cannot be read: ",
    "Seen PolicyInvalid",
    "Done nothing",
    "",
    "Degraded is True (PolicyInvalid): it cannot be decoded To do correct what the message names",
])]
#[case::undetermined(undetermined(), [
    "shoots applies (priority 0)",
    "Seen Timeout (policy: shoots), last probed 60s ago: no answer within 5s",
    "Done nothing State OFFLINE since 2026-11-20T11:20:00Z (40m ago): it is not reached nodes 3/3 forged \
     nodesPidPressure 0/3 nodesMemoryPressure 0/3 nodesDiskPressure 0/3 Checks etcd (Gate) is Failing: \
     refused",
    "deployment/kcm 1 - no",
    "Ready is False (Timeout) To do see whether the shoot's API server runs",
])]
#[case::trouble_with_dependents(trouble_with_dependents(), [
    "shoots applies (priority 0)",
    "Seen Healthy",
    "Done ScaledDown",
    "deployment/kcm 0 \"\\u{1b}[2Jmany\" yes deployment/mcm 0 2 no, ignore-scaling",
    "Protecting is True (Restoring): not all restored yet: kcm, mcm Degraded is True \
     (RecordUnreadable): kcm: its record is no number To do correct the annotation",
])]
#[case::weeded(weeded(), [
    "weeds covers the namespace (mode Enforce): etcd-main-client",
    "- left alone debug 10m ago (NoController): it has no controller",
    "- deleted kube-apiserver-x of ReplicaSet/kube-apiserver 2m ago, for etcd-main-client",
    "deployment/kcm 1 - no",
    "former does not cover the namespace now",
])]
#[case::without_rights(without_rights(), [
    "Operator not known: there is no Lease garden/dwd-prober-leader-election, or it was not read",
    "Seen Outage",
    "Done ScaledDown",
    "deployment/kcm ? 1 ? deployment/mcm ? 2 ? To give back by hand",
    "Not read ProbePolicies: probepolicies.dependency-watchdog.gardener.cloud is forbidden: User ",
])]
#[tokio::test]
async fn every_situation_is_explained(#[case] seed: Fixed, #[case] parts: [&str; 5]) {
    let page = seed.page().await;
    let line = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(line.contains(part), "{part}\nis not in\n{page}");
    }
    for absent in ["another", "unrelated"] {
        assert!(!line.contains(absent), "{page}");
    }
    let restores = line.contains("dependency-watchdog restore");
    assert_eq!(restores, line.contains("Done ScaledDown"), "{page}");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!page.contains(control), "{page:?}");
    assert!(!page.contains("\nforged"), "{page}");
}

#[tokio::test]
async fn the_page_of_a_protected_cluster() {
    insta::assert_snapshot!(Fixed::protected().page().await);
}

/// The operator may have ended between a write and its record.
#[tokio::test]
async fn a_mark_at_zero_is_owed_whatever_the_record_says() {
    for (replicas, owes) in [(0, true), (2, false)] {
        let seed = Fixed::healthy();
        let marked =
            json!({"spec": {"replicas": replicas}, "metadata": {"annotations": taken("2")}});
        seed.merge("deployments", "mcm", marked);
        let answers = ask(&seed.seed(), CLUSTER, "elsewhere").await;
        let restore = "restore shoot--garden--alpha --leader-election-namespace=elsewhere\n";
        let page = page(&answers.unwrap().unwrap());
        assert_eq!(page.contains(restore), owes);
    }
}

/// Clocks of holders may be wrong: the time at which the seed stored a renewal counts.
#[rstest]
#[case::ahead("a", "12:00:09", NOW, "a leads; it renewed its Lease just now")]
#[case::silent(
    "a",
    "11:59:44",
    "11:59:44",
    "no prober is alive, so nothing is done: a renewed 16s ago"
)]
#[case::given_back(
    "",
    NOW,
    NOW,
    "no prober leads, so nothing is done: the Lease was given back"
)]
#[case::behind("a", "11:00:00", "11:59:59", "a leads; it renewed its Lease 1s ago")]
#[tokio::test]
async fn the_lease_tells_who_leads(
    #[case] holder: &str,
    #[case] renewed: &str,
    #[case] stored: &str,
    #[case] told: &str,
) {
    let seed = Fixed::healthy();
    seed.1.store(second(stored), Relaxed);
    let mut lease = lease(renewed);
    lease["spec"]["holderIdentity"] = json!(holder);
    seed.merge("leases", LEASE, lease);
    let page = seed.page().await;
    assert!(page.contains(told), "{page}");
}

#[tokio::test]
async fn without_the_cluster_there_is_no_page() {
    let seed = Fixed::healthy();
    let answers = ask(&seed.seed(), "alfa", "garden").await;
    assert!(answers.unwrap().is_none());
    let health = Key::new("clusterhealths", "", CLUSTER);
    seed.0.store(|store, now| store.remove(&health, now));
    for denied in [&["clusters", "clusterhealths"][..], &["clusters"]] {
        seed.deny(denied);
        let error = ask(&seed.seed(), CLUSTER, "garden").await.err().unwrap();
        let expected = "clusters.extensions.gardener.cloud is forbidden";
        assert!(error.contains(expected), "{error}");
    }
}

/// What is not answered is given up, and all that was is told.
#[tokio::test(start_paused = true)]
async fn a_seed_that_falls_silent_is_told_in_time() {
    let mut told = 0;
    for after in 0..12 {
        let (seed, fate) = (weeded(), Fate::Hang { committed: false });
        let all = Rule::always(fate, |_| true);
        seed.0.rule(Rule { skip: after, ..all });
        let started = tokio::time::Instant::now();
        match ask(&seed.seed(), CLUSTER, "garden").await {
            Ok(answers) => {
                assert!(page(&answers.unwrap()).contains(CLUSTER));
                told += 1;
            }
            Err(error) => assert!(error.contains("did not answer within 10s"), "{error}"),
        }
        let limit = Duration::from_secs(45);
        assert!(
            started.elapsed() < limit,
            "{after}: {:?}",
            started.elapsed()
        );
    }
    // Only the clock and the Cluster must be there.
    assert_eq!(told, 10);
}
