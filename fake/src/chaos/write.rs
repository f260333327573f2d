//! The names of writes.

use serde_json::Value;

use crate::oracle::MARK;

/// What a write changes, in few words, and the same in every run: `deployments/NAME:down`.
pub fn says(is_delete: bool, resource: &str, name: &str, body: &Value) -> String {
    if is_delete {
        return format!("{resource}:delete");
    }
    match resource {
        "clusterhealths" => "clusterhealths:create".to_owned(),
        "clusterhealths/status" => format!("{resource}:{}", protection(body)),
        "probepolicies" => match body.pointer("/metadata/finalizers").is_some() {
            true => "probepolicies:finalizer-on".to_owned(),
            false => "probepolicies:finalizer-off".to_owned(),
        },
        "probepolicies/status" => format!("{resource}:{}", conditions(body)),
        "events" => {
            let reason = body.pointer("/reason").and_then(Value::as_str);
            let regarding = body.pointer("/regarding/kind").and_then(Value::as_str);
            let (reason, regarding) = (reason.unwrap_or("again"), regarding.unwrap_or("-"));
            format!("events:{reason}-{regarding}")
        }
        "leases" => "leases:write".to_owned(),
        _ => format!("{resource}/{name}:{}", change(body)),
    }
}
fn protection(body: &Value) -> String {
    let text = |field: &str| {
        let value = body.pointer(&format!("/0/value/{field}"));
        value.and_then(Value::as_str).unwrap_or("-").to_owned()
    };
    format!("{}-{}", text("protection"), text("reason"))
}

/// The conditions that are true.
fn conditions(body: &Value) -> String {
    let conditions = body.pointer("/0/value/conditions").into_iter();
    let is_true =
        |condition: &&Value| condition.get("status").and_then(Value::as_str) == Some("True");
    let names = conditions
        .filter_map(Value::as_array)
        .flatten()
        .filter(is_true)
        .filter_map(|condition| condition.get("type")?.as_str());
    names.collect::<Vec<_>>().join("-")
}

/// What becomes of a dependent.
fn change(body: &Value) -> &'static str {
    let scaled = match body {
        Value::Array(operations) => operations.iter().rev().find_map(|it| it.get("value")),
        object => object.pointer("/spec/replicas"),
    };
    if let Some(replicas) = scaled {
        return match replicas.as_i64() {
            Some(0) => "down",
            _ => "up",
        };
    }
    let annotations = body.pointer("/metadata/annotations");
    match annotations.and_then(|annotations| annotations.get(MARK)) {
        Some(Value::Null) => "unmark",
        Some(_) => "mark",
        None => "other",
    }
}
