//! Lists of leases and Nodes in protobuf, from their JSON, as far as they are read.

use fake::farm::wire::{Message, wrapped};
use jiff::Timestamp;
use serde_json::Value;

/// A list in its envelope. What has another type than it should is left out.
pub fn encoded(list: &Value) -> Vec<u8> {
    let meta = &list["metadata"];
    let meta = texts(meta, &[(2, "resourceVersion"), (3, "continue")]);
    let kind = text(&list["kind"]);
    let items = array(&list["items"]).map(|item| match kind {
        "LeaseList" => lease(item),
        _ => node(item),
    });
    let message = Message::default().bytes(1, meta).all(2, items);
    wrapped(text(&list["apiVersion"]), kind, message)
}

fn lease(lease: &Value) -> Message {
    let managers = array(&lease["metadata"]["managedFields"]).map(|it| {
        let manager = texts(it, &[(1, "manager")]);
        let manager = maybe(manager, 4, time(&it["time"]));
        match &it["fieldsV1"] {
            Value::Null => manager,
            owned => manager.bytes(7, Message::default().bytes(1, owned.to_string())),
        }
    });
    let meta = object_meta(&lease["metadata"]).all(17, managers);
    let spec = texts(&lease["spec"], &[(1, "holderIdentity")]);
    let spec = match lease["spec"]["leaseDurationSeconds"].as_i64() {
        Some(seconds) => spec.number(2, seconds.cast_unsigned()),
        None => spec,
    };
    let spec = maybe(spec, 4, time(&lease["spec"]["renewTime"]));
    Message::default().bytes(1, meta).bytes(2, spec)
}

fn node(node: &Value) -> Message {
    let entries = |key: &str| {
        let entries = node["metadata"][key].as_object().into_iter().flatten();
        let entries = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?)));
        entries.collect::<Vec<_>>()
    };
    let meta = object_meta(&node["metadata"]);
    let meta = maybe(meta, 9, time(&node["metadata"]["deletionTimestamp"]))
        .map(11, entries("labels"))
        .map(12, entries("annotations"));
    let conditions = array(&node["status"]["conditions"])
        .map(|it| texts(it, &[(1, "type"), (2, "status"), (5, "reason")]));
    let status = Message::default().bytes(3, "").all(4, conditions);
    let taints = array(&node["spec"]["taints"]).map(|it| texts(it, &[(1, "key"), (2, "value")]));
    Message::default()
        .bytes(1, meta)
        .bytes(2, Message::default().all(5, taints))
        .bytes(3, status)
}

fn object_meta(meta: &Value) -> Message {
    texts(meta, &[(1, "name"), (5, "uid"), (6, "resourceVersion")])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(of: &Value, fields: &[(u64, &str)]) -> Message {
    let texts = fields
        .iter()
        .filter_map(|(field, key)| Some((*field, of[*key].as_str()?)));
    texts.fold(Message::default(), |it, (field, text)| {
        it.bytes(field, text)
    })
}

fn maybe(message: Message, field: u64, value: Option<Message>) -> Message {
    match value {
        Some(value) => message.bytes(field, value),
        None => message,
    }
}

fn time(value: &Value) -> Option<Message> {
    let time: Timestamp = text(value).parse().ok()?;
    let nanos = i64::from(time.subsec_nanosecond());
    let time = Message::default().number(1, time.as_second().cast_unsigned());
    Some(time.number(2, nanos.cast_unsigned()))
}
