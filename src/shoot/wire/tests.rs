use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::shoot::{LeaseList, Node};

const WORKER_POOL: &[u8] = b"worker.gardener.cloud/pool";
const ZONE: &[u8] = b"topology.kubernetes.io/zone";

/// What kube-apiserver v1.36.3 answered when it was asked for the same in both encodings.
macro_rules! answered {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/fixtures/wire/", $name))
    };
}

fn number(number: u32, value: i64) -> Vec<u8> {
    let mut bytes = varint(u64::from(number) << 3);
    bytes.extend(varint(value.cast_unsigned()));
    bytes
}

fn bytes(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = varint(u64::from(number) << 3 | 2);
    bytes.extend(varint(value.len() as u64));
    bytes.extend_from_slice(value);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn wrapped(kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, "v1"), bytes(2, kind)].concat();
    let rest = [bytes(1, meta), bytes(2, raw), bytes(3, ""), bytes(4, "")];
    [MAGIC, &rest.concat()].concat()
}

fn list(kind: &str, version: &str, more: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let meta = [bytes(1, ""), bytes(2, version), bytes(3, more)].concat();
    let mut raw = bytes(1, meta);
    raw.extend(items.iter().flat_map(|item| bytes(2, item)));
    wrapped(kind, &raw)
}

/// A list as JSON has it.
fn json_list(kind: &str, items: &[Json]) -> Vec<u8> {
    let list = json!({"kind": kind, "metadata": {"resourceVersion": "7"}, "items": items});
    list.to_string().into_bytes()
}

fn time(at: Timestamp, number_of: u32) -> Vec<u8> {
    let at = [
        number(1, at.as_second()),
        number(2, at.subsec_nanosecond().into()),
    ];
    bytes(number_of, at.concat())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,3}", Just("größe".to_owned()), any::<String>()]
}

/// Times in whole microseconds, as servers send them.
fn any_time() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_102_444_800, 0_i32..1_000_000)
        .prop_map(|(second, micro)| Timestamp::new(second, micro * 1000).unwrap())
}

/// What a manager owns: what a kubelet does, at its place and elsewhere, and less.
fn owned() -> impl Strategy<Value = Json> {
    let field = prop_oneof!["f:renewTime", "f:renewTim", "f:spec"];
    let owner = prop_oneof!["f:spec", "f:status"];
    let kubelet = json!({"f:holderIdentity": {}, "f:leaseDurationSeconds": {}, "f:renewTime": {}});
    prop_oneof![
        (owner, field).prop_map(|(owner, field)| json!({owner: {field: {}}})),
        Just(json!({"f:spec": kubelet})),
        Just(json!({"f:metadata": {}, "f:spec": kubelet})),
        Just(json!({"f:metadata": {"f:labels": {}, "f:spec": kubelet}})),
        Just(json!({"f:metadata": {"f:labels": {}, "f:spec": kubelet}, "f:spec": {}})),
        Just(json!({"f:metadata": {}, ",\"f:spec": kubelet})),
        Just(json!({"f:metadata": {}, "f:spec": [kubelet]})),
    ]
}

/// A manager in both encodings.
fn manager() -> impl Strategy<Value = (Json, Vec<u8>)> {
    (proptest::option::of(any_time()), owned(), text()).prop_map(|(at, owned, name)| {
        let at = at.map(|at| Timestamp::from_second(at.as_second()).unwrap());
        let mut json = json!({"manager": name, "fieldsV1": owned});
        let mut wire = bytes(1, name);
        if let Some(at) = at {
            json["time"] = json!(at.to_string());
            wire.extend(time(at, 4));
        }
        wire.extend(bytes(7, bytes(1, owned.to_string())));
        (json, wire)
    })
}

/// A lease in both encodings, with fields that are not read between those that are.
fn lease() -> impl Strategy<Value = (Json, Vec<u8>)> {
    let version = prop_oneof![any::<u64>().prop_map(|it| it.to_string()), text()];
    let duration = proptest::option::of(any::<i32>());
    let managers = proptest::collection::vec(manager(), 0..4);
    let renewed = proptest::option::of(any_time());
    (text(), text(), version, renewed, duration, managers).prop_map(
        |(name, uid, version, renewed, duration, managers)| {
            let (managers, wires): (Vec<_>, Vec<_>) = managers.into_iter().unzip();
            let mut meta = [bytes(1, &name), bytes(3, "kube-node-lease"), bytes(5, &uid)].concat();
            meta.extend([bytes(6, &version), number(7, -1)].concat());
            meta.extend(wires.iter().flat_map(|wire| bytes(17, wire)));
            let mut spec = bytes(1, "holder");
            let mut json_spec = json!({"holderIdentity": "holder"});
            if let Some(duration) = duration {
                json_spec["leaseDurationSeconds"] = json!(duration);
                spec.extend(number(2, duration.into()));
            }
            if let Some(renewed) = renewed {
                json_spec["renewTime"] = json!(format!("{renewed:.6}"));
                spec.extend(time(renewed, 4));
            }
            let json = json!({
                "metadata": {"name": name, "uid": uid, "resourceVersion": version,
                    "managedFields": managers},
                "spec": json_spec,
            });
            (json, [bytes(1, meta), bytes(2, spec)].concat())
        },
    )
}

