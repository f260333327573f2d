//! A slim view of `EndpointSlice` (`discovery.k8s.io/v1`): whose it is, whether an endpoint is ready, and
//! since when it has not changed.
//!
//! A slice holds up to a thousand endpoints with addresses, zones and targets. One bit of all that
//! matters; the rest is dropped while decoding.

use k8s_openapi::{
    api::discovery::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::Resource;
use serde::Deserialize;

/// The label with the name of the slice's Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The annotation with the time at which a pod became ready or not ready, or the Service was created, and
/// the slice was changed for that. kube-controller-manager removes it when it changes the slice for another
/// reason, such as a pod that is deleted (`addTriggerTimeAnnotation` in k8s.io/endpointslice).
pub const CHANGED_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

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
    /// The slice has not changed since, by [`CHANGED_ANNOTATION`]; `None` if that is not known.
    pub unchanged_since: Option<Timestamp>,
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
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    service: Option<String>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    changed: Option<String>,
}

impl Meta {
    fn unchanged_since(&self) -> Option<Timestamp> {
        self.annotations.as_ref()?.changed.as_deref()?.parse().ok()
    }
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
        let unchanged_since = meta.unchanged_since();
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
            unchanged_since,
        }
    }
}

#[cfg(test)]
mod tests {

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
    #[case::a_pod_became_ready(Some("2026-01-01T13:00:00Z"), Some("2026-01-01T13:00:00Z"))]
    #[case::with_a_fraction(Some("2026-01-01T13:00:00.5Z"), Some("2026-01-01T13:00:00.5Z"))]
    #[case::in_another_zone(Some("2026-01-01T15:00:00+02:00"), Some("2026-01-01T13:00:00Z"))]
    #[case::another_reason(None, None)]
    #[case::no_time(Some("yesterday"), None)]
    #[case::empty(Some(""), None)]
    #[case::beyond_all_times(Some("99999-01-01T00:00:00Z"), None)]
    fn since_when_it_is_unchanged(
        #[case] annotation: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        let slice: EndpointSlice = serde_json::from_value(json!({"metadata": {
            "annotations": {CHANGED_ANNOTATION: annotation, "a": "b"},
        }}))
        .unwrap();
        let expected = expected.map(|it| it.parse().unwrap());
        assert_eq!(slice.unchanged_since, expected);
        assert_eq!(slice.metadata.annotations, None);
    }
}
