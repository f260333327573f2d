//! The rules as tables: what is accepted, what is refused, and that schema and types agree.

use super::*;
use crate::check;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ACCEPTED: &str = include_str!("../../tests/fixtures/accepted.yaml");
const REFUSALS: &str = include_str!("../../tests/fixtures/refusals.yaml");

#[derive(Deserialize)]
struct Accepted {
    name: String,
    object: Value,
}

#[derive(Deserialize)]
struct Refusal {
    name: String,
    #[serde(default = "probe_policy")]
    kind: String,
    patch: Value,
    field: String,
}

fn probe_policy() -> String {
    "ProbePolicy".to_owned()
}

fn accepted() -> Vec<Accepted> {
    serde_saphyr::from_str(ACCEPTED).unwrap()
}

fn object(name: &str) -> Value {
    accepted()
        .into_iter()
        .find(|case| case.name == name)
        .unwrap()
        .object
}

fn policy(object: Value) -> ProbePolicy {
    serde_json::from_value(object).unwrap()
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap()
}

/// A policy of whichever kind as the types write it.
fn written(object: &Value) -> Value {
    match kind(object) {
        "ProbePolicy" => serde_json::to_value(ProbePolicy::deserialize(object).unwrap()),
        "WeedPolicy" => serde_json::to_value(WeedPolicy::deserialize(object).unwrap()),
        other => panic!("{other}"),
    }
    .unwrap()
}

/// Fills in a schema's defaults, as the API server does.
fn fill_defaults(value: &mut Value, schema: &Value) {
    if let Some(properties) = schema["properties"].as_object()
        && let Some(object) = value.as_object_mut()
    {
        for (name, property) in properties {
            if let Some(default) = property.get("default") {
                object.entry(name).or_insert_with(|| default.clone());
            }
            if let Some(value) = object.get_mut(name) {
                fill_defaults(value, property);
            }
        }
    }
    for item in value.as_array_mut().into_iter().flatten() {
        fill_defaults(item, &schema["items"]);
    }
    if schema["additionalProperties"].is_object() {
        for value in value.as_object_mut().unwrap().values_mut() {
            fill_defaults(value, &schema["additionalProperties"]);
        }
    }
}

fn schema_of(kind: &str) -> Value {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    let schema = crd.spec.versions[0]
        .schema
        .clone()
        .unwrap()
        .open_api_v3_schema
        .unwrap();
    serde_json::to_value(schema).unwrap()
}

#[test]
fn accepts() {
    for case in accepted() {
        assert_eq!(check::problems(&case.object), Some(vec![]), "{}", case.name);
    }
}

#[test]
fn refuses() {
    let cases: Vec<Refusal> = serde_saphyr::from_str(REFUSALS).unwrap();
    for case in cases {
        let accepted = accepted().into_iter().map(|case| case.object);
        let mut bases = accepted.filter(|object| kind(object) == case.kind);
        let mut object = bases.next().unwrap();
        json_patch::merge(&mut object, &case.patch);
        let problems = check::problems(&object).unwrap();
        assert!(
            problems.iter().any(|it| it.starts_with(&case.field)),
            "{}: {problems:?}",
            case.name
        );
    }
}

#[test]
fn a_problem_names_what_is_allowed() {
    let mut policy = policy(object("minimal"));
    policy.spec.probe_interval = "1ms".parse().unwrap();
    policy.spec.failure_threshold = 101;
    policy.spec.node_lease_failure_fraction = f64::NAN;
    policy.spec.dependent_resource_infos[0].scale_up.level = -1;
    let mut problems = problems(&policy.spec);
    problems.sort();
    assert_eq!(
        problems,
        [
            "spec.dependentResourceInfos[0].scaleUp.level: must be at least 0",
            "spec.failureThreshold: must be at most 100",
            "spec.nodeLeaseFailureFraction: must be greater than 0",
            "spec.probeInterval: must be a duration of at least 1s and at most 1h, not 1ms",
        ]
    );
}

