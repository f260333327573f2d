use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// 2026-11-20T11:02:33Z
const STAMP: i64 = 1_795_172_553;

fn body(items: &Value) -> Vec<u8> {
    json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"resourceVersion": "90071"}, "items": items,
    })
    .to_string()
    .into_bytes()
}

fn decode_one(lease: Value) -> Lease {
    let list = LeaseList::decode(&body(&json!([lease]))).unwrap();
    assert_eq!((list.resource_version, list.leases.len()), (90071, 1));
    list.leases.into_iter().next().unwrap()
}

fn manager(name: &str, time: &str, spec: Value) -> Value {
    json!({
        "manager": name, "operation": "Update", "apiVersion": "coordination.k8s.io/v1",
        "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:ownerReferences": {".": {}, "k:{\"uid\":\"7b0e\"}": {}}},
            "f:spec": spec,
        },
    })
}

fn kubelet(time: &str) -> Value {
    let spec = json!({
        "f:holderIdentity": {}, "f:leaseDurationSeconds": {}, "f:renewTime": {}
    });
    manager("kubelet", time, spec)
}

fn lease(name: &str, managers: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "kube-node-lease",
            "uid": "1c0f2f0e-7a44-4f6c-9a0c-2b8b0f1d9e11", "resourceVersion": "90070",
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "7b0e"}],
            "managedFields": managers,
        },
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": 40,
            "renewTime": "2026-11-20T11:02:33.123456Z",
        },
    })
}

fn expected(name: &str) -> Lease {
    Lease {
        name: name.into(),
        uid: "1c0f2f0e-7a44-4f6c-9a0c-2b8b0f1d9e11".into(),
        resource_version: 90070,
        renew_time: Some(RenewTime::from_micros(STAMP * 1_000_000 + 123_456)),
        stamp: Some(STAMP),
        duration_seconds: Some(40),
    }
}

#[test]
fn a_lease_of_a_kubelet() {
    let got = decode_one(lease("n", json!([kubelet("2026-11-20T11:02:33Z")])));
    assert_eq!(got, expected("n"));
}

#[test]
fn the_stamp_is_the_earliest_of_the_managers_that_own_the_renew_time() {
    let at = |second: u32| kubelet(&format!("2026-11-20T11:02:{second:02}Z"));
    let mut subresource = at(33);
    subresource["subresource"] = json!("status");
    let no_time = json!({"manager": "x", "fieldsV1": {"f:spec": {"f:renewTime": {}}}});
    let elsewhere = json!({
        "time": "2026-11-20T11:00:00Z",
        "fieldsV1": {"f:status": {"f:renewTime": {}}, "f:renewTime": {}, "f:spec": {"f:other": {}}},
    });
    for (case, managers, stamp) in [
        ("one", json!([at(33)]), Some(STAMP)),
        ("the earliest first", json!([at(33), at(40)]), Some(STAMP)),
        ("the earliest last", json!([at(40), at(33)]), Some(STAMP)),
        (
            "others do not count",
            json!([elsewhere, at(33)]),
            Some(STAMP),
        ),
        (
            "a subresource counts",
            json!([subresource, at(40)]),
            Some(STAMP),
        ),
        (
            "an offset",
            json!([kubelet("2026-11-20T12:02:33+01:00")]),
            Some(STAMP),
        ),
        (
            "a value below the field",
            json!([manager(
                "x",
                "2026-11-20T11:02:33Z",
                json!({"f:renewTime": {".": {}}})
            )]),
            Some(STAMP),
        ),
        ("nobody owns it", json!([elsewhere]), None),
        ("an owner without time", json!([at(33), no_time]), None),
        ("a broken time", json!([at(33), kubelet("yesterday")]), None),
        ("no managers", json!([]), None),
        ("null", json!(null), None),
        ("no list", json!({"time": "2026-11-20T11:02:33Z"}), None),
        (
            "fields that are none",
            json!([{"time": "2026-11-20T11:02:33Z", "fieldsV1": "f:spec"}]),
            None,
        ),
        (
            "spec that is none",
            json!([manager("x", "2026-11-20T11:02:33Z", json!(["f:renewTime"]))]),
            None,
        ),
    ] {
        assert_eq!(
            decode_one(lease("n", managers)),
            Lease {
                stamp,
                ..expected("n")
            },
            "{case}"
        );
    }
}

