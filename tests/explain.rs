//! What `explain` tells of a cluster, against a seed of fixed objects and a fixed time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use dependency_watchdog::{
    explain::{Account, AskError, Cover, DependentState, OperatorState, State, ask, text},
    runtime::seed::Seed,
};
use kube::{Client, client::Body};
use serde_json::{Value, json};

const CLUSTER: &str = "shoot--garden--alpha";
const GROUP: &str = "dependency-watchdog.gardener.cloud";
/// A minute before it is asked.
const PROBED: &str = "2026-11-20T11:59:00Z";

/// A seed of these objects.
#[derive(Clone, Default)]
struct Fixed {
    objects: Vec<Value>,
    /// Plurals that may not be read.
    denied: Vec<&'static str>,
    /// Plurals that are not served.
    unserved: Vec<&'static str>,
    /// After so many requests none is answered any more.
    silent_after: Option<usize>,
}

impl Fixed {
    /// A healthy cluster, three dependents, the policy that applies, a prober.
    fn healthy() -> Self {
        let dependents = [("kcm", 1), ("mcm", 2), ("ca", 3)];
        let deployments = dependents.map(|(name, replicas)| deployment(name, replicas, &json!({})));
        let mut objects = vec![cluster(), policy("shoots", 0), lease("11:59:58"), health()];
        objects.extend(deployments);
        Self {
            objects,
            ..Self::default()
        }
    }

    /// The same in an outage: everything is scaled to zero.
    fn protected() -> Self {
        let mut seed = Self::healthy();
        for (name, replicas) in [("kcm", "1"), ("mcm", "2"), ("ca", "3")] {
            seed.change("Deployment", name, |it| {
                it["spec"]["replicas"] = json!(0);
                it["status"] = json!({"observedGeneration": 1});
                it["metadata"]["annotations"] = taken(replicas);
                it["metadata"]["managedFields"] = set_by("dependency-watchdog");
            });
        }
        seed.change("ClusterHealth", CLUSTER, |it| {
            let status = &mut it["status"];
            status["protection"] = json!("Active");
            status["protectedSince"] = json!("2026-11-20T11:48:00Z");
            status["reason"] = json!("Outage");
            status["message"] = json!(
                "3 of 3 node leases that count are expired, and 2 are an outage; the API server \
                 answers and accepts writes; zones: a 2 of 2, b 1 of 1; scaled to zero until the \
                 leases are fresh again: ca, kcm, mcm"
            );
            status["leases"]["expired"] = json!(3);
            status["state"] = json!("NOTREADY");
            status["stateMessage"] =
                json!("its kubelets are silent: 3 of 3 node leases that count are expired");
            status["lastStateTransitionTime"] = json!("2026-11-20T11:48:00Z");
            status["lastAction"] = json!({
                "time": "2026-11-20T11:48:01Z", "action": "ScaledDown",
                "message": "scaled to zero: kcm, mcm, ca; 3 of 3 node leases that count were expired",
            });
            for (place, replicas) in [3, 1, 2].into_iter().enumerate() {
                status["dependents"][place]["owed"] = json!(true);
                status["dependents"][place]["recordedReplicas"] = json!(replicas);
            }
        });
        seed
    }

    fn change(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut objects = self.objects.iter_mut();
        let object = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        change(object.unwrap());
    }

    fn remove(&mut self, kind: &str) {
        self.objects.retain(|it| it["kind"] != kind);
    }

