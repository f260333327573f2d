//! Services by their EndpointSlices: which are ready, and since when.
//!
//! A service is ready if an endpoint of any of its slices is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointSlice},
    jiff::Timestamp,
};
use tokio::time::Instant;

use crate::util::now::Now;

/// The label with the name of the slice's Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The annotation with the time at which a pod became ready or not ready, or the Service was created, and
/// the slice was changed for that. kube-controller-manager removes it when it changes the slice for another
/// reason, such as a pod that is deleted (`addTriggerTimeAnnotation` in k8s.io/endpointslice).
pub const CHANGED_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What counts of an EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) namespace: Arc<str>,
    pub(super) name: Box<str>,
    /// The label [`SERVICE_LABEL`]; empty for a slice that belongs to no Service.
    pub(super) service: Arc<str>,
    version: Box<str>,
    /// Whether at least one of its endpoints is ready.
    ready: bool,
    /// The slice has not changed since, by [`CHANGED_ANNOTATION`]; `None` if that is not known.
    unchanged_since: Option<Timestamp>,
}

impl Slice {
    pub(super) fn new(slice: &EndpointSlice) -> Self {
        let metadata = &slice.metadata;
        let label = metadata
            .labels
            .as_ref()
            .and_then(|it| it.get(SERVICE_LABEL));
        let changed = metadata.annotations.as_ref();
        let changed = changed.and_then(|it| it.get(CHANGED_ANNOTATION)?.parse().ok());
        Self {
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
            service: label.map(String::as_str).unwrap_or_default().into(),
            version: metadata
                .resource_version
                .as_deref()
                .unwrap_or_default()
                .into(),
            ready: slice.endpoints.iter().any(is_ready),
            unchanged_since: changed,
        }
    }
}

/// Returns whether an endpoint is ready. By the API's definition an unknown `ready` is to be taken for true. A
/// terminating endpoint can be called ready, where a Service publishes all addresses, but it is about to go.
fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.is_none_or(|it| it.ready != Some(false) && it.terminating != Some(true))
}

/// A service with at least one slice.
#[derive(Debug, Default)]
pub(super) struct Service {
    slices: BTreeMap<Box<str>, Slice>,
    /// Since when it is ready, if it is.
    pub(super) ready: Option<Ready>,
}

/// Since when a service is ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ready {
    /// When it was first seen so.
    pub(super) seen: Instant,
    /// For how long it was ready by then, at most; `None` if nothing says so.
    before: Option<Duration>,
}

impl Ready {
    /// Returns the end of a window that lasts for so long from the moment at which the service became ready;
    /// `None` if it has none.
    pub(super) fn end(self, lasts: Duration) -> Option<Instant> {
        self.seen.checked_add(lasts.checked_sub(self.before?)?)
    }
}

impl Service {
    /// Returns whether it has no slice.
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Puts a slice in the place of the one of this name, as it is seen to change.
    pub(super) fn put(&mut self, name: &str, slice: Option<Slice>, now: Instant) {
        match slice {
            Some(slice) => self.slices.insert(name.into(), slice),
            None => self.slices.remove(name),
        };
        let just_now = Ready {
            seen: now,
            before: Some(Duration::ZERO),
        };
        let ready = self.is_ready();
        self.ready = ready.then(|| self.ready.unwrap_or(just_now));
    }

    /// Takes up all slices from a list, in which nothing is seen to change. A ready slice that is as it was before has
    /// been ready all the time. `was_listed`: what was not ready before has become so since then.
    pub(super) fn replace(
        &mut self,
        slices: BTreeMap<Box<str>, Slice>,
        was_listed: bool,
        now: Now,
    ) {
        let is_steady = slices
            .iter()
            .any(|(name, slice)| slice.ready && self.slices.get(name) == Some(slice));
        let seen = now.mono;
        self.slices = slices;
        self.ready = match self.ready {
            _ if !self.is_ready() => None,
            Some(known) if is_steady => Some(known),
            None if was_listed => Some(Ready {
                seen,
                before: Some(Duration::ZERO),
            }),
            _ => Some(Ready {
                seen,
                before: self.ready_for(now.wall),
            }),
        };
    }