/// A node in both encodings.
fn node() -> impl Strategy<Value = (Json, Vec<u8>)> {
    let key = |known: &'static [&'static str]| {
        prop_oneof![
            proptest::sample::select(known).prop_map(str::to_owned),
            text()
        ]
    };
    let labels = key(&["worker.gardener.cloud/pool", "topology.kubernetes.io/zone"]);
    let labels = proptest::collection::btree_map(labels, text(), 0..4);
    let annotations = key(&["node.machine.sapcloud.io/not-managed-by-mcm"]);
    let annotations = proptest::collection::btree_map(annotations, text(), 0..2);
    let condition = (
        key(&["Ready", "DiskPressure", "InPlaceUpdate"]),
        key(&["True", "False"]),
        key(&["ReadyForUpdate", "UpdateFailed"]),
    );
    let conditions = proptest::collection::vec(condition, 0..4);
    (text(), labels, annotations, conditions).prop_map(|(name, labels, annotations, conditions)| {
        let entry = |(key, value): (&String, &String)| [bytes(1, key), bytes(2, value)].concat();
        let mut meta = bytes(1, &name);
        meta.extend(labels.iter().flat_map(|it| bytes(11, entry(it))));
        meta.extend(annotations.iter().flat_map(|it| bytes(12, entry(it))));
        let status = conditions.iter().flat_map(|(kind, status, reason)| {
            let times = [bytes(3, number(1, 7)), bytes(6, "message")].concat();
            let fields = [bytes(1, kind), bytes(2, status), bytes(5, reason), times];
            bytes(4, fields.concat())
        });
        let status: Vec<u8> = bytes(3, "Running").into_iter().chain(status).collect();
        let conditions = conditions.iter().map(
            |(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}),
        );
        let json = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "status": {"conditions": conditions.collect::<Vec<_>>()},
        });
        (
            json,
            [bytes(1, meta), bytes(2, "spec"), bytes(3, status)].concat(),
        )
    })
}

#[test]
fn what_a_real_server_answers_is_the_same_in_both_encodings() {
    let partial = |name| LeaseList::decode(name).unwrap_err();
    // These are first pages, which is seen in both.
    assert_eq!(
        partial(answered!("leases.protobuf")),
        partial(answered!("leases.json"))
    );
    let whole = decode_page(answered!("leases.protobuf"), "LeaseList");
    let expected = whole_of(answered!("leases.json"));
    let leases = LeaseList::decode(&expected).unwrap();
    assert_eq!(leases.leases.len(), 3);
    assert!(leases.leases.iter().all(|lease| lease.stamp.is_some()));
    assert_eq!(LeaseList::decode(&whole).unwrap(), leases);
    let whole = decode_page(answered!("nodes.protobuf"), "NodeList");
    let nodes = Node::decode_list(&whole_of(answered!("nodes.json"))).unwrap();
    assert!(nodes.iter().all(|node| node.zone.is_some()));
    assert_eq!(Node::decode_list(&whole).unwrap(), nodes);
}

/// A page, as if it were the whole list.
fn whole_of(page: &[u8]) -> Vec<u8> {
    let mut list: Json = serde_json::from_slice(page).unwrap();
    list["metadata"]["continue"] = json!("");
    list.to_string().into_bytes()
}

fn decode_page(page: &[u8], kind: &str) -> Vec<u8> {
    let (_, raw) = unwrap(page).unwrap();
    let (mut version, mut items) = ("", Vec::new());
    let mut fields = Fields::of(raw.unwrap());
    while let Some((field, value)) = fields.next().unwrap() {
        match (field, value.bytes().unwrap()) {
            (list::ITEMS, item) => items.push(item.to_vec()),
            (_, meta) => {
                let mut meta = Fields::of(meta);
                while let Some((field, value)) = meta.next().unwrap() {
                    if field == list_meta::RESOURCE_VERSION {
                        version = value.text().unwrap();
                    }
                }
            }
        }
    }
    list(kind, version, "", &items)
}