    fn with(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    async fn account(&self) -> Account {
        Account::new(&ask(&self.seed(), CLUSTER, "garden").await.unwrap())
    }

    async fn error(&self, cluster: &str) -> AskError {
        match ask(&self.seed(), cluster, "garden").await {
            Ok(_) => panic!("{cluster} was told"),
            Err(error) => error,
        }
    }

    fn seed(&self) -> Seed {
        let fixed = self.clone();
        let asked = AtomicUsize::new(0);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let place = asked.fetch_add(1, Ordering::Relaxed);
            let silent = fixed.silent_after.is_some_and(|after| place >= after);
            let (status, body) = fixed.answer(&request);
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

    fn answer(&self, request: &http::Request<Body>) -> (u16, Value) {
        assert_eq!(request.method(), "GET", "it only reads");
        let segments: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        if segments == ["version"] {
            return (200, json!({}));
        }
        let group = if segments[0] == "api" { 2 } else { 3 };
        let rest = match &segments[group..] {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (plural, name, sub) = match rest {
            [plural] => (*plural, None, ""),
            [plural, name] => (*plural, Some(*name), ""),
            [plural, name, sub] => (*plural, Some(*name), *sub),
            _ => panic!("{segments:?}"),
        };
        if self.unserved.contains(&plural) {
            return failure(
                404,
                "NotFound",
                "the server could not find the requested resource",
            );
        }
        if self.denied.contains(&plural) {
            let message = format!("{plural} is forbidden: User \"viewer\" cannot read resource");
            return failure(403, "Forbidden", &message);
        }
        let query = request
            .uri()
            .query()
            .unwrap_or_default()
            .replace("%3D", "=");
        let selected = query
            .split('&')
            .find_map(|it| it.strip_prefix("fieldSelector=metadata.name="));
        let kind = kind(plural);
        let mut found = self.objects.iter().filter(|it| it["kind"] == kind);
        let named = |it: &&Value, name: &str| it["metadata"]["name"] == name;
        let Some(name) = name else {
            let items: Vec<&Value> = found
                .filter(|it| selected.is_none_or(|name| named(it, name)))
                .collect();
            return (
                200,
                json!({"kind": format!("{kind}List"), "metadata": {}, "items": items}),
            );
        };
        match (found.find(|it| named(it, name)), sub) {
            (Some(object), "") => (200, object.clone()),
            (Some(object), sub) => panic!("{sub} of {object}"),
            (None, _) => {
                let message = format!("{plural} \"{name}\" not found");
                let (code, mut status) = failure(404, "NotFound", &message);
                status["details"] = json!({"name": name});
                (code, status)
            }
        }
    }
}

fn kind(plural: &str) -> &'static str {
    match plural {
        "clusters" => "Cluster",
        "clusterhealths" => "ClusterHealth",
        "probepolicies" => "ProbePolicy",
        "weedpolicies" => "WeedPolicy",
        "namespaces" => "Namespace",
        "leases" => "Lease",
        "deployments" => "Deployment",
        other => panic!("{other}"),
    }
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, status)
}

fn cluster() -> Value {
    json!({
        "kind": "Cluster", "apiVersion": "extensions.gardener.cloud/v1alpha1",
        "metadata": {"name": CLUSTER, "uid": "uid", "labels": {"stage": "live"}},
        "spec": {"shoot": {
            "metadata": {"labels": {"region": "eu"}},
            "spec": {"provider": {"workers": [{"name": "w"}]}},
            "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
        }},
    })
}

fn reference(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
}

fn policy(name: &str, priority: i32) -> Value {
    let dependent = |name: &str, up: i32, down: i32| {
        json!({
            "ref": reference(name), "optional": false,
            "scaleUp": {"level": up}, "scaleDown": {"level": down},
        })
    };
    json!({
        "kind": "ProbePolicy", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "spec": {
            "priority": priority, "mode": "Enforce", "kubeConfigSecretName": "dwd",
            "kcmNodeMonitorGraceDuration": "40s",
            "dependentResourceInfos": [
                dependent("kcm", 2, 0), dependent("mcm", 1, 1), dependent("ca", 0, 1),
            ],
        },
    })
}

fn health() -> Value {
    let dependent = |name: &str, level: i32| {
        json!({
            "ref": reference(name), "owed": false, "level": level,
            "initialDelay": "0s", "timeout": "30s",
        })
    };
    json!({
        "kind": "ClusterHealth", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": CLUSTER}, "spec": {},
        "status": {
            "protection": "None", "policy": "shoots", "reason": "Healthy",
            "message": "none of 3 node leases is expired",
            "leases": {"candidates": 3, "expired": 0, "unknown": 0},
            "state": "ONLINE", "stateMessage": "it answers, and its 3 nodes are well",
            "lastStateTransitionTime": "2026-11-20T11:20:00Z",
            "nodes": "3/3", "nodesPidPressure": "0/3", "nodesMemoryPressure": "0/3",
            "nodesDiskPressure": "0/3",
            "lastProbeTime": PROBED,
            "dependents": [dependent("ca", 0), dependent("kcm", 2), dependent("mcm", 1)],
        },
    })
}

fn lease(renewed: &str) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "dwd-prober-leader-election", "namespace": "garden"},
        "spec": {
            "holderIdentity": "dwd-prober-0", "leaseDurationSeconds": 15,
            "renewTime": format!("2026-11-20T{renewed}.000000Z"),
        },
    })
}

fn deployment(name: &str, replicas: i32, annotations: &Value) -> Value {
    json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {
            "name": name, "namespace": CLUSTER, "generation": 1, "resourceVersion": "1",
            "annotations": annotations, "managedFields": set_by("gardenlet"),
        },
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas},
    })
}

