//! The watches that last as long as the weeder: of policies, of namespaces, and of the slices of the services
//! that policies name.

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        watcher::{Event, watcher},
    },
};
use tokio::time::Instant;

use super::{policy::Stored, services::ServiceNames, slice::EndpointSlice};
use crate::runtime::watch::{WatchState, watch_config};

/// The watch of the slices of the services that are named.
pub(super) struct Slices {
    client: Client,
    pub(super) names: ServiceNames,
    events: Option<BoxStream<'static, Event<EndpointSlice>>>,
    /// When they were begun.
    pub(super) began: Option<Instant>,
    pub(super) state: WatchState,
}

impl Slices {
    /// None yet: no service is named.
    pub(super) fn new(client: Client, state: WatchState) -> Self {
        state.begin_anew(false);
        Self {
            client,
            names: ServiceNames::default(),
            events: None,
            began: None,
            state,
        }
    }

    pub(super) fn restart(&mut self, names: ServiceNames) {
        let is_needed = !names.is_empty();
        if is_needed == self.names.is_empty() {
            self.state.begin_anew(is_needed);
        }
        self.events = is_needed.then(|| {
            let api: Api<EndpointSlice> = Api::all(self.client.clone());
            let config = watch_config().labels(&names.label_selector());
            self.state.follow(watcher(api, config))
        });
        self.began = Some(Instant::now());
        self.names = names;
    }

    pub(super) async fn next(&mut self) -> Option<Event<EndpointSlice>> {
        self.events.as_mut()?.next().await
    }
}

pub(super) fn watch_policies(
    client: &Client,
    dry_run: bool,
    state: &WatchState,
) -> BoxStream<'static, Event<Stored>> {
    let api: Api<Stored> = Api::all(client.clone());
    state.follow(watcher(api, watch_config()).modify(move |stored| {
        if let Ok(policy) = &mut stored.policy.0 {
            policy.spec.mode = policy.spec.mode.or_dry_run(dry_run);
        }
    }))
}

/// Of namespaces labels and the deletion timestamp count.
pub(super) fn watch_namespaces(
    client: &Client,
    state: &WatchState,
) -> BoxStream<'static, Event<PartialObjectMeta<Namespace>>> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    state.follow(watcher(api, watch_config()).modify(|namespace| {
        namespace.managed_fields_mut().clear();
        namespace.annotations_mut().clear();
    }))
}
