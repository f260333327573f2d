//! The page of `explain` about a cluster, against a seed of fixed objects and a fixed time.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use dependency_watchdog::{
    explain::{ask, page},
    runtime::seed::Seed,
};
use kube::{Client, client::Body};
use rstest::rstest;
use serde_json::{Value, json};

const CLUSTER: &str = "shoot--garden--alpha";
const GROUP: &str = "dependency-watchdog.gardener.cloud";
const LEASE: &str = "dwd-prober-leader-election";
/// The plurals that are served.
const PLURALS: [&str; 7] = [
    "clusters",
    "clusterhealths",
    "probepolicies",
    "weedpolicies",
    "namespaces",
    "leases",
    "deployments",
];

/// A seed of these objects, each with its plural.
#[derive(Clone, Default)]
struct Fixed {
    objects: Vec<(&'static str, Value)>,
    /// Plurals that may not be read.
    denied: Vec<&'static str>,
    /// After so many requests none is answered any more.
    silent_after: Option<usize>,
}

impl Fixed {
    /// A healthy cluster, two dependents, the policy that applies, a prober.
    fn healthy() -> Self {
        let mut objects = vec![
            ("clusters", cluster()),
            ("probepolicies", policy("shoots", 0)),
            ("leases", lease("11:59:58")),
            ("clusterhealths", health()),
        ];
        objects.extend([("kcm", 1), ("mcm", 2)].map(|it| ("deployments", deployment(it.0, it.1))));
        Self {
            objects,
            ..Self::default()
        }
    }

