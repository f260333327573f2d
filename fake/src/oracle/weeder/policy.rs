//! What a version of a WeedPolicy asks for.

use super::pod::Pod;
use jiff::SignedDuration;
use serde_json::Value;

/// A version of a WeedPolicy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy<'a>(pub(super) &'a Value);

impl<'a> Policy<'a> {
    pub(super) fn name(self) -> &'a str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Whether services are watched for it.
    pub(super) fn is_active(self) -> bool {
        self.0["spec"]["suspend"] != true && self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Whether it deletes pods.
    pub(super) fn is_in_force(self) -> bool {
        self.is_active() && self.0["spec"]["mode"] == "Enforce"
    }

    /// Whether it is about a service.
    pub(super) fn names(self, service: &str) -> bool {
        self.services().any(|it| it == service)
    }

    /// Whether it does in a namespace.
    pub(super) fn selects(self, namespace: &Value) -> bool {
        let metadata = &namespace["metadata"];
        let selector = &self.0["spec"]["namespaceSelector"];
        metadata["deletionTimestamp"].is_null() && matches(selector, &metadata["labels"])
    }

    /// The services that it is about.
    pub(super) fn services(self) -> impl Iterator<Item = &'a str> {
        self.entries().map(|(service, _)| service.as_str())
    }

    fn entries(self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let services = self.0["spec"]["servicesAndDependantSelectors"].as_object();
        services.into_iter().flatten()
    }

    /// The services that a pod needs by it.
    pub(super) fn claims(self, pod: Pod<'a>) -> impl Iterator<Item = &'a str> {
        let claiming = self.entries().filter(move |(_, it)| {
            let selectors = it["podSelectors"].as_array().into_iter();
            selectors.flatten().any(|it| matches(it, pod.labels()))
        });
        claiming.map(|(service, _)| service.as_str())
    }

    /// How long after a service has become ready; none if that cannot be read.
    pub(super) fn lasts(self) -> Option<SignedDuration> {
        match &self.0["spec"]["watchDuration"] {
            Value::Null => Some(SignedDuration::from_mins(5)),
            text => text.as_str()?.parse().ok(),
        }
    }
}

/// Whether a label selector matches, as all of its requirements do.
fn matches(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut equal = equal.map(|(key, value)| labels[key] == *value);
    let expressions = selector["matchExpressions"].as_array();
    let mut expressions = expressions.into_iter().flatten().map(|it| {
        let label = it["key"].as_str().map_or(&Value::Null, |key| &labels[key]);
        let values = it["values"].as_array();
        let is_one = values.is_some_and(|it| it.contains(label));
        match it["operator"].as_str() {
            Some("In") => is_one,
            Some("NotIn") => !is_one,
            Some("Exists") => !label.is_null(),
            Some("DoesNotExist") => label.is_null(),
            _ => false,
        }
    });
    equal.all(|it| it) && expressions.all(|it| it)
}
