//! What a server says of itself: its version, groups and kinds.

use crate::{
    kinds::{KINDS, Kind, group_version},
    store::{Refusal, Store},
};
use serde_json::{Value, json};

/// The answer to a path that is no resource.
pub(super) fn of(store: &Store, path: &str) -> Result<(u16, Value), Refusal> {
    let answer = match path.trim_end_matches('/') {
        "/version" => json!({
            "major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64",
        }),
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => groups(store),
        path => {
            let asked = path
                .strip_prefix("/apis/")
                .or_else(|| path.strip_prefix("/api/"));
            resources(store, asked.unwrap_or_default()).ok_or_else(Refusal::unserved)?
        }
    };
    Ok((200, answer))
}

fn groups(store: &Store) -> Value {
    let mut groups: Vec<Value> = Vec::new();
    for kind in KINDS.iter().filter(|kind| !kind.group.is_empty()) {
        let mut served = Vec::from_iter(store.served(kind));
        served.sort_by_key(|it| (it.contains("alpha"), it.contains("beta")));
        let versions = served.into_iter().map(|version| {
            json!({"groupVersion": group_version(kind.group, &version), "version": version})
        });
        let versions: Vec<Value> = versions.collect();
        let is_known = groups.iter().any(|group| group["name"] == kind.group);
        if let Some(preferred) = versions.first().filter(|_| !is_known) {
            groups.push(json!({
                "name": kind.group, "versions": versions, "preferredVersion": preferred,
            }));
        }
    }
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources(store: &Store, asked: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in &KINDS {
        for version in store.served(kind) {
            if group_version(kind.group, &version) == asked {
                resources.extend(of_kind(kind));
            }
        }
    }
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": asked,
            "resources": resources,
        })
    })
}

fn of_kind(kind: &Kind) -> Vec<Value> {
    let part = |name: &str, of: &str| {
        json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "kind": of,
            "namespaced": kind.namespaced, "verbs": ["get", "patch", "update"],
        })
    };
    let mut found = vec![json!({
        "name": kind.plural, "singularName": kind.kind.to_lowercase(), "kind": kind.kind,
        "namespaced": kind.namespaced,
        "verbs": ["delete", "get", "list", "patch", "create", "update", "watch"],
    })];
    if kind.status {
        found.push(part("status", kind.kind));
    }
    if kind.scale {
        let mut scale = part("scale", "Scale");
        scale["group"] = "autoscaling".into();
        scale["version"] = "v1".into();
        found.push(scale);
    }
    found
}