fn weed_policy(name: &str, role: &str) -> Value {
    json!({
        "kind": "WeedPolicy", "apiVersion": format!("{GROUP}/v1alpha1"),
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"role": role}},
            "servicesAndDependantSelectors": {
                "etcd-main-client": {"podSelectors": [{"matchLabels": {"role": "apiserver"}}]},
                "kube-apiserver": {"podSelectors": [{"matchLabels": {"role": "kcm"}}]},
            },
        },
        "status": {
            "lastWeeds": [weed(CLUSTER, "kube-apiserver-x"), weed("another", "kube-apiserver-y")],
            "leftAlone": [{
                "time": "2026-11-20T11:50:00Z", "namespace": CLUSTER, "pod": "debug",
                "service": "etcd-main-client", "reason": "NoController",
                "message": "it has no controller that would bring it back",
            }],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Watching", "message": "all are ready",
                "lastTransitionTime": "2026-11-20T11:00:00Z",
            }],
        },
    })
}

fn weed(namespace: &str, pod: &str) -> Value {
    json!({
        "time": "2026-11-20T11:58:00Z", "namespace": namespace, "pod": pod,
        "owner": "ReplicaSet/kube-apiserver", "service": "etcd-main-client",
        "containers": ["kube-apiserver"],
    })
}

fn namespace() -> Value {
    json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": CLUSTER, "labels": {"role": "shoot"}},
    })
}

/// A healthy cluster that this policy covers, and a weeder.
fn weeded() -> Fixed {
    let mut weeder = lease("11:59:59");
    weeder["metadata"]["name"] = json!("dwd-weeder-leader-election");
    weeder["spec"]["holderIdentity"] = json!("dwd-weeder-0");
    Fixed::healthy()
        .with(weed_policy("weeds", "shoot"))
        .with(namespace())
        .with(weeder)
}

fn taken(replicas: &str) -> Value {
    json!({
        format!("{GROUP}/meltdown-protection-active"): "",
        format!("{GROUP}/replicas"): replicas,
    })
}

fn set_by(manager: &str) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "apps/v1",
        "time": "2026-11-20T11:48:01Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }])
}

