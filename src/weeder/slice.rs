//! A slim view of `EndpointSlice` (`discovery.k8s.io/v1`): whose it is, and whether an endpoint is
//! ready.
//!
//! A slice holds up to a thousand endpoints with addresses, zones and targets. One bit of all that
//! matters; the rest is dropped while decoding.

use k8s_openapi::{api::discovery::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// The label with the name of the slice's Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// What is read of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Deserialize, Resource)]
#[serde(from = "Received")]
#[resource(inherit = "v1::EndpointSlice")]
pub struct EndpointSlice {
    /// Name, namespace and resourceVersion.
    pub metadata: ObjectMeta,
    /// The label [`SERVICE_LABEL`]; `None` for a slice that belongs to no Service.
    pub service: Option<String>,
    /// Whether at least one of its endpoints is ready.
    pub ready: bool,
}

/// An EndpointSlice as it is written. Every field may be absent or null: one odd object must not
/// break the watch.
#[derive(Deserialize)]
struct Received {
    metadata: Meta,
    endpoints: Option<Vec<Option<Endpoint>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    labels: Option<Labels>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    service: Option<String>,
}

#[derive(Deserialize)]
struct Endpoint {
    conditions: Option<Conditions>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

impl Endpoint {
    /// By the API's definition an unknown `ready` is to be taken for true. A terminating endpoint
    /// can be called ready, where a Service publishes all addresses, but it is about to go.
    fn is_ready(&self) -> bool {
        let Conditions { ready, terminating } = match &self.conditions {
            Some(conditions) => conditions,
            None => &Conditions::default(),
        };
        *ready != Some(false) && *terminating != Some(true)
    }
}

impl From<Received> for EndpointSlice {
    fn from(received: Received) -> Self {
        let meta = received.metadata;
        let service = meta.labels.and_then(|labels| labels.service);
        Self {
            metadata: ObjectMeta {
                name: meta.name,
                namespace: meta.namespace,
                resource_version: meta.resource_version,
                ..ObjectMeta::default()
            },
            service: service.filter(|service| !service.is_empty()),
            ready: received
                .endpoints
                .iter()
                .flatten()
                .flatten()
                .any(Endpoint::is_ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::ready(json!([{"conditions": {"ready": true}}]), true)]
    #[case::not_ready(json!([{"conditions": {"ready": false, "serving": true}}]), false)]
    #[case::unset_means_ready(json!([{"conditions": {}}]), true)]
    #[case::null_means_ready(json!([{"conditions": {"ready": null, "terminating": null}}]), true)]
    #[case::no_conditions(json!([{"addresses": ["10.0.0.1"]}]), true)]
    #[case::null_conditions(json!([{"conditions": null}]), true)]
    #[case::terminating(json!([{"conditions": {"ready": true, "terminating": true}}]), false)]
    #[case::terminating_and_unset(json!([{"conditions": {"terminating": true}}]), false)]
    #[case::one_of_several(
        json!([{"conditions": {"ready": false}}, {"conditions": {"ready": true}}]),
        true
    )]
    #[case::no_endpoint(json!([]), false)]
    #[case::null(json!(null), false)]
    #[case::null_endpoint(json!([null]), false)]
    fn readiness(#[case] endpoints: Value, #[case] expected: bool) {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "etcd-x", "namespace": "shoot--a--b"},
            "addressType": "IPv4",
            "endpoints": endpoints,
        }))
        .unwrap();
        assert_eq!(slice.ready, expected);
    }

    #[rstest]
    #[case::labelled(json!({"kubernetes.io/service-name": "etcd", "a": "b"}), Some("etcd"))]
    #[case::other_labels(json!({"a": "b"}), None)]
    #[case::empty(json!({"kubernetes.io/service-name": ""}), None)]
    #[case::null(json!({"kubernetes.io/service-name": null}), None)]
    #[case::no_labels(json!(null), None)]
    fn whose_it_is(#[case] labels: Value, #[case] expected: Option<&str>) {
        let list: ObjectList<EndpointSlice> = serde_json::from_value(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSliceList",
            "metadata": {"resourceVersion": "42"},
            "items": [{"metadata": {"name": "a", "resourceVersion": "7", "labels": labels}}],
        }))
        .unwrap();
        let [slice] = &list.items[..] else {
            panic!("{list:?}");
        };
        assert_eq!(slice.service.as_deref(), expected);
        assert_eq!(slice.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(slice.metadata.labels, None);
    }

    #[test]
    fn the_label_is_the_one_that_is_decoded() {
        let slice: EndpointSlice =
            serde_json::from_value(json!({"metadata": {"labels": {SERVICE_LABEL: "etcd"}}}))
                .unwrap();
        assert_eq!(slice.service.as_deref(), Some("etcd"));
    }
}
