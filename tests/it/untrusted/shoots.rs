//! What a shoot answers: leases and Nodes, read from protobuf as they come, are what their JSON says.

use dependency_watchdog::shoot::{Lease, List, MAX_FIELD_BYTES, MAX_ITEMS, MAX_NAME_BYTES, Node};
use fake::farm::wire::{Message, wrapped};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    fuzz::fuzzed,
    mutate::{Changed, changed, garbled},
};
use crate::support::encoded;

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
            {
                "metadata": {"name": "b", "deletionTimestamp": "2026-11-20T11:02:33Z"},
                "spec": {"taints": [
                    {"key": "a"}, {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown"},
                ]},
            },
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

/// Whether a manager has the renewTime; `None` if that cannot be told.
fn owns(fields: &Value) -> Option<bool> {
    let below = |of: &Value, key: &str| match of {
        Value::Null => Some(Value::Null),
        Value::Object(of) => Some(of.get(key).cloned().unwrap_or_default()),
        _ => None,
    };
    let spec = below(fields, "f:spec")?;
    Some(!below(&spec, "f:renewTime")?.is_null())
}

/// What a lease says, by the rules for one that is malformed: what has the wrong type is absent.
fn lease(item: &Value) -> Lease {
    let (meta, spec) = (&item["metadata"], &item["spec"]);
    let uid = meta["uid"].as_str();
    let version: Option<u64> = text(&meta["resourceVersion"]).parse().ok();
    let managers = meta["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let stamps: Option<Vec<i64>> = managers
        .iter()
        .filter_map(|it| match owns(&it["fieldsV1"]) {
            Some(false) => None,
            Some(true) => Some(time(text(&it["time"])).map(Timestamp::as_second)),
            None => Some(None),
        })
        .collect();
    let renewed = time(text(&spec["renewTime"]));
    let duration = spec["leaseDurationSeconds"].as_i64();
    let known = version > Some(0);
    Lease {
        name: text(&meta["name"]).into(),
        uid: uid.map(Into::into).unwrap_or_default(),
        resource_version: version.unwrap_or_default(),
        renew_time: renewed.filter(|_| known),
        stamp: stamps.and_then(|stamps| stamps.into_iter().min()),
        duration_seconds: duration
            .and_then(|seconds| i32::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0),
    }
}

fn node(item: &Value) -> Node {
    let meta = &item["metadata"];
    let label = |key: &str| {
        let label = text(&meta["labels"][key]).to_owned();
        (1..=63).contains(&label.len()).then_some(label)
    };
    let conditions = item["status"]["conditions"].as_array();
    let conditions: Vec<_> = conditions.into_iter().flatten().collect();
    let mut taints = item["spec"]["taints"].as_array().into_iter().flatten();
    let managed = &meta["annotations"]["node.machine.sapcloud.io/not-managed-by-mcm"];
    let types = conditions.iter().filter(|it| text(&it["status"]) == "True");
    let types = types.map(|it| text(&it["type"]).to_owned());
    Node {
        name: text(&meta["name"]).into(),
        deleted: text(&meta["deletionTimestamp"])
            .parse::<Timestamp>()
            .is_ok(),
        out_of_service: taints.any(|it| text(&it["key"]) == "node.kubernetes.io/out-of-service"),
        worker_pool: label("worker.gardener.cloud/pool"),
        zone: label("topology.kubernetes.io/zone"),
        exclude_disruption: meta["labels"]["node.kubernetes.io/exclude-disruption"].is_string(),
        not_managed_by_mcm: managed.is_string(),
        true_conditions: types
            .filter(|it| (1..=64).contains(&it.len()))
            .take(16)
            .collect(),
        in_place_update: conditions.iter().any(|it| {
            let reason = text(&it["reason"]);
            text(&it["type"]) == "InPlaceUpdate"
                && matches!(reason, "ReadyForUpdate" | "UpdateFailed")
        }),
    }
}

/// The items of a list, if it is the one that was asked for, as a whole.
fn items<'a>(list: &'a Value, kind: &str) -> Option<(u64, &'a [Value])> {
    let meta = &list["metadata"];
    let whole = text(&list["kind"]) == kind && text(&meta["continue"]).is_empty();
    let version = text(&meta["resourceVersion"]).parse().ok()?;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let names = items.iter().map(|it| text(&it["metadata"]["name"]));
    let named = |it: usize| (1..=MAX_NAME_BYTES).contains(&it);
    let bounded = items.len() <= MAX_ITEMS && names.map(str::len).all(named);
    (whole && bounded).then_some((version, items))
}

fn expected_leases(list: &Value) -> Option<List<Lease>> {
    let (resource_version, items) = items(list, "LeaseList")?;
    Some(List {
        resource_version,
        items: items.iter().map(lease).collect(),
    })
}

fn expected_nodes(list: &Value) -> Option<Vec<Node>> {
    let (_, items) = items(list, "NodeList")?;
    Some(items.iter().map(node).collect())
}

/// An array is not read as an object is, which it would be by position.
fn has_arrays_of_owned(list: &Value) -> bool {
    let owned = |it: &Value| it["fieldsV1"].is_array() || it["fieldsV1"]["f:spec"].is_array();
    let managers = |it: &Value| {
        let managers = it["metadata"]["managedFields"].as_array().cloned();
        managers.unwrap_or_default().iter().any(owned)
    };
    let items = list["items"].as_array().cloned();
    items.unwrap_or_default().iter().any(managers)
}

fuzzed!(
    leases_are_what_their_json_says,
    400,
    changed(vec![leases()], 4),
    |Changed { text, .. }| {
        if let Ok(plain) = serde_json::from_str::<Value>(&text)
            && !has_arrays_of_owned(&plain)
        {
            let read = List::<Lease>::decode(&encoded(&plain));
            prop_assert_eq!(read.ok(), expected_leases(&plain));
        }
        Ok(())
    }
);

fuzzed!(
    nodes_are_what_their_json_says,
    400,
    changed(vec![nodes()], 4),
    |Changed { text, .. }| {
        if let Ok(plain) = serde_json::from_str::<Value>(&text) {
            let read = List::<Node>::decode(&encoded(&plain));
            prop_assert_eq!(read.ok().map(|it| it.items), expected_nodes(&plain));
        }
        Ok(())
    }
);

fuzzed!(
    garbled_bodies_are_refused_or_read,
    400,
    garbled(prop::sample::select(vec![
        encoded(&leases()),
        encoded(&nodes())
    ])),
    |body| {
        let errors = [
            List::<Lease>::decode(&body).err(),
            List::<Node>::decode(&body).err(),
        ];
        for error in errors.into_iter().flatten() {
            let told = error.to_string();
            prop_assert!(told.chars().count() <= 200, "{}", told);
            prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
        }
        Ok(())
    }
);

/// First pages of kube-apiserver v1.36.3, which was asked for the same in both encodings. A page is refused; it is read
/// as if nothing followed.
#[test]
fn what_a_real_server_answers_is_the_same_in_both_encodings() {
    let pages = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/wire/");
        let mut wire = std::fs::read(format!("{folder}{name}.protobuf")).unwrap();
        let json = std::fs::read_to_string(format!("{folder}{name}.json")).unwrap();
        let mut json: Value = serde_json::from_str(&json).unwrap();
        let page = wire.clone();
        let more = json["metadata"]["continue"].take();
        let more = more.as_str().unwrap().as_bytes();
        let at = wire.windows(more.len()).position(|it| it == more).unwrap();
        // Before it stand its length and the number of its field: one that nobody reads.
        wire[at - if more.len() < 128 { 2 } else { 3 }] = 7 << 3 | 2;
        (page, wire, json)
    };
    let (page, wire, json) = pages("leases");
    let error = List::<Lease>::decode(&page).unwrap_err().to_string();
    assert!(error.contains("only a part"), "{error}");
    let leases = List::<Lease>::decode(&wire).unwrap();
    assert!(leases.items.iter().all(|it| it.stamp.is_some()));
    assert_eq!(Some(leases), expected_leases(&json));
    let (page, wire, json) = pages("nodes");
    let error = List::<Node>::decode(&page).unwrap_err().to_string();
    assert!(error.contains("only a part"), "{error}");
    let nodes = List::<Node>::decode(&wire).unwrap().items;
    assert!(nodes.iter().all(|it| it.zone.is_some()));
    assert_eq!(Some(nodes), expected_nodes(&json));
}