fn state(account: &Account, name: &str) -> DependentState {
    let mut dependents = account.dependents.iter();
    dependents.find(|it| it.r#ref.name == name).unwrap().state
}

fn commands(account: &Account) -> String {
    let commands = account.commands.iter().map(|it| it.command.as_str());
    commands.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_healthy_cluster() {
    let mut invalid = policy("invalid", 9);
    invalid["spec"]["failureThreshold"] = json!(0);
    let mut elsewhere = policy("elsewhere", 9);
    elsewhere["spec"]["clusterSelector"] = json!({"matchLabels": {"stage": "dev"}});
    let seed = Fixed::healthy()
        .with(policy("default", -5))
        .with(elsewhere)
        .with(invalid);
    let account = seed.account().await;
    assert_eq!(account.state, State::Healthy);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_protected_cluster() {
    let account = Fixed::protected().account().await;
    assert_eq!(account.state, State::Protected);
    insta::assert_snapshot!(text(&account));
}

/// It takes one silent node of three to stay protected, and three of any number to become so.
#[tokio::test]
async fn a_restore_has_a_threshold_of_its_own() {
    let mut seed = Fixed::protected();
    seed.change("ProbePolicy", "shoots", |policy| {
        policy["spec"]["nodeLeaseRecoveryFraction"] = json!(0.3);
        policy["spec"]["minimumSilentNodes"] = json!(3);
    });
    let account = seed.account().await;
    let threshold = account.threshold.as_ref().unwrap();
    assert_eq!(
        (threshold.needed, threshold.recovered_below),
        (Some(3), Some(1))
    );
    assert!(text(&account).contains("It is restored once no node lease is, or may be, expired"));
}

#[tokio::test]
async fn the_same_for_tools() {
    let account = Fixed::protected().account().await;
    insta::assert_snapshot!(serde_json::to_string_pretty(&account).unwrap());
}

#[tokio::test]
async fn dependents_of_which_something_is_in_the_way() {
    let mut seed = Fixed::protected();
    seed.change("Deployment", "kcm", |it| {
        it["metadata"]["annotations"][format!("{GROUP}/replicas")] = json!("\u{1b}[2Jmany");
    });
    seed.change("Deployment", "mcm", |it| {
        it["metadata"]["annotations"] = json!({});
    });
    seed.change("Deployment", "ca", |it| {
        it["metadata"]["annotations"] = json!({
            format!("{GROUP}/ignore-scaling"): "true", format!("{GROUP}/replicas"): "7",
        });
    });
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["reason"] = json!("Healthy")
    });
    let account = seed.account().await;
    assert_eq!(state(&account, "kcm"), DependentState::RecordUnreadable);
    assert_eq!(state(&account, "mcm"), DependentState::MarkRemoved);
    assert_eq!(state(&account, "ca"), DependentState::Ignored);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_dependent_that_somebody_scaled_up() {
    let mut seed = Fixed::protected();
    seed.change("Deployment", "mcm", |it| it["spec"]["replicas"] = json!(5));
    let account = seed.account().await;
    assert_eq!(state(&account, "mcm"), DependentState::ScaledUpByOthers);
    assert!(text(&account).contains("it is scaled to zero again"));
}

/// The operator may have ended between a write and its record.
#[tokio::test]
async fn a_mark_at_zero_is_a_protection_whatever_the_record_says() {
    for (replicas, expected) in [(0, State::Protected), (2, State::Healthy)] {
        let mut seed = Fixed::healthy();
        seed.change("Deployment", "mcm", |it| {
            it["spec"]["replicas"] = json!(replicas);
            it["metadata"]["annotations"] = taken("2");
        });
        assert_eq!(seed.account().await.state, expected, "{replicas}");
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_all_else_told() {
    let mut seed = Fixed::protected();
    seed.denied = vec!["deployments", "leases"];
    let account = seed.account().await;
    assert_eq!(account.state, State::Protected);
    assert_eq!(account.operator.state, OperatorState::Unknown);
    assert_eq!(account.unread, [], "dependents apart");
    let owed: Vec<Option<i32>> = account.dependents.iter().map(|it| it.owed).collect();
    assert_eq!(owed, [Some(3), Some(2), Some(1)]);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn an_outage_in_dry_run() {
    let mut seed = Fixed::healthy();
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["mode"] = json!("DryRun")
    });
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["reason"] = json!("Outage");
        it["status"]["message"] = json!("3 of 3 node leases that count are expired");
        it["status"]["state"] = json!("NOTREADY");
        it["status"]["stateMessage"] =
            json!("its kubelets are silent: 3 of 3 node leases that count are expired");
    });
    let account = seed.account().await;
    assert_eq!(account.state, State::Outage);
    assert_eq!(state(&account, "kcm"), DependentState::ToScaleDown);
    assert!(commands(&account).contains(r#"{"spec":{"mode":"Enforce"}}"#));
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_policy_without_a_mode_is_named_with_the_remedy() {
    let mut seed = Fixed::healthy();
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["mode"] = json!(null)
    });
    let account = seed.account().await;
    assert_eq!(account.policies[0].mode, None);
    assert!(account.policies[0].message.starts_with("applies"));
    assert_eq!(account.probing.reason.as_deref(), Some("PolicyInvalid"));
    let message = &account.probing.message;
    assert!(message.contains("spec.mode: must be set"), "{message}");
    assert!(commands(&account).contains(r#"{"spec":{"mode":"DryRun"}}"#));
    assert!(text(&account).contains("its mode is missing"));
}

/// What a restore waits for is named, and what to do about it.
#[tokio::test]
async fn a_check_is_in_the_way() {
    let mut seed = Fixed::protected();
    let check = |name: &str, role: &str, result: &str| json!({"name": name, "role": role, "type": "TcpSocket", "result": result, "message": "why"});
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["reason"] = json!("Healthy");
        it["status"]["checks"] = json!([
            check("etcd", "Gate", "Failing"),
            check("vpn", "Trigger", "Unknown"),
            check("dns", "Gate", "Passing"),
            check("web", "Observe", "Failing"),
        ]);
    });
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["checks"] = json!([
            {"name": "vpn", "role": "Trigger", "tcpSocket": {"host": "vpn", "port": 443}},
        ]);
    });
    let account = seed.account().await;
    assert_eq!(account.state, State::Protected);
    let next = account.next.join("\n");
    let named = "these do not: the Gate etcd (Failing), the Trigger vpn (Unknown).";
    assert!(next.contains(named), "{next}");
    assert!(
        next.contains("clusters of the policy at the same time: vpn."),
        "{next}"
    );
    let told = text(&account);
    for line in [
        "Checks      etcd is Failing (a Gate): why",
        "            web is Failing: why",
    ] {
        assert!(told.contains(line), "{told}");
    }
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["checks"] = json!([])
    });
    let next = seed.account().await.next.join("\n");
    assert!(!next.contains("these do not"), "{next}");
}

