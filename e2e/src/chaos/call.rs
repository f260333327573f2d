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

#[cfg(test)]
mod tests {
    use super::*;
    use dependency_watchdog::prober::plan::MARK;
    use serde_json::{Value, json};

    fn says(method: Method, uri: &'static str, body: &Value) -> String {
        let call = Call::new(&method, &Uri::from_static(uri));
        assert!(call.is_write && !call.is_watch);
        call.says(&method, body.to_string().as_bytes())
    }

    #[test]
    fn writes_have_names() {
        let kcm = "/apis/apps/v1/namespaces/n/deployments/kcm?fieldManager=m";
        let scale = "/apis/druid.gardener.cloud/v1alpha1/namespaces/n/etcds/e/scale";
        let health = "/apis/dependency-watchdog.gardener.cloud/v1alpha1/clusterhealths/n";
        let events = "/apis/events.k8s.io/v1/namespaces/default/events";
        let annotated = |mark: Value| json!({"metadata": {"annotations": {MARK: mark}}});
        let down = json!([
            {"op": "test", "path": "/spec/replicas", "value": 3},
            {"op": "replace", "path": "/spec/replicas", "value": 0},
        ]);
        for (uri, body, expected) in [
            (
                kcm,
                json!({"spec": {"replicas": 0}}),
                "deployments/kcm:down",
            ),
            (kcm, json!({"spec": {"replicas": 2}}), "deployments/kcm:up"),
            (kcm, annotated(json!("")), "deployments/kcm:mark"),
            (kcm, annotated(Value::Null), "deployments/kcm:unmark"),
            (scale, down, "etcds/scale/e:down"),
            (health, json!({}), "clusterhealths:create"),
            (
                events,
                json!({"reason": "Protected", "regarding": {"kind": "ClusterHealth"}}),
                "events:Protected-ClusterHealth",
            ),
        ] {
            assert_eq!(says(Method::PATCH, uri, &body), expected);
        }
        assert_eq!(
            says(Method::DELETE, health, &Value::Null),
            "clusterhealths:delete"
        );
    }

    #[test]
    fn reads_are_told_apart() {
        for (uri, resource, name, is_watch) in [
            ("/api/v1/secrets?watch=true", "secrets", None, true),
            ("/api/v1/namespaces/n/pods", "pods", None, false),
            (
                "/apis/apps/v1/namespaces/n/deployments/d",
                "deployments",
                Some("d"),
                false,
            ),
            ("/version", "", None, false),
        ] {
            let call = Call::new(&Method::GET, &uri.parse().unwrap());
            assert_eq!(call.resource, resource);
            assert_eq!(call.name.as_deref(), name);
            assert_eq!((call.is_write, call.is_watch), (false, is_watch));
        }
        let reviews = Uri::from_static("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        assert!(!Call::new(&Method::POST, &reviews).is_write);
    }
}