#[test]
fn a_malformed_field_makes_that_lease_unknown_and_no_more() {
    let known = expected("n");
    let unknown = Lease {
        renew_time: None,
        ..known.clone()
    };
    let unordered = Lease {
        resource_version: 0,
        ..unknown.clone()
    };
    let cases = [
        ("/spec/renewTime", json!("garbage"), unknown.clone()),
        ("/spec/renewTime", json!(""), unknown.clone()),
        ("/spec/renewTime", json!(null), unknown.clone()),
        ("/spec/renewTime", json!(1_795_172_553), unknown.clone()),
        (
            "/spec/renewTime",
            json!("2026-11-20T11:02:33.123456"),
            unknown.clone(),
        ),
        (
            "/spec/renewTime",
            json!("99999-11-20T11:02:33Z"),
            unknown.clone(),
        ),
        (
            "/spec",
            json!(null),
            Lease {
                duration_seconds: None,
                ..unknown.clone()
            },
        ),
        (
            "/spec",
            json!("x"),
            Lease {
                duration_seconds: None,
                ..unknown.clone()
            },
        ),
        (
            "/spec/leaseDurationSeconds",
            json!(0),
            Lease {
                duration_seconds: None,
                ..known.clone()
            },
        ),
        (
            "/spec/leaseDurationSeconds",
            json!(-40),
            Lease {
                duration_seconds: None,
                ..known.clone()
            },
        ),
        (
            "/spec/leaseDurationSeconds",
            json!("40"),
            Lease {
                duration_seconds: None,
                ..known.clone()
            },
        ),
        (
            "/spec/leaseDurationSeconds",
            json!(u64::MAX),
            Lease {
                duration_seconds: None,
                ..known.clone()
            },
        ),
        ("/metadata/resourceVersion", json!("x"), unordered.clone()),
        ("/metadata/resourceVersion", json!(90070), unordered),
        (
            "/metadata/uid",
            json!(null),
            Lease {
                uid: "".into(),
                ..unknown
            },
        ),
        (
            "/spec/renewTime",
            json!("2026-11-20T11:02:33Z"),
            Lease {
                renew_time: Some(RenewTime::from_micros(STAMP * 1_000_000)),
                ..known.clone()
            },
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut broken = lease("n", json!([kubelet("2026-11-20T11:02:33Z")]));
        *broken.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(decode_one(broken), expected, "{pointer} = {value}");
    }
}

#[test]
fn what_is_no_lease_is_left_out() {
    let good = lease("n", json!([kubelet("2026-11-20T11:02:33Z")]));
    let items = json!([null, 1, "x", [[]], {}, {"metadata": {"uid": "x"}}, {"metadata": {"name": ""}}, good]);
    assert_eq!(
        LeaseList::decode(&body(&items)).unwrap().leases,
        [expected("n")]
    );
}

#[test]
fn names_may_be_escaped() {
    let text = String::from_utf8(body(&json!([lease("node", json!([]))]))).unwrap();
    let escaped = text.replace("\"node\"", "\"n\\u006fde\"");
    assert_eq!(
        &*LeaseList::decode(escaped.as_bytes()).unwrap().leases[0].name,
        "node"
    );
}

#[test]
fn a_list_that_says_that_nothing_follows_is_whole() {
    for more in ["\"\"", "null"] {
        let body = format!(
            r#"{{"kind":"LeaseList","metadata":{{"resourceVersion":"5","continue":{more}}},"items":[]}}"#
        );
        assert_eq!(LeaseList::decode(body.as_bytes()).unwrap().leases, []);
    }
}

#[test]
fn an_empty_list_is_a_list() {
    for items in [json!([]), json!(null)] {
        assert_eq!(LeaseList::decode(&body(&items)).unwrap().leases, []);
    }
}

#[test]
fn a_thousand_leases() {
    let items: Vec<_> = (0..1000)
        .map(|i| lease(&format!("n{i}"), json!([kubelet("2026-11-20T11:02:33Z")])))
        .collect();
    let list = LeaseList::decode(&body(&json!(items))).unwrap();
    let names: Vec<_> = (0..1000).map(|i| expected(&format!("n{i}"))).collect();
    assert_eq!(list.leases, names);
}

#[test]
fn more_leases_than_any_cluster_has_are_an_error() {
    let leases = |count: usize| vec![json!({}); count];
    let most = LeaseList::decode(&body(&json!(leases(list::MAX_ITEMS))));
    assert_eq!(most.unwrap().leases, []);
    let error = LeaseList::decode(&body(&json!(leases(list::MAX_ITEMS + 1)))).unwrap_err();
    assert!(matches!(error, DecodeError::TooMany { .. }), "{error}");
    assert_eq!(error.to_string(), "a LeaseList of more than 10000 items");
}

#[test]
fn another_body_is_an_error_that_says_what_came() {
    let whole = body(&json!([lease("n", json!([]))]));
    for (case, body, says) in [
        ("nothing", &b""[..], "EOF"),
        ("cut off", &whole[..whole.len() - 2], "EOF"),
        ("something behind it", &[&whole[..], b"x"].concat(), "trailing"),
        ("HTML", b"<html><body>Bad gateway</body></html>", "not whole JSON"),
        ("an array", br#"["LeaseList",{"resourceVersion":"5"},[]]"#, "kind \"\" instead"),
        ("no kind", b"{}", "kind \"\" instead of LeaseList"),
        ("a Status", br#"{"kind":"Status","metadata":{},"status":"Failure"}"#, "kind \"Status\""),
        ("no metadata", br#"{"kind":"LeaseList","items":[]}"#, "resourceVersion is \"\""),
        ("a number as version", br#"{"kind":"LeaseList","metadata":{"resourceVersion":5},"items":[]}"#,
            "resourceVersion is \"\""),
        ("words as version", br#"{"kind":"LeaseList","metadata":{"resourceVersion":"five"},"items":[]}"#,
            "resourceVersion is \"five\""),
        ("too large a version",
            br#"{"kind":"LeaseList","metadata":{"resourceVersion":"18446744073709551616"},"items":[]}"#,
            "resourceVersion is \"18446744073709551616\""),
        ("no items", br#"{"kind":"LeaseList","metadata":{"resourceVersion":"5"}}"#, "without items"),
        ("a page", br#"{"kind":"LeaseList","metadata":{"resourceVersion":"5","continue":"x"},"items":[]}"#,
            "only a part"),
        ("a page by no text", br#"{"kind":"LeaseList","metadata":{"resourceVersion":"5","continue":{}},"items":[]}"#,
            "only a part"),
    ] {
        let error = LeaseList::decode(body).unwrap_err().to_string();
        assert!(error.contains(says), "{case}: {error}");
    }
}

#[test]
fn depth_does_not_exhaust_the_stack() {
    let deep = format!(r#"{{"kind":"LeaseList","x":{}"#, "[".repeat(1_000_000));
    assert!(matches!(
        LeaseList::decode(deep.as_bytes()),
        Err(DecodeError::Json { .. })
    ));
}

/// Any JSON, with a preference for the keys and texts that mean something here.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("2026-11-20T11:02:33.5Z".to_owned()),
        Just("17".to_owned()),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "spec",
        "name",
        "uid",
        "resourceVersion",
        "managedFields",
        "time",
        "fieldsV1",
        "f:spec",
        "f:renewTime",
        "renewTime",
        "leaseDurationSeconds",
        "other",
    ]);
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|entries| {
                entries
                    .into_iter()
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        prop_assert!(LeaseList::decode(&bytes).is_err());
    }

    #[test]
    fn arbitrary_items_neither_panic_nor_hide_a_good_lease(
        items in prop::collection::vec(arbitrary_json(), 0..8), at in any::<prop::sample::Index>()
    ) {
        let mut items = items;
        let good = lease("good", json!([kubelet("2026-11-20T11:02:33Z")]));
        items.insert(at.index(items.len() + 1), good);
        let list = LeaseList::decode(&body(&json!(items))).unwrap();
        prop_assert!(list.leases.contains(&expected("good")));
    }
}