    /// The same in an outage: everything is scaled to zero.
    fn protected() -> Self {
        let mut seed = Self::healthy();
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

    fn merge(&mut self, plural: &str, name: &str, patch: Value) {
        let named = |it: &&mut (&str, Value)| it.0 == plural && it.1["metadata"]["name"] == name;
        json_patch::merge(&mut self.objects.iter_mut().find(named).unwrap().1, &patch);
    }

    fn record(&mut self, status: Value) {
        self.merge("clusterhealths", CLUSTER, json!({"status": status}));
    }

    fn spec(&mut self, spec: Value) {
        self.merge("probepolicies", "shoots", json!({"spec": spec}));
    }

    fn remove(&mut self, plural: &str) {
        self.objects.retain(|it| it.0 != plural);
    }

    async fn page(&self) -> String {
        let answers = ask(&self.seed(), CLUSTER, "garden").await;
        page(&answers.unwrap().unwrap())
    }

    fn seed(&self) -> Seed {
        let (fixed, asked) = (self.clone(), AtomicUsize::new(0));
        let service = tower::service_fn(move |request: http::Request<Body>| {
            assert_eq!(request.method(), "GET", "it only reads");
            let place = asked.fetch_add(1, Ordering::Relaxed);
            let silent = fixed.silent_after.is_some_and(|after| place >= after);
            let (status, body) = fixed.answer(request.uri());
            let response = http::Response::builder()
                .status(status)
                .header("Date", "Fri, 20 Nov 2026 12:00:00 GMT")
                .body(Body::from(body.to_string().into_bytes()));
            async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Seed::unlimited(Client::new(service, "default"))
    }

    fn answer(&self, uri: &http::Uri) -> (u16, Value) {
        let path = uri.path();
        if path == "/version" {
            return (200, json!({}));
        }
        let mut segments = path.rsplit('/');
        let last = segments.next().unwrap();
        let is_list = PLURALS.contains(&last);
        let plural = if is_list {
            last
        } else {
            segments.next().unwrap()
        };
        let failure = |code: u16, reason: &str, message: String| {
            (
                code,
                json!({
                    "kind": "Status", "status": "Failure", "code": code, "reason": reason,
                    "message": message, "details": {"name": last},
                }),
            )
        };
        if self.denied.contains(&plural) {
            return failure(
                403,
                "Forbidden",
                format!("{plural} is forbidden: User \"viewer\""),
            );
        }
        let found = self
            .objects
            .iter()
            .filter(|it| it.0 == plural)
            .map(|it| &it.1);
        let mut found: Vec<&Value> = found.collect();
        if let Some((_, selected)) = uri.query().and_then(|it| it.split_once("metadata.name%3D")) {
            found.retain(|it| it["metadata"]["name"] == selected);
        }
        if is_list {
            return (200, json!({"metadata": {}, "items": found}));
        }
        found.retain(|it| it["metadata"]["name"] == last);
        match found.first() {
            Some(object) => (200, (*object).clone()),
            None => failure(404, "NotFound", format!("{plural} \"{last}\" not found")),
        }
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
    let mut seed = Fixed::healthy();
    let policies = [policy("default", -5), elsewhere, invalid];
    seed.objects
        .extend(policies.map(|it| ("probepolicies", it)));
    seed
}

/// The policy that applied last cannot be read any more, so no other acts in its place.
fn another_policy() -> Fixed {
    let mut seed = Fixed::healthy();
    seed.objects.push(("probepolicies", policy("others", -1)));
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
    let mut seed = Fixed::healthy();
    let message = "no answer within 5s from https://api.alpha";
    let check = json!({
        "name": "etcd", "role": "Gate", "type": "TcpSocket", "result": "Failing", "message": "refused",
    });
    seed.record(json!({
        "reason": "Timeout", "message": message, "state": "OFFLINE", "stateMessage": "it is not reached",
        "conditions": [condition("Ready", "False", "Timeout", message)], "checks": [check],
    }));
    seed
}

fn trouble_with_dependents() -> Fixed {
    let mut seed = Fixed::protected();
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
    let mut seed = Fixed::healthy();
    seed.objects.push(("namespaces", namespace));
    let mut unrelated = policy("unrelated", "other");
    unrelated["status"] = json!({});
    let policies = [
        policy("weeds", "shoot"),
        policy("former", "other"),
        unrelated,
    ];
    seed.objects.extend(policies.map(|it| ("weedpolicies", it)));
    seed
}

fn without_rights() -> Fixed {
    let mut seed = Fixed::protected();
    seed.denied = vec!["deployments", "leases", "probepolicies", "weedpolicies"];
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
    "Done nothing State OFFLINE since 2026-11-20T11:20:00Z (40m ago): it is not reached nodes 3/3 \
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
    "Weeding weeds covers the namespace (mode Enforce): etcd-main-client",
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
    "Not read ProbePolicies: probepolicies is forbidden: User \"viewer\" WeedPolicies: weedpolicies is \
     forbidden: User \"viewer\" the Lease: leases is forbidden: User \"viewer\" deployment/kcm: ",
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
    assert!(
        !page.contains(|c: char| c.is_control() && c != '\n'),
        "{page:?}"
    );
}

#[tokio::test]
async fn the_page_of_a_protected_cluster() {
    insta::assert_snapshot!(Fixed::protected().page().await);
}

/// The operator may have ended between a write and its record.
#[tokio::test]
async fn a_mark_at_zero_is_owed_whatever_the_record_says() {
    for (replicas, owes) in [(0, true), (2, false)] {
        let mut seed = Fixed::healthy();
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
#[case::ahead("a", "12:00:09", None, "a leads; it renewed its Lease just now")]
#[case::silent(
    "a",
    "11:59:44",
    None,
    "no prober is alive, so nothing is done: a renewed 16s ago"
)]
#[case::given_back(
    "",
    "12:00:00",
    None,
    "no prober leads, so nothing is done: the Lease was given back"
)]
#[case::stored(
    "a",
    "11:00:00",
    Some("11:59:59"),
    "a leads; it renewed its Lease 1s ago"
)]
#[tokio::test]
async fn the_lease_tells_who_leads(
    #[case] holder: &str,
    #[case] renewed: &str,
    #[case] stored: Option<&str>,
    #[case] told: &str,
) {
    let mut seed = Fixed::healthy();
    seed.merge("leases", LEASE, lease(renewed));
    let entry = |time: &str, field: &str| {
        let time = format!("2026-11-20T{time}Z");
        json!({"manager": "x", "time": time, "fieldsV1": {"f:spec": {field: {}}}})
    };
    let stored = stored.map(|time| {
        json!([
            entry(time, "f:renewTime"),
            entry("11:59:59", "f:leaseDurationSeconds")
        ])
    });
    let holder = json!({"spec": {"holderIdentity": holder}, "metadata": {"managedFields": stored}});
    seed.merge("leases", LEASE, holder);
    let page = seed.page().await;
    assert!(page.contains(told), "{page}");
}

#[tokio::test]
async fn without_the_cluster_there_is_no_page() {
    let mut seed = Fixed::healthy();
    let answers = ask(&seed.seed(), "alfa", "garden").await;
    assert!(answers.unwrap().is_none());
    seed.remove("clusterhealths");
    for denied in [vec!["clusters", "clusterhealths"], vec!["clusters"]] {
        seed.denied = denied;
        let answers = ask(&seed.seed(), CLUSTER, "garden").await;
        let error = answers.err().unwrap();
        assert!(error.contains("clusters is forbidden"), "{error}");
    }
}

/// What is not answered is given up, and all that was is told.
#[tokio::test(start_paused = true)]
async fn a_seed_that_falls_silent_is_told_in_time() {
    let mut told = 0;
    for after in 0..12 {
        let seed = Fixed {
            silent_after: Some(after),
            ..weeded()
        };
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