#[test]
fn other_bodies_are_refused() {
    let named = bytes(1, bytes(1, "n"));
    let cut = |bytes: Vec<u8>, by: usize| bytes[..bytes.len() - by].to_vec();
    let encoded = [MAGIC, &bytes(1, bytes(2, "LeaseList")), &bytes(3, "gzip")].concat();
    for (body, expected) in [
        (list("NodeList", "7", "", &[]), "kind \"NodeList\""),
        (wrapped("Status", b""), "kind \"Status\""),
        (MAGIC.to_vec(), "kind \"\""),
        (list("LeaseList", "7", "more", &[]), "only a part"),
        (list("LeaseList", "", "", &[]), "resourceVersion is \"\""),
        (list("LeaseList", "x", "", &[]), "resourceVersion is \"x\""),
        (wrapped("LeaseList", b""), "resourceVersion is \"\""),
        (
            [MAGIC, &bytes(1, bytes(2, "LeaseList"))].concat(),
            "without items",
        ),
        (encoded, "encoded once more"),
        (cut(list("LeaseList", "7", "", &[named]), 9), "cut off"),
        ([MAGIC, &[0xff; 11]].concat(), "more than 64 bits"),
        ([MAGIC, &[0x0b]].concat(), "no known type"),
        ([MAGIC, &number(1, 7)].concat(), "another type"),
        (
            list("LeaseList", "7", "", &[bytes(1, bytes(1, [0xff]))]),
            "not UTF-8",
        ),
        (
            // What follows does not take it back.
            wrapped(
                "LeaseList",
                &[bytes(1, bytes(3, "more")), bytes(1, bytes(3, ""))].concat(),
            ),
            "only a part",
        ),
    ] {
        let error = LeaseList::decode(&body).unwrap_err().to_string();
        assert!(error.contains(expected), "{body:?}: {error}");
    }
}