/// A Trigger that fails is an outage by another name.
#[tokio::test]
async fn an_outage_by_a_trigger() {
    let mut seed = Fixed::healthy();
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["reason"] = json!("TriggerFailed");
    });
    assert_eq!(seed.account().await.state, State::Outage);
}

/// It is said that it is not acted on, and what would be.
#[tokio::test]
async fn a_trigger_that_fails_in_many_clusters() {
    let mut seed = Fixed::healthy();
    for (why, is_outage) in [("Widespread", false), ("HeldBack", true)] {
        seed.change("ClusterHealth", CLUSTER, |it| {
            it["status"]["reason"] = json!("TriggerFailed");
            it["status"]["conditions"] = json!([{
                "type": "Protecting", "status": "False", "reason": why, "message": "",
                "lastTransitionTime": PROBED,
            }]);
        });
        let account = seed.account().await;
        let record = account.record.as_ref().unwrap();
        assert_eq!((record.held_back, record.widespread), (true, !is_outage));
        let told = format!("{}\n{}", account.summary, account.next.join("\n"));
        assert_eq!(told.contains("is in an OUTAGE"), is_outage, "{told}");
        assert_eq!(told.contains("To be scaled to zero"), is_outage, "{told}");
        assert_eq!(
            told.contains("until 60s after its check"),
            !is_outage,
            "{told}"
        );
        assert!(told.contains("the end of what was seen says why"), "{told}");
    }
}

