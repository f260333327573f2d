//! What a user asked of an API server, from its audit log: who wrote what, when, and how often.

use crate::apiserver::User;
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::{fs, path::Path};

/// The log's name in the directory of its API server.
pub(crate) const LOG: &str = "audit.log";

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the server received it, by the clock of this machine.
    pub received: Timestamp,
    /// `get`, `list`, `watch`, `patch`, …
    pub verb: String,
    /// The path with its query.
    pub uri: String,
    /// The plural of the kind, with its subresource if any: `deployments/scale`. Empty for a
    /// request for no object (`/version`).
    pub resource: String,
    /// The namespace, if any.
    pub namespace: String,
    /// The object's name, if any.
    pub name: String,
    /// The body of a deletion: its DeleteOptions, if it had any. Null for all else.
    pub options: Value,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl Request {
    /// Whether it changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// Logs the requests of these users, of bodies only those of deletions, which say under what
/// conditions; and nobody else's.
pub(crate) fn policy(users: &[User]) -> String {
    let names: Vec<String> = users
        .iter()
        .map(|user| format!("{:?}", user.name))
        .collect();
    let recorded = if names.is_empty() {
        String::new()
    } else {
        let names = names.join(", ");
        format!(
            "- {{level: Request, verbs: [delete], users: [{names}]}}
- {{level: Metadata, users: [{names}]}}
"
        )
    };
    format!(
        "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
{recorded}- level: None
"
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: Who,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    request_object: Value,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
pub(crate) struct Who {
    #[serde(default)]
    pub(crate) uid: String,
    pub(crate) username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The requests of those users that are asked for.
pub(crate) fn requests(directory: &Path, of: impl Fn(&Who) -> bool) -> Result<Vec<Request>> {
    let path = directory.join(LOG);
    let text = fs::read_to_string(&path);
    parse(
        &text.with_context(|| format!("cannot read {}", path.display()))?,
        of,
    )
}

fn parse(log: &str, of: impl Fn(&Who) -> bool) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    // Text after the last newline is an event that is being written right now.
    let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
    for line in complete.lines() {
        let event: Event = serde_json::from_str(line)
            .with_context(|| format!("not an event of an audit log: {line}"))?;
        // A watch is answered when it starts, and again when it ends.
        if !of(&event.user) || (event.verb == "watch" && event.stage == "ResponseComplete") {
            continue;
        }
        let ObjectRef {
            mut resource,
            subresource,
            namespace,
            name,
        } = event.object_ref;
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        requests.push(Request {
            received: event.request_received_timestamp,
            verb: event.verb,
            uri: event.request_uri,
            resource,
            namespace,
            name,
            options: event.request_object,
            code: event.response_status.code,
        });
    }
    Ok(requests)
}