#[test]
fn a_problem_of_a_check_names_its_place() {
    let mut policy = policy(object("greatest-values-of-observer-and-checks"));
    let spec = &mut policy.spec;
    spec.observer.backoff_limit = -2;
    spec.observer.metrics_providers[1].name = "Prometheus".to_owned();
    spec.checks[1].timeout_seconds = 0;
    spec.checks[2].name = "c1".to_owned();
    let exec = spec.checks[0].exec.as_mut().unwrap();
    exec.command[1] = String::new();
    exec.container = Some("a.b".to_owned());
    let mut problems = problems(spec);
    problems.sort();
    let label = "must be at most 63 lower case letters, digits or '-', beginning and ending with a \
                 letter or digit";
    assert_eq!(
        problems,
        [
            "spec.checks: every name must be unique".to_owned(),
            "spec.checks[0].exec.command[1]: must have a length of at least 1".to_owned(),
            format!("spec.checks[0].exec.container: {label}"),
            "spec.checks[1].timeoutSeconds: must be at least 1".to_owned(),
            "spec.observer.backoffLimit: must be at least -1".to_owned(),
            format!("spec.observer.metricsProviders[1].name: {label}"),
        ]
    );
}

#[test]
fn what_has_a_generation_to_observe_begins_unobserved() {
    for (kind, default) in [
        ("ProbePolicy", json!({"observedGeneration": -1})),
        ("WeedPolicy", json!({"observedGeneration": -1})),
        ("ClusterHealth", Value::Null),
    ] {
        let status = &schema_of(kind)["properties"]["status"];
        assert_eq!(status["default"], default, "{kind}");
    }
}

#[test]
fn defaults_are_those_of_the_schema() {
    for case in accepted() {
        // The types know of no status where there is none.
        let mut schema = schema_of(kind(&case.object));
        schema["properties"]
            .as_object_mut()
            .unwrap()
            .remove("status");
        let mut filled_in = case.object.clone();
        fill_defaults(&mut filled_in, &schema);
        let own = written(&case.object);
        assert_eq!(
            written(&filled_in),
            own,
            "{}: a default of the schema differs",
            case.name
        );
        // Nothing that the types fill in is missing in the schema.
        let mut again = own.clone();
        fill_defaults(&mut again, &schema);
        assert_eq!(
            again, own,
            "{}: the schema fills in more than the types",
            case.name
        );
    }
    for kind in ["ProbePolicy", "WeedPolicy"] {
        let schema = schema_of(kind);
        let defaults = schema["properties"]["spec"]["properties"].as_object();
        let defaults = defaults.unwrap().values();
        let count = defaults.filter(|field| field.get("default").is_some());
        assert!(count.count() > 2, "{kind}: the schema has no defaults");
    }
}

#[test]
fn a_minimal_policy_has_the_documented_defaults() {
    let spec = policy(object("minimal")).spec;
    let thirty = Duration::from_secs(30);
    let scale = ScaleInfo {
        level: 0,
        initial_delay: Duration::from_secs(0),
        timeout: thirty.clone(),
        await_nodes: None,
    };
    assert_eq!(
        spec,
        ProbePolicySpec {
            cluster_selector: LabelSelector::default(),
            cluster_labels: LabelSource::Cluster,
            priority: 0,
            mode: Mode::Enforce,
            suspend: false,
            kube_config_secret_name: "dwd-api-server-probe-kubeconfig".into(),
            probe_interval: Duration::from_secs(10),
            initial_delay: thirty.clone(),
            probe_timeout: thirty.clone(),
            backoff_jitter_factor: 0.2,
            kcm_node_monitor_grace_duration: Duration::from_secs(40),
            node_lease_failure_fraction: 0.6,
            node_lease_recovery_fraction: None,
            minimum_silent_nodes: 2,
            failure_threshold: 1,
            success_threshold: 1,
            max_protection: None,
            dependent_resource_infos: vec![DependentResourceInfo {
                r#ref: DependentRef {
                    api_version: "apps/v1".into(),
                    kind: "Deployment".into(),
                    name: "kube-controller-manager".into(),
                },
                optional: false,
                scale_up: scale.clone(),
                scale_down: scale,
            }],
            observer: ObserverSettings {
                backoff: 1,
                backoff_delay: Duration::from_secs(1),
                backoff_limit: -1,
                node_interval: Duration::from_mins(5),
                metrics_providers: vec![],
            },
            checks: vec![],
        }
    );
}

