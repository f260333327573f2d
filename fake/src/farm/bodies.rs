//! What the API server of a shoot answers: lists in either encoding, and what is no list.

use super::{framing::Body, wire};
use crate::refusal::Refusal;
use serde_json::json;

/// The content type of this encoding.
const JSON: &str = "application/json";

/// How a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// What `/version` answers.
pub(super) fn version() -> Body {
    let version = json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "goVersion": "go1.26.8",
        "compiler": "gc", "platform": "linux/amd64",
    });
    Body::new(JSON, version.to_string().into_bytes())
}

/// What `/readyz` answers.
pub(super) fn ready() -> Body {
    Body::new("text/plain; charset=utf-8", b"ok".to_vec())
}

/// What a proxy answers that has lost its way.
pub(super) fn html() -> Body {
    let page = b"<!DOCTYPE html><html><body>Sign in</body></html>";
    Body::new("text/html", page.to_vec())
}

/// What a request that is refused answers: in JSON whatever is asked for.
pub(super) fn refusal(code: u16) -> Body {
    Body::new(JSON, Refusal::new(code, "the shoot is only played").body())
}

/// A list of encoded items, which kube-apiserver writes one by one.
pub(super) fn list(
    encoding: Encoding,
    version: &str,
    kind: &str,
    revision: u64,
    items: impl Iterator<Item = Vec<u8>>,
) -> Body {
    if encoding == Encoding::Protobuf {
        let metadata = wire::ListMeta {
            resource_version: revision.to_string(),
            ..wire::ListMeta::default()
        };
        return wire::list(version, kind, metadata, items.collect());
    }
    let head = format!(
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"{revision}"}},"items":["#
    );
    let mut body = Body::new(JSON, head.into_bytes());
    for (place, item) in items.enumerate() {
        if place > 0 {
            body.bytes.push(b',');
        }
        body.writes.push(body.bytes.len());
        body.bytes.extend(item);
        body.writes.push(body.bytes.len());
    }
    body.bytes.extend_from_slice(b"]}\n");
    body
}