    /// Returns for how long it has been ready at most, by its slices: one that is ready was so as long as it has not
    /// changed, whatever the others did. `None` if one does not say since when that is.
    fn ready_for(&self, now: Timestamp) -> Option<Duration> {
        let ready = self.slices.values().filter(|it| it.ready);
        let since = ready.map(|it| it.unchanged_since).min().flatten()?;
        // It is negative if the clock of the node is ahead of this one.
        Some(now.duration_since(since).unsigned_abs())
    }

    fn is_ready(&self) -> bool {
        self.slices.values().any(|it| it.ready)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn slice(metadata: Value, endpoints: Value) -> Slice {
        Slice::new(
            &serde_json::from_value(json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": metadata,
                "addressType": "IPv4",
                "endpoints": endpoints,
            }))
            .unwrap(),
        )
    }

    #[rstest]
    #[case::ready(json!([{"conditions": {"ready": true}}]), true)]
    #[case::not_ready(json!([{"conditions": {"ready": false, "serving": true}}]), false)]
    #[case::unset_means_ready(json!([{"conditions": {}}]), true)]
    #[case::no_conditions(json!([{"addresses": ["10.0.0.1"]}]), true)]
    #[case::terminating(json!([{"conditions": {"ready": true, "terminating": true}}]), false)]
    #[case::terminating_and_unset(json!([{"conditions": {"terminating": true}}]), false)]
    #[case::one_of_several(
        json!([{"conditions": {"ready": false}}, {"conditions": {"ready": true}}]),
        true
    )]
    #[case::no_endpoint(json!([]), false)]
    #[case::null(json!(null), false)]
    fn readiness(#[case] endpoints: Value, #[case] expected: bool) {
        assert_eq!(slice(json!({}), endpoints).ready, expected);
    }

    /// Slices that are ready since so many seconds, or since nobody knows when.
    fn slices(version: &str, since: &[Option<i64>], now: Now) -> BTreeMap<Box<str>, Slice> {
        let slices = since.iter().enumerate().map(|(number, since)| {
            let changed = since.map(|it| (now.wall - SignedDuration::from_secs(it)).to_string());
            let changed = changed.unwrap_or_else(|| "yesterday".to_owned());
            let metadata = json!({
                "resourceVersion": version, "annotations": {CHANGED_ANNOTATION: changed},
            });
            (number.to_string().into(), slice(metadata, json!([{}])))
        });
        slices.collect()
    }

    /// What is found ready has a window for what is left of it, if its slices say since when.
    #[rstest]
    #[case::just_now(&[Some(0)], Some(60))]
    #[case::a_while_ago(&[Some(45)], Some(15))]
    #[case::the_longest_counts(&[Some(3_600), Some(45)], None)]
    #[case::long_ago(&[Some(61)], None)]
    #[case::a_clock_that_is_ahead(&[Some(-20)], Some(40))]
    #[case::nobody_knows(&[None], None)]
    #[case::of_one_nobody_knows(&[Some(0), None], None)]
    fn found_ready(#[case] since: &[Option<i64>], #[case] left: Option<u64>) {
        let now = Now::read();
        let mut service = Service::default();
        service.replace(slices("1", since, now), false, now);
        let end = service.ready.unwrap().end(MINUTE);
        assert_eq!(end, left.map(|it| now.mono + Duration::from_secs(it)));
    }

    #[test]
    fn a_list_shows_what_has_happened_in_a_break() {
        let begin = Now::read();
        let later = Now {
            mono: begin.mono + MINUTE,
            ..begin
        };
        let end = |service: &Service| service.ready.and_then(|it| it.end(MINUTE));
        let mut service = Service::default();
        // It became ready after the list before.
        service.replace(slices("1", &[None], begin), true, begin);
        assert_eq!(end(&service), Some(begin.mono + MINUTE));
        // As it was: steady.
        service.replace(slices("1", &[None], begin), true, later);
        assert_eq!(end(&service), Some(begin.mono + MINUTE));
        // It may have been away.
        service.replace(slices("2", &[None], later), true, later);
        assert_eq!(end(&service), None);
        service.replace(slices("3", &[Some(0)], later), true, later);
        assert_eq!(end(&service), Some(later.mono + MINUTE));
        // What is seen to go is not ready, and just so when it is back.
        service.put("0", None, later.mono);
        assert!(service.ready.is_none() && service.is_empty());
        service.put("0", Some(slice(json!({}), json!([{}]))), later.mono);
        assert_eq!(end(&service), Some(later.mono + MINUTE));
    }
}
