//! Lists in protobuf, as API servers send them, mean what they do in JSON, however they were changed.

use dependency_watchdog::shoot::{LeaseList, Node};
use proptest::{prelude::*, test_runner::TestCaseResult};
use serde_json::{Value, json};

pub(crate) use self::change::varint;
use self::{
    change::{Body, changed, wrapped, written},
    meaning::in_json,
    schema::{LEASES, NODES},
};
use super::{
    fuzz::fuzzed,
    shoots::{leases, nodes},
};

mod change;
mod meaning;
mod schema;

const MAGIC: &[u8] = b"k8s\0";

fn told(error: Option<impl std::fmt::Display>) -> TestCaseResult {
    let told = error.map(|it| it.to_string()).unwrap_or_default();
    prop_assert!(told.chars().count() <= 200, "{}", told);
    prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
    Ok(())
}

fn leases_agree(body: Body) -> TestCaseResult {
    // Of fields that were garbled it may be told otherwise whether they are JSON.
    let stamped = |mut list: LeaseList| {
        let stamps = list.leases.iter_mut().map(|lease| &mut lease.stamp);
        stamps.filter(|_| body.garbled).for_each(|it| *it = None);
        list
    };
    let got = LeaseList::decode(&body.bytes);
    let json = in_json(&body.bytes, LEASES);
    let expected = json.and_then(|json| LeaseList::decode(json.to_string().as_bytes()).ok());
    prop_assert_eq!(
        got.as_ref().ok().cloned().map(stamped),
        expected.map(stamped)
    );
    told(got.err())
}

fn nodes_agree(body: Body) -> TestCaseResult {
    let got = Node::decode_list(&body.bytes);
    let json = in_json(&body.bytes, NODES);
    let expected = json.and_then(|json| Node::decode_list(json.to_string().as_bytes()).ok());
    prop_assert_eq!(got.as_ref().ok(), expected.as_ref());
    told(got.err())
}

fuzzed!(
    leases_in_protobuf_mean_what_they_do_in_json,
    600,
    changed(&leases(), LEASES, 4),
    leases_agree
);

fuzzed!(
    nodes_in_protobuf_mean_what_they_do_in_json,
    600,
    changed(&nodes(), NODES, 4),
    nodes_agree
);

/// The table is that of a real server.
#[test]
fn what_a_real_server_sends_means_the_same_in_both_encodings() {
    let whole = |mut list: Value| {
        list["metadata"]["continue"] = json!("");
        list.to_string().into_bytes()
    };
    macro_rules! answered {
        ($name:literal, $schema:expr) => {{
            let protobuf = include_bytes!(concat!("../../fixtures/wire/", $name, ".protobuf"));
            let json = include_bytes!(concat!("../../fixtures/wire/", $name, ".json"));
            let json = serde_json::from_slice(json).unwrap();
            [in_json(protobuf, $schema).unwrap(), json].map(whole)
        }};
    }
    let [one, other] = answered!("leases", LEASES).map(|it| LeaseList::decode(&it).unwrap());
    assert_eq!(one, other);
    assert_eq!(one.leases.len(), 3);
    let [one, other] = answered!("nodes", NODES).map(|it| Node::decode_list(&it).unwrap());
    assert_eq!(one, other);
}

/// Else they would be refused together, and agree in that.
#[test]
fn what_is_not_changed_is_read() {
    let body = |list: &Value, schema| [MAGIC, &written(&wrapped(list, schema))].concat();
    let read = LeaseList::decode(&body(&leases(), LEASES)).unwrap();
    let expected = LeaseList::decode(leases().to_string().as_bytes()).unwrap();
    assert_eq!(read, expected);
    let read = Node::decode_list(&body(&nodes(), NODES)).unwrap();
    let expected = Node::decode_list(nodes().to_string().as_bytes()).unwrap();
    assert_eq!(read, expected);
}