fn list(version: &str, more: &str, items: &[Message]) -> Message {
    let meta = Message::default().bytes(2, version).bytes(3, more);
    Message::default().bytes(1, meta).all(2, items)
}

#[test]
fn other_bodies_are_refused() {
    let of = |kind: &str, list: Message| wrapped("v1", kind, list);
    let leases = |version, more, items: &[Message]| of("LeaseList", list(version, more, items));
    let named = |name: &str| Message::default().bytes(1, Message::default().bytes(1, name));
    let odd = Message::default().bytes(1, Message::default().bytes(1, [0xff]));
    let whole = leases("7", "", &[named("n")]);
    let of_two = [&whole[..], &whole[4..]].concat();
    let taken_back = list("7", "more", &[]).bytes(1, Message::default().bytes(3, ""));
    let many = vec![named("n"); MAX_ITEMS + 1];
    for (body, says) in [
        (of("NodeList", list("7", "", &[])), "kind \"NodeList\""),
        (of("Status", Message::default()), "kind \"Status\""),
        (leases("7", "more", &[]), "only a part"),
        (of("LeaseList", taken_back), "only a part"),
        (leases("", "", &[]), "without a resourceVersion"),
        (leases("x", "", &[]), "without a resourceVersion"),
        (
            leases("18446744073709551616", "", &[]),
            "without a resourceVersion",
        ),
        (leases("7", "", &many), "more than 10000 items"),
        (leases("7", "", &[named(&"n".repeat(254))]), "a name of 1"),
        (leases("7", "", &[named("")]), "a name of 1 to 253 bytes"),
        (leases("7", "", &[odd]), "not UTF-8"),
        (b"k8s\0".to_vec(), "cut off"),
        (whole[..whole.len() - 5].to_vec(), "cut off"),
        (of_two, "a second list"),
        ([b"k8s\0", &[0xff; 11][..]].concat(), "more than 64 bits"),
        (b"k8s\0\x0b".to_vec(), "no known type"),
        (b"k8s\0\x08\x07".to_vec(), "cut off"),
        (b"".to_vec(), "cut off"),
        (b"{\"kind\":\"LeaseList\"}".to_vec(), "another beginning"),
    ] {
        let error = List::<Lease>::decode(&body).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    let most = leases("7", "", &vec![named("n"); MAX_ITEMS]);
    assert_eq!(List::<Lease>::decode(&most).unwrap().items.len(), MAX_ITEMS);
    let longest = leases("7", "", &[named(&"n".repeat(253))]);
    assert_eq!(List::<Lease>::decode(&longest).unwrap().items.len(), 1);
}

/// One that is too long to be read may own the renewTime, and have done so first.
#[test]
fn a_lease_with_a_manager_that_is_too_long_has_no_stamp() {
    let mut list = leases();
    let stamp = |list: &Value| List::<Lease>::decode(&encoded(list)).unwrap().items[1].stamp;
    assert!(stamp(&list).is_some());
    list["items"][1]["metadata"]["managedFields"][1]["manager"] =
        "x".repeat(MAX_FIELD_BYTES).into();
    assert_eq!(stamp(&list), None);
}

/// A kubelet may write bytes that are no UTF-8 into its own Node, and the API server passes them on. In JSON it writes
/// U+FFFD for them.
#[test]
fn what_one_kubelet_writes_hides_no_other_node() {
    const ODD: &[u8] = b"a\xffb";
    const LONG: &[u8] = &[b'x'; MAX_FIELD_BYTES];
    let named = |name: &str| Message::default().bytes(1, name);
    let entry = |key: &[u8], value: &[u8]| Message::default().bytes(1, key).bytes(2, value);
    let meta = |field, message| Message::default().bytes(1, named("n").bytes(field, message));
    let condition = |kind: &[u8], status: &[u8], reason: &[u8]| {
        let condition = entry(kind, status).bytes(5, reason).bytes(6, ODD);
        let status = Message::default().bytes(4, condition);
        Message::default().bytes(1, named("n")).bytes(3, status)
    };
    let managed: &[u8] = b"node.machine.sapcloud.io/not-managed-by-mcm";
    let told = |it: &Node| {
        format!(
            "{:?} {:?} {:?} {}",
            it.worker_pool, it.zone, it.true_conditions, it.not_managed_by_mcm
        )
    };
    let none = "None None [] false";
    for (place, node, says) in [
        ("the key of an annotation", meta(12, entry(ODD, b"")), none),
        ("an annotation", meta(12, entry(b"a", ODD)), none),
        (
            "one that is read",
            meta(12, entry(managed, ODD)),
            "None None [] true",
        ),
        ("the key of a label", meta(11, entry(ODD, b"")), none),
        ("a label", meta(11, entry(b"a", ODD)), none),
        (
            "the pool",
            meta(11, entry(b"worker.gardener.cloud/pool", ODD)),
            "Some(\"a\u{fffd}b\") None [] false",
        ),
        (
            "the zone",
            meta(11, entry(b"topology.kubernetes.io/zone", ODD)),
            "None Some(\"a\u{fffd}b\") [] false",
        ),
        (
            "a manager",
            meta(17, Message::default().bytes(1, ODD)),
            none,
        ),
        ("a long annotation", meta(12, entry(managed, LONG)), none),
        ("a long type", condition(LONG, b"True", b""), none),
        ("a type", condition(ODD, b"True", b""), none),
        ("a status", condition(b"Ready", ODD, b""), none),
        ("a reason", condition(b"InPlaceUpdate", b"", ODD), none),
    ] {
        let other = Message::default().bytes(1, named("other"));
        let body = wrapped("v1", "NodeList", list("7", "", &[node, other]));
        let nodes = List::<Node>::decode(&body).unwrap().items;
        assert_eq!(nodes.len(), 2, "{place}");
        assert_eq!(told(&nodes[0]), says, "{place}");
    }
}
