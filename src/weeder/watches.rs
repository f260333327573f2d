//! The watches that last as long as the weeder: of policies, of namespaces, and of the slices of the services
//! that policies name.

use futures::{Stream, StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::time::Instant;

use super::{policy::Stored, services::ServiceNames, slice::EndpointSlice};
use crate::runtime::watches::{WATCH_SECONDS, WatchState, events};

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
        Self {
            client,
            names: ServiceNames::default(),
            events: None,
            began: None,
            state,
        }
    }

    pub(super) fn restart(&mut self, names: ServiceNames) {
        self.state.needed(!names.is_empty());
        self.events = (!names.is_empty()).then(|| {
            let api: Api<EndpointSlice> = Api::all(self.client.clone());
            let config = watch_config().labels(&names.label_selector());
            events(watcher(api, config), self.state.clone()).boxed()
        });
        self.began = Some(Instant::now());
        self.names = names;
    }

    pub(super) async fn next(&mut self) -> Option<Event<EndpointSlice>> {
        self.events.as_mut()?.next().await
    }
}

fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
}

pub(super) fn watch_policies(
    client: &Client,
    dry_run: bool,
    state: WatchState,
) -> impl Stream<Item = Event<Stored>> + Unpin + use<> {
    let api: Api<Stored> = Api::all(client.clone());
    let stream = watcher(api, watch_config()).modify(move |stored| {
        if let Ok(policy) = &mut stored.policy.0 {
            policy.spec.mode = policy.spec.mode.or_dry_run(dry_run);
        }
    });
    events(stream, state)
}

/// Of namespaces labels and the deletion timestamp count.
pub(super) fn watch_namespaces(
    client: &Client,
    state: WatchState,
) -> impl Stream<Item = Event<PartialObjectMeta<Namespace>>> + Unpin + use<> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let stream = watcher(api, watch_config()).modify(|namespace| {
        namespace.managed_fields_mut().clear();
        namespace.annotations_mut().clear();
    });
    events(stream, state)
}