#[tokio::test]
async fn a_suspended_policy_keeps_what_it_took() {
    let mut seed = Fixed::protected();
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["suspend"] = json!(true)
    });
    let account = seed.account().await;
    assert_eq!(account.probing.reason.as_deref(), Some("Suspended"));
    assert!(commands(&account).contains(r#"{"spec":{"suspend":false}}"#));
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_hibernated_cluster_is_skipped() {
    let mut seed = Fixed::healthy();
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["state"] = json!(null);
    });
    seed.change("Cluster", CLUSTER, |it| {
        it["spec"]["shoot"]["spec"]["hibernation"] = json!({"enabled": true});
        it["spec"]["shoot"]["status"]["hibernated"] = json!(true);
    });
    let account = seed.account().await;
    assert_eq!(account.state, State::Skipped);
    assert_eq!(account.probing.reason.as_deref(), Some("Hibernated"));
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn no_prober_is_alive() {
    let mut seed = Fixed::protected();
    seed.change("Lease", "dwd-prober-leader-election", |it| {
        *it = lease("11:20:00");
    });
    seed.change("ClusterHealth", CLUSTER, |it| {
        it["status"]["lastProbeTime"] = json!("2026-11-20T11:20:00Z");
    });
    let account = seed.account().await;
    assert_eq!(account.operator.state, OperatorState::Silent);
    assert!(account.record.as_ref().unwrap().stale);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_record_is_stale_when_it_was_not_refreshed() {
    for (probed, stale) in [("11:45:00", false), ("11:43:00", true)] {
        let mut seed = Fixed::healthy();
        seed.remove("Lease");
        seed.change("ClusterHealth", CLUSTER, |it| {
            it["status"]["lastProbeTime"] = json!(format!("2026-11-20T{probed}Z"));
        });
        let account = seed.account().await;
        assert_eq!(account.operator.state, OperatorState::NoLease);
        assert_eq!(account.record.as_ref().unwrap().stale, stale, "{probed}");
        assert_eq!(
            account.summary.contains("STALE"),
            stale,
            "{}",
            account.summary
        );
    }
}

#[tokio::test]
async fn without_a_policy() {
    let mut seed = Fixed::healthy();
    seed.remove("ProbePolicy");
    seed.remove("ClusterHealth");
    let account = seed.account().await;
    assert_eq!(account.state, State::Unselected);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn without_a_record() {
    let mut seed = Fixed::healthy();
    seed.remove("ClusterHealth");
    let account = seed.account().await;
    assert_eq!(account.state, State::Pending);
    assert_eq!(account.record, None);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_policy_that_cannot_be_decoded_is_waited_for() {
    let mut seed = Fixed::healthy().with(policy("others", -1));
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["restore"] = json!("Later");
    });
    let account = seed.account().await;
    let told = |name: &str| {
        let found = account.policies.iter().find(|it| it.name == name);
        &*found.unwrap().message
    };
    let (shoots, others) = (told("shoots"), told("others"));
    assert!(
        shoots.starts_with("applied last, and is waited for: cannot be read: "),
        "{shoots}"
    );
    assert_eq!(
        others,
        "selects the cluster as well, and stands back: shoots applied last, and cannot be read, \
         so it may be suspended"
    );
}

#[tokio::test]
async fn a_policy_that_selects_it_no_more_lets_go_of_it() {
    let mut seed = Fixed::protected();
    seed.change("ProbePolicy", "shoots", |it| {
        it["spec"]["clusterSelector"] = json!({"matchLabels": {"stage": "dev"}});
    });
    let account = seed.account().await;
    assert_eq!(account.state, State::Protected);
    assert_eq!(account.probing.probed, Some(true));
    assert!(
        account.next[0].contains("Nothing more is taken"),
        "{:?}",
        account.next
    );
}

/// It is restored by the operator, and nothing more is taken; nor would that be if it is restored by hand.
#[tokio::test]
async fn an_operation_that_is_not_known_has_a_cluster_let_go() {
    let later = |it: &mut Value| {
        it["spec"]["shoot"]["status"]["lastOperation"] =
            json!({"type": "Later", "state": "Processing"});
    };
    let mut seed = Fixed::protected();
    seed.change("Cluster", CLUSTER, later);
    let account = seed.account().await;
    assert_eq!(account.state, State::Protected);
    assert_eq!(account.probing.probed, Some(true));
    let why = &account.probing.message;
    assert!(
        why.starts_with("only until it is healthy and restored")
            && why.contains("Later Processing"),
        "{why}"
    );
    assert!(
        account.next[0].contains("Nothing more is taken"),
        "{:?}",
        account.next
    );
    assert!(!commands(&account).contains("--overrule"));

    let mut seed = Fixed::healthy();
    seed.change("Cluster", CLUSTER, later);
    let account = seed.account().await;
    assert_eq!(account.state, State::Skipped);
    assert_eq!(account.probing.reason.as_deref(), Some("UnknownOperation"));
}

#[tokio::test]
async fn a_cluster_without_workers_is_restored_at_once() {
    let mut seed = Fixed::protected();
    seed.change("Cluster", CLUSTER, |it| {
        it["spec"]["shoot"]["spec"]["provider"]["workers"] = json!([]);
    });
    let restored = "It is restored at once: ca, then mcm, then kcm.";
    assert_eq!(seed.account().await.next, [restored]);
    // Of one whose policy is gone the record tells the order.
    seed.remove("ProbePolicy");
    assert_eq!(seed.account().await.next, [restored]);
}

#[tokio::test]
async fn a_cluster_whose_own_settings_cannot_be_understood() {
    let mut seed = Fixed::healthy();
    seed.change("Cluster", CLUSTER, |it| {
        it["spec"]["shoot"]["spec"]["kubernetes"] =
            json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "soon"}});
    });
    let account = seed.account().await;
    assert_eq!(account.state, State::Undetermined);
    assert_eq!(account.probing.reason.as_deref(), Some("ClusterInvalid"));
    assert_eq!(account.threshold, None);
    assert!(
        account.probing.message.contains(r#""soon""#),
        "{:?}",
        account.probing
    );
}