/// What nobody could have named so is no object of an API server, and the others are not all.
#[test]
fn a_name_that_no_object_has_fails_the_list() {
    for (kind, length, fails) in [
        ("LeaseList", 253, false),
        ("LeaseList", 254, true),
        ("NodeList", 253, false),
        ("NodeList", 254, true),
    ] {
        let name = "n".repeat(length);
        let others = ["a", &name, "b"];
        let wire = others.map(|name| bytes(1, bytes(1, name)));
        let json = others.map(|name| json!({"metadata": {"name": name}}));
        for body in [list(kind, "7", "", &wire), json_list(kind, &json)] {
            let read = match kind {
                "LeaseList" => LeaseList::decode(&body).map(|list| list.leases.len()),
                _ => Node::decode_list(&body).map(|nodes| nodes.len()),
            };
            match fails {
                false => assert_eq!(read, Ok(3)),
                true => {
                    let error = read.unwrap_err();
                    assert_eq!(error, DecodeError::LongName { expected: kind });
                    assert!(
                        error.to_string().ends_with("more than 253 bytes"),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// A kubelet may write bytes that are no UTF-8 into its own Node, and the API server passes them on. In
/// JSON it writes U+FFFD for them.
#[test]
fn what_one_kubelet_writes_hides_no_other_node() {
    const ODD: &[u8] = b"a\xffb";
    let entry = |key: &[u8], value: &[u8]| [bytes(1, key), bytes(2, value)].concat();
    let condition = |kind: &[u8], status: &[u8], reason: &[u8]| {
        let fields = [
            bytes(1, kind),
            bytes(2, status),
            bytes(5, reason),
            bytes(6, ODD),
        ];
        bytes(3, bytes(4, fields.concat()))
    };
    let named = bytes(1, "n");
    let meta = |field, entry: Vec<u8>| bytes(1, [&named[..], &bytes(field, entry)].concat());
    let none = Node {
        name: "n".into(),
        ..Node::default()
    };
    let odd = || "a\u{fffd}b".to_owned();
    let true_condition = Node {
        true_conditions: vec![odd()],
        ..none.clone()
    };
    let pool = Node {
        worker_pool: Some(odd()),
        ..none.clone()
    };
    let zone = Node {
        zone: Some(odd()),
        ..none.clone()
    };
    let unmanaged = Node {
        not_managed_by_mcm: true,
        ..none.clone()
    };
    let key = b"node.machine.sapcloud.io/not-managed-by-mcm";
    let with_name = |status: Vec<u8>| [bytes(1, &named), status].concat();
    for (place, node, expected) in [
        ("the key of an annotation", meta(12, entry(ODD, b"")), &none),
        ("an annotation", meta(12, entry(b"a", ODD)), &none),
        ("one that is read", meta(12, entry(key, ODD)), &unmanaged),
        ("the key of a label", meta(11, entry(ODD, b"")), &none),
        ("a label", meta(11, entry(b"a", ODD)), &none),
        ("the pool", meta(11, entry(WORKER_POOL, ODD)), &pool),
        ("the zone", meta(11, entry(ZONE, ODD)), &zone),
        ("a manager", meta(17, bytes(1, ODD)), &none),
        (
            "a type",
            with_name(condition(ODD, b"True", b"")),
            &true_condition,
        ),
        ("a status", with_name(condition(b"Ready", ODD, b"")), &none),
        (
            "a reason",
            with_name(condition(b"InPlaceUpdate", b"", ODD)),
            &none,
        ),
    ] {
        let other = bytes(1, bytes(1, "other"));
        let nodes = Node::decode_list(&list("NodeList", "7", "", &[node, other]));
        let nodes = nodes.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(nodes.len(), 2, "{place}");
        assert_eq!(&nodes[0], expected, "{place}");
    }
    // By these objects are told apart, and API servers see to them.
    for (field, message) in [(1, "the name"), (5, "the UID"), (6, "the resourceVersion")] {
        let lease = bytes(1, [&named[..], &bytes(field, ODD)].concat());
        let error = LeaseList::decode(&list("LeaseList", "7", "", &[lease]));
        assert!(error.is_err(), "{message}");
    }
}

/// It may own the renewTime, and be the first to do so.
#[test]
fn a_manager_that_cannot_be_read_makes_a_stamp_unknown() {
    let owner = |raw: &str| {
        let time = time(Timestamp::from_second(7).unwrap(), 4);
        bytes(17, [time, bytes(7, bytes(1, raw))].concat())
    };
    let lease = |managers: &[Vec<u8>]| bytes(1, [bytes(1, "n"), managers.concat()].concat());
    let owns = owner(r#"{"f:spec":{"f:renewTime":{}}}"#);
    let alone = lease(std::slice::from_ref(&owns));
    let leases = [alone, lease(&[owns, owner("{")])];
    let leases = LeaseList::decode(&list("LeaseList", "7", "", &leases)).unwrap();
    let stamps = leases.leases.iter().map(|lease| lease.stamp);
    assert_eq!(stamps.collect::<Vec<_>>(), [Some(7), None]);
}

/// Also of items that are none, which take two bytes each.
#[test]
fn more_items_than_any_cluster_has_are_an_error() {
    let nameless = |count| list("LeaseList", "7", "", &vec![Vec::new(); count]);
    let most = LeaseList::decode(&nameless(MAX_ITEMS)).unwrap();
    assert_eq!(most.leases, []);
    let error = LeaseList::decode(&nameless(MAX_ITEMS + 1)).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { .. }), "{error}");
}

#[test]
fn a_time_that_is_none_makes_a_lease_unknown() {
    let meta = [bytes(1, "n"), bytes(5, "u"), bytes(6, "3")].concat();
    for time in [
        vec![],
        number(1, i64::MAX),
        [number(1, 7), number(2, i64::MAX)].concat(),
    ] {
        let lease = [bytes(1, &meta), bytes(2, bytes(4, time))].concat();
        let list = LeaseList::decode(&list("LeaseList", "7", "", &[lease])).unwrap();
        assert_eq!(list.leases[0].renew_time, None);
    }
}

#[test]
fn a_refusal_says_why() {
    let status = [
        bytes(2, "Failure"),
        bytes(3, "etcd is away"),
        number(6, 500),
    ]
    .concat();
    let body = wrapped("Status", &status);
    assert_eq!(status_message(&body), Some("etcd is away"));
    for body in [&wrapped("Pod", &status), &b"oops".to_vec(), &MAGIC.to_vec()] {
        assert_eq!(status_message(body), None);
    }
}

proptest! {
    #[test]
    fn leases_are_the_same_in_both_encodings(leases in proptest::collection::vec(lease(), 0..5)) {
        let (json, wire): (Vec<_>, Vec<_>) = leases.into_iter().unzip();
        let expected = LeaseList::decode(&json_list("LeaseList", &json)).unwrap();
        let got = LeaseList::decode(&list("LeaseList", "7", "", &wire)).unwrap();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn nodes_are_the_same_in_both_encodings(nodes in proptest::collection::vec(node(), 0..5)) {
        let (json, wire): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        let expected = Node::decode_list(&json_list("NodeList", &json)).unwrap();
        // A map has no order, and of two conditions the order is kept.
        prop_assert_eq!(Node::decode_list(&list("NodeList", "7", "", &wire)).unwrap(), expected);
    }

    #[test]
    fn a_list_that_is_cut_off_is_refused((_, lease) in lease(), cut: proptest::sample::Index) {
        let body = list("LeaseList", "7", "", &[lease]);
        // The two empty fields at the end say nothing.
        let cut = cut.index(body.len() - 4);
        prop_assert!(LeaseList::decode(&body[..cut]).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(rest: Vec<u8>) {
        let body = [MAGIC, &rest].concat();
        let _ = (LeaseList::decode(&body), Node::decode_list(&body), status_message(&body));
        let item = list("LeaseList", "7", "", std::slice::from_ref(&rest));
        let _ = LeaseList::decode(&item);
        let _ = Node::decode_list(&list("NodeList", "7", "", &[rest]));
    }
}
