//! All of it together.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::watcher::Event,
};
use tokio::time::Instant;

use super::{
    news::News,
    now::Now,
    pod::Pod,
    scopes::PodWatch,
    services::ServiceNames,
    slice::EndpointSlice,
    weeds::{Deletion, DeletionError},
};
use crate::{api::WeedPolicy, health::WeedReport};

/// What is known, and what follows from it.
#[derive(Debug, Default)]
pub struct State {
    names: ServiceNames,
    watches: BTreeSet<PodWatch>,
    news: Vec<News>,
}

impl State {
    /// Takes up an event of the watch on policies.
    pub fn policy_event(&mut self, _event: Event<DeserializeGuard<WeedPolicy>>, _now: Now) {}

    /// Takes up an event of the watch on namespaces.
    pub fn namespace_event(&mut self, _event: Event<PartialObjectMeta<Namespace>>, _now: Now) {}

    /// Takes up an event of the watch on slices that was started for `names`.
    pub fn slice_event(&mut self, _names: &ServiceNames, _event: Event<EndpointSlice>, _now: Now) {}

    /// Takes up an event of a watch on pods.
    pub fn pod_event(&mut self, _watch: &PodWatch, _event: Event<Pod>, _now: Now) {}

    /// A watch on pods broke, or could not be begun, with this error.
    pub fn pod_watch_broke(&mut self, _watch: &PodWatch, _message: String) {}

    /// A watch on pods works again.
    pub fn pod_watch_works(&mut self, _watch: &PodWatch) {}

    /// A deletion has ended.
    pub fn deletion_ended(
        &mut self,
        _deletion: Deletion,
        _result: Result<(), DeletionError>,
        _now: Now,
    ) {
    }

    /// Time has passed: windows end, and what was refused is tried again.
    pub fn tick(&mut self, _now: Now) {}

    /// Of which services the slices are to be watched. To be asked after each change.
    pub fn service_names(&self) -> &ServiceNames {
        &self.names
    }

    /// Which pods are to be watched. To be asked after each change.
    pub fn pod_watches(&self) -> &BTreeSet<PodWatch> {
        &self.watches
    }

    /// When [`State::tick`] is due at the latest.
    pub fn due(&self) -> Option<Instant> {
        None
    }

    /// Whether a deletion may be begun.
    pub fn may_delete(&self) -> bool {
        false
    }

    /// The pod to delete next, if one is and the limits allow. To be carried out at once, and its end
    /// to be told by [`State::deletion_ended`].
    pub fn next_deletion(&mut self, _now: Now) -> Option<Deletion> {
        None
    }

    /// Whether policies, namespaces and slices have each been listed once: reports before that would
    /// not tell all.
    pub fn listed(&self) -> bool {
        false
    }

    /// What is to be said of each policy.
    pub fn reports(&self) -> Vec<WeedReport> {
        Vec::new()
    }

    /// What has happened since it was last asked for.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }
}
