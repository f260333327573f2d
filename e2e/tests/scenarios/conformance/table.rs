//! Requests as data, and their answers without what differs from server to server.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The requests of `requests.yaml`.
#[derive(Deserialize)]
pub(super) struct Table {
    /// The paths that requests begin with, by name.
    places: BTreeMap<String, String>,
    /// The requests in their order.
    pub(super) requests: Vec<Request>,
}

/// A request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The method, and the path with its query.
    pub(super) send: String,
    /// The content type of a patch.
    r#type: Option<String>,
    /// `metadata`, if nothing else is to be answered.
    r#as: Option<String>,
    /// The name under which the answer is remembered.
    keep: Option<String>,
    body: Option<Value>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) code: u16,
    /// The header, in seconds.
    pub(super) retry_after: Option<String>,
    /// The object, the events of a watch, or a text.
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn new(code: u16, retry_after: Option<String>, body: &[u8]) -> Self {
        let read = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
        let lines = || {
            body.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
        };
        let events = || lines().map(read).collect::<Option<Vec<Value>>>();
        let text = || json!(String::from_utf8_lossy(body));
        let body = read(body)
            .or_else(|| events().map(Value::from))
            .unwrap_or_else(text);
        Self {
            code,
            retry_after,
            body,
        }
    }
}

/// One server's side of the conversation: what was remembered, and the names that its
/// resourceVersions and uids have here.
#[derive(Default)]
pub(super) struct Side {
    kept: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
}

impl Side {
    /// The request as it goes to this server.
    pub(super) fn request(&self, table: &Table, request: &Request) -> http::Request<Vec<u8>> {
        let send = self.fill(&request.send);
        let (method, path) = send.split_once(' ').unwrap_or_default();
        let end = path.find(['/', '?']).unwrap_or(path.len());
        let (place, rest) = path.split_at(end);
        let path = match table.places.get(place) {
            Some(place) => format!("{place}{rest}"),
            None => path.to_owned(),
        };
        let content_type = match request.r#type.as_deref() {
            None => "application/json",
            Some("merge") => "application/merge-patch+json",
            Some("json") => "application/json-patch+json",
            Some("apply") => "application/apply-patch+yaml",
            Some(other) => other,
        };
        let is_list = method == "GET" && !rest.starts_with('/') && !rest.contains("watch=true");
        let accept = match (&request.r#as, is_list) {
            (None, _) => "application/json",
            (_, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (_, true) => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let body = request
            .body
            .as_ref()
            .map(|body| self.fill(&body.to_string()));
        let mut made = http::Request::new(body.unwrap_or_default().into_bytes());
        *made.method_mut() = method.parse().unwrap_or_default();
        *made.uri_mut() = path.parse().unwrap_or_default();
        let headers = made.headers_mut();
        for (name, value) in [("content-type", content_type), ("accept", accept)] {
            if let Ok(value) = value.parse() {
                headers.insert(name, value);
            }
        }
        made
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.kept {
            text = text.replace(name, value);
        }
        text
    }

    /// What the answer comes to: without times, and with names for what no other server has.
    pub(super) fn plain(&mut self, request: &Request, mut answer: Answer) -> Answer {
        if let Some(keep) = &request.keep {
            let fields = [
                ("rv", "resourceVersion"),
                ("uid", "uid"),
                ("continue", "continue"),
            ];
            for (short, field) in fields {
                let value = answer.body.pointer(&format!("/metadata/{field}"));
                if let Some(value) = value.and_then(Value::as_str) {
                    self.kept
                        .insert(format!("${keep}.{short}"), value.to_owned());
                }
            }
        }
        self.rename(&mut answer.body);
        answer
    }

    fn rename(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.rename_fields(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::String(text) if is_time(text) => *text = "time".to_owned(),
            Value::String(text) => {
                for (there, here) in &self.names {
                    if there.len() > 20 {
                        *text = text.replace(there, here);
                    }
                }
                // Every server has a prefix of its own in etcd.
                if let Some((before, key)) = text.split_once(" Key: /")
                    && let Some((_, key)) = key.split_once('/')
                {
                    *text = format!("{before} Key: /{key}");
                }
                if text.to_lowercase().contains("resource version")
                    || text.contains("ResourceVersion in")
                {
                    *text = text
                        .split(|it: char| it.is_ascii_digit())
                        .collect::<Vec<_>>()
                        .join("");
                }
            }
            _ => {}
        }
    }

    fn rename_fields(&mut self, fields: &mut Map<String, Value>) {
        // What a list or a bookmark is as new as depends on who else writes.
        let is_bookmark = fields.get("type") == Some(&json!("BOOKMARK"));
        for (name, is_of_all) in [
            ("metadata", fields.contains_key("items")),
            ("object", is_bookmark),
        ] {
            let version = match fields.get_mut(name).filter(|_| is_of_all) {
                Some(object) if name == "object" => object.pointer_mut("/metadata/resourceVersion"),
                Some(metadata) => metadata.get_mut("resourceVersion"),
                None => None,
            };
            if let Some(version) = version {
                *version = json!(null);
            }
        }
        if let Some(Value::Array(owners)) = fields.get_mut("managedFields") {
            let part = |owner: &Value, name: &str| owner.get(name).map(Value::to_string);
            owners.sort_by_key(|owner| {
                ["manager", "operation", "subresource"].map(|name| part(owner, name))
            });
        }
        // Kinds of CustomResourceDefinitions have it empty where others lack it.
        if fields.get("continue") == Some(&json!("")) {
            fields.remove("continue");
        }
        let known = self.names.len();
        for (name, value) in fields.iter_mut() {
            match (&**name, &*value) {
                ("resourceVersion" | "uid", Value::String(text)) => {
                    let here = self.names.entry(text.clone());
                    *value = json!(here.or_insert_with(|| format!("{name} {known}")));
                }
                ("continue", Value::String(_)) => *value = json!("token"),
                _ => self.rename(value),
            }
        }
    }
}

fn is_time(text: &str) -> bool {
    let shape = text
        .bytes()
        .map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    let shape: Vec<u8> = shape.collect();
    shape.starts_with(b"0000-00-00T00:00:00") && shape.ends_with(b"Z")
}

/// The differences of two values: where, and what each has.
pub(super) fn differences(at: &str, real: &Value, fake: &Value, found: &mut Vec<String>) {
    match (real, fake) {
        _ if real == fake => {}
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let part = |of: &Map<String, Value>| of.get(name).cloned().unwrap_or_default();
                differences(&format!("{at}/{name}"), &part(one), &part(other), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{at}/{index}"), one, other, found);
            }
        }
        _ => found.push(format!("{at}: {real} there, {fake} here")),
    }
}
