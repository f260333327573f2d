//! The changes from one written status to the next.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Call, heading};

/// The fields whose values are for programs.
const FOR_PROGRAMS: [&str; 14] = [
    "action",
    "level",
    "owed",
    "keepsMark",
    "policy",
    "protectedClusters",
    "protection",
    "reason",
    "recordedReplicas",
    "result",
    "role",
    "skipped",
    "state",
    "status",
];
/// The fields whose values need no label.
const CLEAR: [&str; 3] = ["action", "reason", "status"];
/// The field that has the same value in each status of a cluster that is probed.
const SAME: &str = "nodeMonitorGracePeriod";

/// Values by the names of their fields.
type Fields = BTreeMap<String, String>;

/// The last status of each object that was written without a failure.
#[derive(Default)]
pub(super) struct Statuses(BTreeMap<String, Fields>);

impl Statuses {
    /// The changes by a write of a status.
    pub(super) fn change(&mut self, call: &Call, result: &str) -> Vec<String> {
        let mut fields = Fields::default();
        let status = call.body[0]["value"].as_object().into_iter().flatten();
        for (key, value) in status.filter(|(key, _)| **key != SAME) {
            flatten(key, key, value, &mut fields);
        }
        let before = self.0.entry(heading(call)).or_default();
        let changes = changes(before, &fields);
        if result.is_empty() {
            *before = fields;
        }
        changes
    }
}

/// The fields that are new or different, with one line for all of the same value, and those that
/// are gone.
fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut new = BTreeMap::<_, Vec<_>>::new();
    for (path, value) in after {
        if before.get(path) != Some(value) {
            new.entry(value).or_default().push(path.as_str());
        }
    }
    let lines = new.iter().map(|(value, paths)| paths.join(", ") + value);
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let gone: Vec<_> = gone.map(String::as_str).collect();
    if !gone.is_empty() {
        lines.push(format!("gone: {}", gone.join(", ")));
    }
    lines
}

/// Adds a field. Each element of a list of objects is a field, by its name.
fn flatten(path: &str, key: &str, value: &Value, fields: &mut Fields) {
    let parts = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let names = [
                    &item["ref"]["name"],
                    &item["name"],
                    &item["type"],
                    &item["pod"],
                ];
                let name = names.into_iter().find_map(Value::as_str);
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                // The most frequent list needs no name.
                let list = if path == "conditions" { "" } else { path };
                flatten(&format!("{list}[{name}]"), key, item, fields);
            }
            return;
        }
        Value::Object(object) => object.iter().map(|(key, value)| (&**key, value)).collect(),
        leaf => vec![(key, leaf)],
    };
    let mut line = String::new();
    for (name, part) in parts {
        if !FOR_PROGRAMS.contains(&name) {
            continue;
        }
        line += if line.is_empty() { ": " } else { ", " };
        if name != key && !CLEAR.contains(&name) {
            line.extend([name, "="]);
        }
        line += &plain(part);
    }
    fields.insert(path.to_owned(), line);
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