#[test]
fn a_minimal_weed_policy_has_the_documented_defaults() {
    let policy: WeedPolicy = serde_json::from_value(object("minimal-weeds")).unwrap();
    let pods = LabelSelector {
        match_labels: [("role".to_owned(), "apiserver".to_owned())].into(),
        match_expressions: vec![],
    };
    let dependants = DependantSelectors {
        pod_selectors: vec![pods],
    };
    assert_eq!(
        policy.spec,
        WeedPolicySpec {
            namespace_selector: LabelSelector::default(),
            watch_duration: "5m".parse().unwrap(),
            services_and_dependant_selectors: [("etcd-main-client".to_owned(), dependants)].into(),
            mode: Mode::Enforce,
            suspend: false,
        }
    );
}

#[test]
fn a_configuration_pastes_in() {
    for name in ["full-configuration", "full-weeder-configuration"] {
        let object = object(name);
        let schema = schema_of(kind(&object));
        let mut written = written(&object);
        fill_defaults(&mut written, &schema);
        let mut expected = object;
        fill_defaults(&mut expected, &schema);
        assert_eq!(
            written, expected,
            "{name}: a field of the configuration is lost or changed"
        );
    }
}

#[test]
fn the_problem_of_a_service_names_it() {
    let mut object = object("minimal-weeds");
    object["spec"]["servicesAndDependantSelectors"] = json!({
        "Kube_API": {"podSelectors": [{"matchLabels": {"a": "x"}}]},
        "etcd": {"podSelectors": [{}]},
    });
    let mut problems = check::problems(&object).unwrap();
    problems.sort();
    assert_eq!(
        problems,
        [
            "spec.servicesAndDependantSelectors.etcd.podSelectors: every selector must name a \
             label: an empty one would match every pod of the namespace",
            "spec.servicesAndDependantSelectors: key \"Kube_API\" must be at most 63 lower case letters, \
             digits or '-', beginning and ending with a letter or digit",
        ]
    );
}

#[test]
fn the_examples_are_valid() {
    for example in [
        include_str!("../../docs/examples/checks.yaml"),
        include_str!("../../docs/examples/probe-policy.yaml"),
        include_str!("../../docs/examples/weed-policy.yaml"),
    ] {
        let object: Value = serde_saphyr::from_str(example).unwrap();
        assert_eq!(check::problems(&object), Some(vec![]));
        assert_eq!(object["spec"]["mode"], "DryRun", "to be tried first");
    }
}

/// When machine-controller-manager starts, a node that is not Ready yet costs its machine.
#[test]
fn the_examples_give_kubelets_time_to_report() {
    for example in [
        include_str!("../../docs/examples/checks.yaml"),
        include_str!("../../docs/examples/probe-policy.yaml"),
    ] {
        let policy: ProbePolicy = serde_saphyr::from_str(example).unwrap();
        let dependents = policy.spec.dependent_resource_infos.iter();
        let awaits = dependents
            .clone()
            .map(|it| it.scale_up.await_nodes.as_ref());
        let awaits: Vec<_> = awaits.map(|it| it.map(Duration::get)).collect();
        let two_minutes = Some(std::time::Duration::from_secs(120));
        assert_eq!(awaits, [None, two_minutes, two_minutes]);
        let delays: Vec<Duration> = dependents
            .filter(|it| it.r#ref.name == "machine-controller-manager")
            .map(|it| it.scale_up.initial_delay.clone())
            .collect();
        assert_eq!(delays, [Duration::from_secs(30)]);
    }
}

#[test]
fn every_field_has_a_description_without_line_breaks() {
    fn collect(path: &str, schema: &Value, bare: &mut BTreeSet<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = |text: &str| !text.is_empty() && !text.contains('\n');
            if !property["description"].as_str().is_some_and(described) {
                bare.insert(path.clone());
            }
            collect(&path, property, bare);
            collect(&path, &property["items"], bare);
            collect(&path, &property["additionalProperties"], bare);
        }
    }
    let mut bare = BTreeSet::new();
    for kind in ["ProbePolicy", "ClusterHealth", "WeedPolicy"] {
        let schema = schema_of(kind);
        assert!(schema["properties"]["status"]["properties"].is_object());
        collect(kind, &schema, &mut bare);
    }
    assert_eq!(bare, BTreeSet::new());
}

