//! How everything stands, without what differs from run to run: times, versions, the cluster's name.

use super::Seen;
use serde_json::{Map, Value, json};

/// The finalizer of a policy that protects.
const FINALIZER: &str = "dependency-watchdog.gardener.cloud/protection";

/// In place of the cluster's name.
const CLUSTER: &str = "CLUSTER";

/// Fields of a ClusterHealth that count: the others are times, ages, words for people, and Nodes, of
/// which all shoots on the API server show those of each other.
const HEALTH: [&str; 7] = [
    "state",
    "protection",
    "policy",
    "skipped",
    "dependents",
    "reason",
    "checks",
];

/// What is compared: the newest versions of the dependents, the status of the ClusterHealth if there is one, and the
/// policy if there is one. `cluster` is the name that is left out.
pub fn of(
    history: &[Seen],
    health: Option<&Value>,
    policy: Option<&Value>,
    cluster: &str,
) -> Value {
    let mut objects = Map::new();
    for seen in history {
        let state = json!({
            "replicas": seen.replicas,
            "actual": seen.actual,
            "marked": seen.marked,
            "record": seen.record,
        });
        objects.insert(seen.name.clone(), state);
    }
    let health = health.map(health_of);
    let policy = policy.map(|found| {
        let finalizers = found
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let status = found.get("status").unwrap_or(&Value::Null);
        json!({
            "finalizer": finalizers.into_iter().flatten().any(|it| it == FINALIZER),
            "current": status.get("observedGeneration") == found.pointer("/metadata/generation"),
            "clusters": status.get("clusters"),
            "protectedClusters": status.get("protectedClusters"),
            "conditions": conditions(status),
        })
    });
    let all = json!({"objects": objects, "health": health, "policy": policy});
    let text = all.to_string().replace(cluster, CLUSTER);
    serde_json::from_str(&text).unwrap_or_default()
}

fn health_of(status: &Value) -> Value {
    let mut kept = Map::new();
    for field in HEALTH {
        if let Some(value) = status.get(field) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    kept.insert("conditions".to_owned(), conditions(status));
    Value::Object(kept)
}

/// Type, status and reason of each.
fn conditions(status: &Value) -> Value {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let mut kept = Map::new();
    for condition in conditions.into_iter().flatten() {
        let text = |field: &str| condition.get(field).and_then(Value::as_str);
        let (status, reason) = (text("status"), text("reason"));
        let said = format!("{} {}", status.unwrap_or("-"), reason.unwrap_or("-"));
        kept.insert(text("type").unwrap_or("-").to_owned(), said.into());
    }
    Value::Object(kept)
}

/// Where two snapshots differ: a path, what there should be, and what there is.
pub fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut all = Vec::new();
    differ("", expected, found, &mut all);
    all
}

fn differ(path: &str, expected: &Value, found: &Value, all: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differ(&format!("{path}/{key}"), &of(left), &of(right), all);
            }
        }
        (left, right) if left == right => {}
        (left, right) => all.push(format!("{path} is {right}, not {left}")),
    }
}