#[tokio::test]
async fn a_cluster_that_is_gone() {
    let mut seed = Fixed::protected();
    seed.remove("Cluster");
    let account = seed.account().await;
    assert_eq!(account.state, State::Gone);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn a_seed_without_the_kinds() {
    let mut seed = Fixed::healthy();
    seed.unserved = vec!["probepolicies", "clusterhealths"];
    seed.remove("Lease");
    let account = seed.account().await;
    assert_eq!(account.state, State::NotInstalled);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn without_rights_for_policies() {
    let mut seed = Fixed::healthy();
    seed.denied = vec!["probepolicies"];
    let account = seed.account().await;
    assert_eq!(account.state, State::Healthy);
    let mut blind = seed.clone();
    blind.remove("ClusterHealth");
    assert_eq!(blind.account().await.state, State::Unknown);
    insta::assert_snapshot!(text(&account));
}

#[tokio::test]
async fn an_unknown_name() {
    for (name, told) in [
        (
            "alfa",
            "there is no Cluster alfa on this seed, and no ClusterHealth; `kubectl get \
             clusters.extensions.gardener.cloud` lists those there are",
        ),
        (
            "shoot--garden--alfa",
            "there is no Cluster shoot--garden--alfa on this seed, and no ClusterHealth; did you \
             mean shoot--garden--alpha?",
        ),
    ] {
        let error = Fixed::healthy().error(name).await;
        assert!(matches!(error, AskError::NoSuchCluster { .. }));
        assert_eq!(error.to_string(), told);
    }
}

#[tokio::test]
async fn a_seed_that_does_not_tell() {
    let all = || vec!["clusters", "clusterhealths", "probepolicies"];
    for (denied, unserved, told) in [
        (
            all(),
            vec![],
            "Clusters: you may not read it: clusters is forbidden",
        ),
        (
            vec![],
            all(),
            "see whether the kubeconfig is that of a seed",
        ),
        (
            vec!["clusters"],
            vec![],
            "it has no ClusterHealth of this name",
        ),
    ] {
        let seed = Fixed {
            denied,
            unserved,
            ..Fixed::default()
        };
        let error = seed.error(CLUSTER).await;
        assert!(matches!(error, AskError::CouldNot { .. }));
        assert!(error.to_string().contains(told), "{error}");
    }
}

/// What is not answered is given up, and all that was is told.
#[tokio::test(start_paused = true)]
async fn a_seed_that_falls_silent_is_told_in_time() {
    let mut told = 0;
    for after in 0..20 {
        let seed = Fixed {
            silent_after: Some(after),
            ..weeded()
        };
        let started = tokio::time::Instant::now();
        match ask(&seed.seed(), CLUSTER, "garden").await {
            Ok(answers) => {
                let account = Account::new(&answers);
                assert!(!text(&account).is_empty());
                told += 1;
            }
            Err(error) => {
                assert!(matches!(error, AskError::CouldNot { .. }), "{error}");
                let says = error.to_string();
                assert!(says.contains("did not answer within 10s"), "{says}");
            }
        }
        let limit = Duration::from_secs(45);
        assert!(
            started.elapsed() < limit,
            "{after}: {:?}",
            started.elapsed()
        );
    }
    // Only the clock, the Cluster and its ClusterHealth must be there.
    assert_eq!(told, 18);
}

/// The commands `restore` that are told.
fn restores(account: &Account) -> Vec<&str> {
    let commands = account.commands.iter().map(|it| it.command.as_str());
    let restores = commands.filter(|it| it.starts_with("dependency-watchdog restore"));
    restores.collect()
}

#[tokio::test]
async fn all_is_restored_by_one_command_with_or_without_an_operator() {
    let plain = "dependency-watchdog restore shoot--garden--alpha";
    let overruling = "dependency-watchdog restore shoot--garden--alpha --overrule";
    assert_eq!(restores(&Fixed::healthy().account().await), [""; 0]);
    let protected = Fixed::protected();
    assert_eq!(restores(&protected.account().await), [overruling]);
    let mut unknown = protected.clone();
    unknown.denied = vec!["leases"];
    assert_eq!(restores(&unknown.account().await), [overruling]);

    let mut silent = protected.clone();
    silent.change("Lease", "dwd-prober-leader-election", |it| {
        *it = lease("11:20:00");
    });
    assert_eq!(restores(&silent.account().await), [plain]);
    let elsewhere = ask(&silent.seed(), CLUSTER, "elsewhere").await.unwrap();
    assert_eq!(
        restores(&Account::new(&elsewhere)),
        [format!("{plain} --leader-election-namespace=elsewhere")]
    );
    for change in [
        json!({"suspend": true}),
        json!({"mode": "DryRun"}),
        json!({"mode": null}),
    ] {
        let mut suspended = protected.clone();
        suspended.change("ProbePolicy", "shoots", |it| {
            json_patch::merge(&mut it["spec"], &change);
        });
        assert_eq!(restores(&suspended.account().await), [plain], "{change}");
    }
    let mut orphaned = protected.clone();
    orphaned.remove("ProbePolicy");
    assert_eq!(restores(&orphaned.account().await), [plain]);
    // It would only take the marks off.
    let mut migrating = protected;
    migrating.change("Cluster", CLUSTER, |it| {
        it["spec"]["shoot"]["status"]["lastOperation"]["type"] = json!("Migrate");
    });
    assert_eq!(restores(&migrating.account().await), [""; 0]);
}

#[tokio::test]
async fn what_is_weeded_there_is_told() {
    let mut suspended = weed_policy("halted", "shoot");
    suspended["spec"]["suspend"] = json!(true);
    suspended["status"] = json!({});
    let mut invalid = weed_policy("invalid", "shoot");
    invalid["spec"]["watchDuration"] = json!("0s");
    let mut elsewhere = weed_policy("elsewhere", "system");
    elsewhere["status"] = json!({"lastWeeds": [weed("another", "x")]});
    let account = weeded()
        .with(suspended)
        .with(invalid)
        .with(elsewhere)
        .account()
        .await;
    let told = account.weeding.as_ref().unwrap();
    let policies = told.policies.iter().map(|it| (&*it.name, it.cover));
    assert_eq!(
        policies.collect::<Vec<_>>(),
        [
            ("halted", Cover::Suspended),
            ("invalid", Cover::Invalid),
            ("weeds", Cover::Covers)
        ]
    );
    assert_eq!(told.weeder.state, OperatorState::Alive);
    insta::assert_snapshot!(text(&account));
    insta::assert_snapshot!(serde_json::to_string_pretty(told).unwrap());
}

#[tokio::test]
async fn whether_a_policy_covers_the_namespace() {
    type Change = fn(&mut Fixed);
    let cases: [(&str, Change, Option<Cover>); 8] = [
        ("as it is", |_| (), Some(Cover::Covers)),
        (
            "other labels",
            |it| {
                it.change("Namespace", CLUSTER, |it| {
                    it["metadata"]["labels"] = json!({"role": "other"})
                });
            },
            Some(Cover::Former),
        ),
        (
            "other labels, and nothing was done there",
            |it| {
                it.change("Namespace", CLUSTER, |it| {
                    it["metadata"]["labels"] = json!({})
                });
                it.change("WeedPolicy", "weeds", |it| it["status"] = json!({}));
            },
            None,
        ),
        (
            "a namespace that is being deleted",
            |it| {
                it.change("Namespace", CLUSTER, |it| {
                    it["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:00:00Z")
                });
            },
            Some(Cover::Former),
        ),
        (
            "no namespace",
            |it| it.remove("Namespace"),
            Some(Cover::Former),
        ),
        (
            "a policy that is being deleted",
            |it| {
                it.change("WeedPolicy", "weeds", |it| {
                    it["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:00:00Z")
                });
            },
            Some(Cover::Deleting),
        ),
        (
            "a policy that cannot be decoded",
            |it| {
                it.change("WeedPolicy", "weeds", |it| {
                    it["spec"]["mode"] = json!("Sometimes")
                });
            },
            Some(Cover::Invalid),
        ),
        (
            "a namespace that may not be read",
            |it| it.denied = vec!["namespaces"],
            Some(Cover::Unknown),
        ),
    ];
    for (case, change, expected) in cases {
        let mut seed = weeded();
        change(&mut seed);
        let account = seed.account().await;
        let told = account.weeding.as_ref().map(|it| it.policies[0].cover);
        assert_eq!(told, expected, "{case}");
        let unread: Vec<_> = account.unread.iter().map(|it| &*it.what).collect();
        let wanted = match expected {
            Some(Cover::Unknown) => &["the Namespace"][..],
            _ => &[],
        };
        assert_eq!(unread, wanted, "{case}");
    }
}

#[tokio::test]
async fn a_weeder_that_is_away_and_policies_that_may_not_be_read_are_told() {
    let mut seed = weeded();
    seed.change("Lease", "dwd-weeder-leader-election", |it| {
        it["spec"]["renewTime"] = json!("2026-11-20T11:00:00.000000Z");
    });
    seed.change("WeedPolicy", "weeds", |it| {
        it["status"]["conditions"] = json!([
            {"type": "Ready", "status": "False", "reason": "Listing", "message": "not listed",
             "lastTransitionTime": "2026-11-20T11:00:00Z"},
            {"type": "Degraded", "status": "True", "reason": "PodsUnwatched", "message": "blind",
             "lastTransitionTime": "2026-11-20T11:00:00Z"},
        ]);
    });
    let account = seed.account().await;
    assert!(commands(&account).contains("get lease dwd-weeder-leader-election"));
    let told = text(&account);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "no weeder is alive: dwd-weeder-0 led",
        "so no pod is deleted",
        "not ready (Listing): not listed",
        "PodsUnwatched: blind",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }

    seed.denied = vec!["weedpolicies"];
    let account = seed.account().await;
    assert_eq!(account.weeding, None);
    assert_eq!(account.unread[0].what, "WeedPolicies");
    // Where they are not served nobody asked for them.
    seed.unserved = vec!["weedpolicies"];
    seed.denied = Vec::new();
    let account = seed.account().await;
    assert_eq!((account.weeding, account.unread), (None, Vec::new()));
}
