//! What an API server says instead of an answer.

use crate::kinds::Kind;
use serde_json::{Value, json};

/// A refusal, as it stands in a `Status`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The status code.
    pub code: u16,
    /// The reason for programs; empty for a page of plain text.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// The details; `Null` if there are none.
    pub details: Value,
    /// The seconds to wait before the next try.
    pub retry_after: Option<u32>,
    /// The token with which a list that expired can go on.
    pub resume: Option<String>,
}

impl Refusal {
    /// A refusal with this code, the reason that belongs to it, and no details.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason(code),
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            resume: None,
        }
    }

    /// A path that is not served.
    pub fn unserved() -> Self {
        Self {
            reason: "",
            ..Self::new(404, "404 page not found\n")
        }
    }

    /// What the router of the built-in kinds does not know: `code` is 404 or 405.
    pub(crate) fn unknown(code: u16) -> Self {
        let message = match code {
            404 => "the server could not find the requested resource",
            _ => "the server does not allow this method on the requested resource",
        };
        Self {
            details: json!({}),
            ..Self::new(code, message)
        }
    }

    /// The `Status`, or the plain text, that is the body of the answer.
    pub fn body(&self) -> Vec<u8> {
        if self.reason.is_empty() {
            return self.message.clone().into_bytes();
        }
        self.status().to_string().into_bytes()
    }

    /// The `Status`.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(token) = &self.resume {
            status["metadata"]["continue"] = token.clone().into();
        }
        if let Some(fields) = status.as_object_mut() {
            if !self.details.is_null() {
                fields.insert("details".into(), self.details.clone());
            }
            if let Some(seconds) = self.retry_after {
                let details = fields.entry("details").or_insert_with(|| json!({}));
                if let Some(details) = details.as_object_mut() {
                    details.insert("retryAfterSeconds".into(), seconds.into());
                }
            }
        }
        status
    }

    /// A refusal that is about an object of a kind.
    fn of(kind: &Kind, name: &str, code: u16, message: String) -> Self {
        let mut details = json!({"name": name, "kind": kind.plural});
        if !kind.group.is_empty() {
            details["group"] = kind.group.into();
        }
        Self {
            details,
            ..Self::new(code, message)
        }
    }

    /// An object that is not there.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::of(kind, name, 404, message)
    }

    /// An object that is there already.
    pub(crate) fn exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Self {
            reason: "AlreadyExists",
            ..Self::of(kind, name, 409, message)
        }
    }

    /// A precondition that does not hold.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let of = kind.qualified();
        let message = format!("Operation cannot be fulfilled on {of} {name:?}: {why}");
        Self::of(kind, name, 409, message)
    }

    /// The precondition of a deletion that does not hold; the API server names the kind there.
    pub(crate) fn other_record(kind: &Kind, name: &str, why: &str) -> Self {
        let of = kind.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {of} {name:?}: {why}");
        let mut refusal = Self::of(kind, name, 409, message);
        refusal.details["kind"] = kind.kind.into();
        refusal
    }

    /// A field that is not as it must be: `reason` is the cause for programs, `text` begins with the
    /// same in words, such as `Forbidden: ...`.
    pub(crate) fn invalid(kind: &Kind, name: &str, field: &str, reason: &str, text: &str) -> Self {
        let of = kind.qualified_kind();
        let message = format!("{of} {name:?} is invalid: {field}: {text}");
        let mut refusal = Self::of(kind, name, 422, message);
        refusal.details["kind"] = kind.kind.into();
        refusal.details["causes"] = json!([{"reason": reason, "message": text, "field": field}]);
        refusal
    }

    /// A PUT that names no resourceVersion; the API server names the resource there.
    pub(crate) fn unversioned(kind: &Kind, name: &str) -> Self {
        let (field, text) = (
            "metadata.resourceVersion",
            "Invalid value: 0: must be specified for an update",
        );
        let mut refusal = Self::invalid(kind, name, field, "FieldValueInvalid", text);
        refusal.message = format!("{} {name:?} is invalid: {field}: {text}", kind.qualified());
        refusal.details["kind"] = kind.plural.into();
        refusal
    }

    /// A version that is not in the log any more.
    pub(crate) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(410, format!("too old resource version: {asked} ({oldest})"))
    }
}

/// The reason that API servers give beside a status code.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}
