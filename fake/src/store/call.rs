//! A request, as an API server understands it.

use crate::{kinds::Kind, refusal::Refusal};
use http::{Method, header, request::Parts};
use serde_json::{Value, json};
use std::fmt;

/// The content types of patches.
const PATCHES: [(&str, Verb); 3] = [
    ("application/json-patch+json", Verb::Patch(Patch::Json)),
    ("application/merge-patch+json", Verb::Patch(Patch::Merge)),
    ("application/apply-patch+yaml", Verb::Patch(Patch::Apply)),
];

/// A way to patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// The fields that a manager wants and owns.
    Apply,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads an object.
    Get,
    /// Reads the objects that match.
    List,
    /// Follows the objects that match.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch(Patch),
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// The word for it in a role.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
        }
    }

    /// Whether it changes something.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What is to be done.
    pub verb: Verb,
    /// Such as `deployments`; the whole path for what is no resource, such as `/apis`.
    pub plural: String,
    /// Such as `apps/v1`.
    pub group_version: String,
    /// Empty for all, and for kinds without.
    pub namespace: String,
    /// Empty if it is about no single object.
    pub name: String,
    /// `status`, `scale` or empty.
    pub sub: String,
    /// The parameters, without escapes.
    pub query: Vec<(String, String)>,
    /// Whether only metadata is asked for.
    pub only_metadata: bool,
    /// Who writes.
    pub manager: String,
    /// The object, patch or options; `Null` if there is none.
    pub body: Value,
}

impl Call {
    /// A call of an object, without a body.
    pub fn new(verb: Verb, key: &super::Key) -> Self {
        let kind = Kind::find(&key.plural);
        Self {
            verb,
            plural: key.plural.clone(),
            group_version: kind.map_or_else(String::new, |kind| kind.group_version()),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            sub: String::new(),
            query: Vec::new(),
            only_metadata: false,
            manager: "somebody".to_owned(),
            body: Value::Null,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    ///
    /// If no API server would take it: its method, its content type or its body.
    pub fn parse(head: &Parts, body: &[u8]) -> Result<Self, Refusal> {
        let path = head.uri.path();
        let header = |name| head.headers.get(name).and_then(|it| it.to_str().ok());
        let query = head.uri.query().unwrap_or_default().split('&');
        let query = query.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        let query: Vec<_> = query.collect();
        let agent = header(header::USER_AGENT).unwrap_or("unknown");
        let agent = agent.split(['/', ' ']).next().unwrap_or_default();
        let manager = query.iter().find(|(name, _)| name == "fieldManager");
        let mut call = Self {
            verb: Verb::Get,
            plural: path.to_owned(),
            group_version: String::new(),
            namespace: String::new(),
            name: String::new(),
            sub: String::new(),
            only_metadata: header(header::ACCEPT)
                .is_some_and(|accept| accept.contains("as=PartialObjectMetadata")),
            manager: manager.map_or(agent, |(_, manager)| manager).to_owned(),
            query,
            body: Value::Null,
        };
        if !call.place(path) {
            return Ok(call);
        }
        call.verb = call.verb_of(&head.method, header(header::CONTENT_TYPE))?;
        if call.verb == Verb::Patch(Patch::Apply) && call.parameter("fieldManager").is_none() {
            let text = "Required value: is required for apply patch";
            let message = format!("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {text}");
            return Err(Refusal {
                details: json!({"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [
                    {"reason": "FieldValueRequired", "message": text, "field": "fieldManager"},
                ]}),
                ..Refusal::new(422, message)
            });
        }
        if !body.is_empty() {
            call.body = serde_json::from_slice(body)
                .map_err(|error| Refusal::new(400, format!("the body cannot be read: {error}")))?;
        }
        Ok(call)
    }

    /// Where the path leads; false if that is no resource.
    fn place(&mut self, path: &str) -> bool {
        let mut segments = path.trim_matches('/').split('/');
        let group_version = match (segments.next(), segments.next(), segments.clone().next()) {
            (Some("api"), Some(version), _) => version.to_owned(),
            (Some("apis"), Some(group), Some(version)) => {
                segments.next();
                format!("{group}/{version}")
            }
            _ => return false,
        };
        let mut rest: Vec<&str> = segments.collect();
        if let ["namespaces", namespace, _, ..] = *rest
            && !matches!(*rest, ["namespaces", _, "status" | "finalize"])
        {
            self.namespace = namespace.to_owned();
            rest.drain(..2);
        }
        let Some(plural) = rest.first() else {
            return false;
        };
        self.group_version = group_version;
        self.plural = (*plural).to_owned();
        self.name = rest.get(1).copied().unwrap_or_default().to_owned();
        self.sub = rest.get(2).copied().unwrap_or_default().to_owned();
        true
    }

    fn verb_of(&self, method: &Method, content_type: Option<&str>) -> Result<Verb, Refusal> {
        let content_type = content_type.unwrap_or("application/json");
        let content_type = content_type.split(';').next().unwrap_or_default();
        let is_custom = Kind::find(&self.plural).is_some_and(|kind| kind.custom);
        let unsupported = || match is_custom {
            true => {
                let accepted = PATCHES.map(|(name, _)| name).join(", ");
                let text =
                    "the body of the request was in an unknown format - accepted media types";
                Refusal::new(415, format!("{text} include: {accepted}"))
            }
            false => Refusal {
                details: json!({}),
                ..Refusal::new(415, "415: Unsupported Media Type")
            },
        };
        Ok(match (method.as_str(), self.name.is_empty()) {
            ("GET", true) if self.is("watch") => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("DELETE", false) => Verb::Delete,
            ("PATCH", false) => {
                let known = PATCHES.iter().find(|(name, _)| *name == content_type);
                known.ok_or_else(unsupported)?.1
            }
            ("POST", true) | ("PUT", false) if content_type != "application/json" => {
                return Err(unsupported());
            }
            ("POST", true) => Verb::Create,
            ("PUT", false) => Verb::Update,
            _ => return Err(Refusal::unknown(405)),
        })
    }

    /// A parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is `true` or `1`.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self.parameter(name), Some("true" | "1"))
    }

    /// The parameter `resourceVersion` as a number, 0 if it is missing.
    pub(crate) fn revision(&self) -> u64 {
        let version = self.parameter("resourceVersion");
        version.and_then(|it| it.parse().ok()).unwrap_or_default()
    }

    /// `patch deployments/scale a/kcm` or the like.
    pub fn brief(&self) -> String {
        let place = match (&*self.namespace, &*self.name) {
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        format!("{} {} {place}", self.verb.word(), self.resource())
            .trim_end()
            .to_owned()
    }

    /// `deployments` or `deployments/scale`, as a role names it.
    pub fn resource(&self) -> String {
        match &*self.sub {
            "" => self.plural.clone(),
            sub => format!("{}/{sub}", self.plural),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.brief())
    }
}

/// Undoes the escapes of a query.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        let digits = rest.as_slice().first_chunk::<2>();
        let escaped = digits.and_then(|it| std::str::from_utf8(it).ok());
        let escaped = escaped.and_then(|it| u8::from_str_radix(it, 16).ok());
        match (byte, escaped) {
            (b'+', _) => bytes.push(b' '),
            (b'%', Some(escaped)) => {
                bytes.push(escaped);
                rest.nth(1);
            }
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