#[test]
fn a_status_reads_back() {
    let object = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "ClusterHealth",
        "metadata": {"name": "shoot--a--b"},
        "spec": {},
        "status": {
            "state": "NOTREADY",
            "stateMessage": "1 of 3 nodes is not ready: n1",
            "lastStateTransitionTime": "2025-01-01T00:00:01Z",
            "nodes": "2/3",
            "nodesPidPressure": "0/3",
            "nodesMemoryPressure": "1/3",
            "nodesDiskPressure": "0/3",
            "unhealthyNodes": [{"name": "n1", "problems": ["NotReady", "MemoryPressure"]}],
            "checks": [
                {
                    "name": "etcd", "role": "Gate", "type": "Exec", "result": "Failing",
                    "since": "2025-01-01T00:00:02Z", "message": "it ended with exit code 1",
                },
                {"name": "prometheus", "type": "HttpGet", "result": "Unknown"},
            ],
            "protection": "Active",
            "policy": "default",
            "leases": {"candidates": 10, "expired": 7, "unknown": 0},
            "dependents": [{
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kcm"},
                "recordedReplicas": 2,
                "owed": true,
                "level": 1,
                "initialDelay": "0s",
                "timeout": "1m30s",
            }],
            "reason": "LeasesExpired",
            "message": "7 of 10 node leases are expired",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
            "lastProbeTime": "2025-01-01T00:00:10Z",
        },
    });
    let health: ClusterHealth = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(health).unwrap(), object);
}

/// The names of the states are those of the documentation, in its order.
#[test]
fn states_are_written_as_they_are_named() {
    let text = include_str!("../../docs/observer.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: Vec<&str> = rows
        .filter_map(|row| row.split('`').next())
        .filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .collect();
    let states = [
        ClusterState::Pending,
        ClusterState::Connecting,
        ClusterState::Online,
        ClusterState::Degraded,
        ClusterState::Offline,
        ClusterState::Unhealthy,
        ClusterState::NotReady,
        ClusterState::FailingMetrics,
    ];
    assert_eq!(named, states.map(ClusterState::name));
    let schema = &schema_of("ClusterHealth")["properties"]["status"]["properties"]["state"];
    for state in states {
        assert_eq!(json!(state), state.name());
        let allowed = schema["enum"].as_array().unwrap();
        assert!(allowed.contains(&json!(state)), "{schema}");
    }
}

#[test]
fn a_status_of_a_weed_policy_reads_back() {
    let mut object = object("least-weeds");
    object["spec"]["servicesAndDependantSelectors"]["s"] =
        json!({"podSelectors": [{"matchLabels": {"a": "x"}}]});
    object["status"] = json!({
        "observedGeneration": 3,
        "services": {"watched": 10, "ready": 9},
        "openWindows": 1,
        "weeded": 5_000_000_000_i64,
        "lastWeeds": [
            {
                "time": "2026-01-02T03:04:05Z", "namespace": "shoot--a--b", "pod": "api-6b7-x",
                "owner": "ReplicaSet/api-6b7", "service": "etcd-main-client",
                "containers": ["kube-apiserver"],
            },
            {
                "time": "2026-01-02T03:04:04Z", "namespace": "shoot--a--b", "pod": "api-6b7-y",
                "owner": "ReplicaSet/api-6b7", "service": "etcd-main-client",
                "containers": ["kube-apiserver"], "dryRun": true,
            },
        ],
        "leftAlone": [{
            "time": "2026-01-02T03:04:05Z", "namespace": "shoot--a--b", "pod": "bare",
            "service": "etcd-main-client", "reason": "NoController", "message": "it has none",
        }],
    });
    assert_eq!(written(&object), object);
}

#[test]
fn group_is_that_of_the_definitions() {
    for crd in crds() {
        assert_eq!(crd.spec.group, GROUP);
        assert_eq!(crd.spec.scope, "Cluster");
        assert_eq!(crd.spec.names.categories, Some(vec!["dwd".to_owned()]));
    }
}

proptest! {
    /// Commands are pasted into a shell, and references come from objects that others may write.
    #[test]
    fn the_name_for_kubectl_is_one_word(
        api_version in "(apps/)?[a-z1$(/]{1,3}", kind in "[A-Z][a-z;]{0,3}", name in "[a-z'. \n-]{1,4}",
    ) {
        let name = DependentRef { api_version, kind, name }.kubectl_name();
        let safe = |c: char| c.is_ascii_alphanumeric() || "./-".contains(c);
        prop_assert!(name.chars().all(safe) || name == "(not a name)", "{}", name);
    }
}
