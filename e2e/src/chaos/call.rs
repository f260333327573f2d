//! A request of the operator, as the proxy understands it.

use fake::chaos::says;
use http::{Method, Uri};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The plural of the kind, with its subresource if any.
    pub(super) resource: String,
    /// The object's name, unless it is a list, a watch, or the creation of one.
    pub(super) name: Option<String>,
    /// Whether it changes anything.
    pub(super) is_write: bool,
    /// Whether it is a watch.
    pub(super) is_watch: bool,
}

impl Call {
    pub(super) fn new(method: &Method, uri: &Uri) -> Self {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        // /api/VERSION or /apis/GROUP/VERSION
        let prefix = match parts.next() {
            Some("apis") => 2,
            _ => 1,
        };
        let rest: Vec<&str> = parts.skip(prefix).collect();
        let rest = match rest.as_slice() {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (resource, name) = match rest {
            [] => (String::new(), None),
            [resource] => ((*resource).to_owned(), None),
            [resource, name] => ((*resource).to_owned(), Some((*name).to_owned())),
            [resource, name, sub, ..] => (format!("{resource}/{sub}"), Some((*name).to_owned())),
        };
        let query = uri.query().unwrap_or_default();
        Self {
            // A review of rights is asked for by a POST, and changes nothing.
            is_write: method != Method::GET && !resource.ends_with("reviews"),
            resource,
            name,
            is_watch: query.split('&').any(|pair| pair == "watch=true"),
        }
    }

    /// What a write changes, in few words, and the same in every run.
    pub(super) fn says(&self, method: &Method, body: &[u8]) -> String {
        let body = serde_json::from_slice(body).unwrap_or_default();
        let name = self.name.as_deref().unwrap_or_default();
        says(method == Method::DELETE, &self.resource, name, &body)
    }
}
