//! What a shoot answers: leases and Nodes, read in one pass, are what their JSON says.

use dependency_watchdog::shoot::{
    DecodeError, Lease, LeaseList, MAX_ITEMS, MAX_NAME_BYTES, Node, RenewTime,
};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    fuzz::fuzzed,
    mutate::{Changed, bytes, changed},
};

pub(crate) fn leases() -> Value {
    let manager = |name: &str, time: &str, fields: Value| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "coordination.k8s.io/v1",
            "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields},
        })
    };
    let lease = |name: &str, managers: Value| {
        json!({
            "metadata": {
                "name": name, "namespace": "kube-node-lease", "uid": format!("uid-{name}"),
                "resourceVersion": "90070", "creationTimestamp": "2026-11-01T08:00:00Z",
                "managedFields": managers,
            },
            "spec": {
                "holderIdentity": name, "leaseDurationSeconds": 40,
                "renewTime": "2026-11-20T11:02:33.123456Z",
            },
        })
    };
    let kubelet = manager(
        "kubelet",
        "2026-11-20T11:02:33Z",
        json!({"f:renewTime": {}}),
    );
    let other = manager(
        "kubectl",
        "2026-11-20T11:02:30Z",
        json!({"f:renewTime": {".": {}}}),
    );
    let neither = manager("x", "2026-11-20T10:00:00Z", json!({"f:holderIdentity": {}}));
    json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"resourceVersion": "90071"},
        "items": [lease("a", json!([neither, kubelet])), lease("b", json!([kubelet, other])), lease("c", json!([]))],
    })
}

pub(crate) fn nodes() -> Value {
    json!({
        "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "812"},
        "items": [
            {
                "metadata": {
                    "name": "a", "uid": "u",
                    "labels": {"worker.gardener.cloud/pool": "w", "topology.kubernetes.io/zone": "z",
                        "node.kubernetes.io/exclude-disruption": ""},
                    "annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": "", "x": "y"},
                },
                "status": {"conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                    {"type": "DiskPressure", "status": "False"},
                    {"type": "InPlaceUpdate", "status": "True", "reason": "ReadyForUpdate"},
                ]},
            },
            {"metadata": {"name": "b"}},
        ],
    })
}

/// A time as the reader takes it.
fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What a lease says, by the rules for one that is malformed: what has the wrong type is absent.
fn lease(item: &Value) -> Option<Lease> {
    let (meta, spec) = (&item["metadata"], &item["spec"]);
    let name = Some(text(&meta["name"])).filter(|it| !it.is_empty())?;
    let uid = text(&meta["uid"]);
    let version: Option<u64> = text(&meta["resourceVersion"]).parse().ok();
    let managers = meta["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let owners = managers
        .iter()
        .filter(|it| it["fieldsV1"]["f:spec"].is_object());
    let owners = owners.filter(|it| !it["fieldsV1"]["f:spec"]["f:renewTime"].is_null());
    let stamps: Option<Vec<i64>> = owners
        .map(|owner| time(text(&owner["time"])).map(Timestamp::as_second))
        .collect();
    let renewed = time(text(&spec["renewTime"])).map(Timestamp::as_microsecond);
    let duration = spec["leaseDurationSeconds"].as_i64();
    let known = version.is_some() && !uid.is_empty();
    Some(Lease {
        name: name.into(),
        uid: uid.into(),
        resource_version: version.unwrap_or_default(),
        renew_time: renewed.filter(|_| known).map(RenewTime::from_micros),
        stamp: stamps.and_then(|stamps| stamps.into_iter().min()),
        duration_seconds: duration
            .and_then(|seconds| i32::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0),
    })
}

fn node(item: &Value) -> Option<Node> {
    let meta = &item["metadata"];
    let name = Some(text(&meta["name"])).filter(|it| !it.is_empty())?;
    let label = |key: &str| Some(text(&meta["labels"][key]).to_owned()).filter(|it| !it.is_empty());
    let conditions = item["status"]["conditions"].as_array();
    let conditions: Vec<_> = conditions.into_iter().flatten().collect();
    let managed = &meta["annotations"]["node.machine.sapcloud.io/not-managed-by-mcm"];
    let types = conditions.iter().filter(|it| text(&it["status"]) == "True");
    let types = types.map(|it| text(&it["type"]).to_owned());
    Some(Node {
        name: name.into(),
        worker_pool: label("worker.gardener.cloud/pool"),
        zone: label("topology.kubernetes.io/zone"),
        exclude_disruption: !meta["labels"]["node.kubernetes.io/exclude-disruption"].is_null(),
        not_managed_by_mcm: !managed.is_null(),
        true_conditions: types.filter(|it| !it.is_empty()).collect(),
        in_place_update: conditions.iter().any(|it| {
            let reason = text(&it["reason"]);
            text(&it["type"]) == "InPlaceUpdate"
                && matches!(reason, "ReadyForUpdate" | "UpdateFailed")
        }),
    })
}

/// The items of a body, if it is the list that was asked for, as a whole.
fn items<'a>(body: &'a Value, kind: &str) -> Option<(u64, &'a [Value])> {
    let meta = &body["metadata"];
    let ends = matches!(&meta["continue"], Value::Null) || meta["continue"] == "";
    let whole = text(&body["kind"]) == kind && ends;
    let version = text(&meta["resourceVersion"]).parse().ok()?;
    let items = match body.get("items")? {
        Value::Null => &[][..],
        items => items.as_array()?,
    };
    let names = items.iter().map(|it| text(&it["metadata"]["name"]));
    let bounded = items.len() <= MAX_ITEMS && names.map(str::len).all(|it| it <= MAX_NAME_BYTES);
    (whole && bounded).then_some((version, items))
}

fuzzed!(
    leases_are_what_their_json_says,
    400,
    changed(vec![leases()], 4),
    |Changed { text, repeats }| {
        // Of a key that is said twice either may count, and it may be an error.
        let plain = serde_json::from_str::<Value>(&text);
        if let (Ok(plain), false) = (plain, repeats) {
            let expected = items(&plain, "LeaseList").map(|(resource_version, items)| LeaseList {
                resource_version,
                leases: items.iter().filter_map(lease).collect(),
            });
            prop_assert_eq!(LeaseList::decode(text.as_bytes()).ok(), expected);
        }
        Ok(())
    }
);

fuzzed!(
    nodes_are_what_their_json_says,
    400,
    changed(vec![nodes()], 4),
    |Changed { text, repeats }| {
        let plain = serde_json::from_str::<Value>(&text);
        if let (Ok(plain), false) = (plain, repeats) {
            let expected = items(&plain, "NodeList")
                .map(|(_, items)| items.iter().filter_map(node).collect::<Vec<_>>());
            prop_assert_eq!(Node::decode_list(text.as_bytes()).ok(), expected);
        }
        Ok(())
    }
);

fuzzed!(
    garbled_bodies_are_refused_or_read,
    400,
    bytes(vec![leases(), nodes()], 3),
    |body| {
        let errors = [
            LeaseList::decode(&body).err(),
            Node::decode_list(&body).err(),
        ];
        for error in errors.into_iter().flatten() {
            let told = error.to_string();
            prop_assert!(told.chars().count() <= 200, "{}", told);
            prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
        }
        Ok(())
    }
);

#[test]
fn a_lease_that_says_a_field_twice_is_not_believed() {
    let body = leases().to_string();
    let twice = body.replacen("\"uid\":", "\"uid\":\"first\",\"uid\":", 1);
    let error = LeaseList::decode(twice.as_bytes()).unwrap_err();
    assert!(matches!(error, DecodeError::Json { .. }), "{error}");
}
