//! The watches: of policies, of namespaces, of the slices of the services that policies name, and of pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    sync::Arc,
    task::Poll,
};

use futures::StreamExt as _;
use k8s_openapi::api::{core::v1::Namespace, discovery::v1::EndpointSlice};
use kube::{Api, Client, core::PartialObjectMeta, runtime::watcher};

use super::{
    pod::Pod,
    policy::Stored,
    service::{SERVICE_LABEL, Slice},
    state::Scope,
};
use crate::{
    api::WeedPolicy,
    runtime::{
        seed::Seed,
        watch::{Change, Changes, WatchState, Watches, watch_config},
    },
};

/// A Pod has some ten kilobytes, of which little is kept.
const PODS_PER_PAGE: u32 = 200;
/// The longest label selector that is sent, in bytes: on its way a longer request line may be
/// refused.
const MAX_SELECTOR: usize = 8 * 1024;

pub(super) fn policies(seed: &Seed, dry_run: bool, state: &WatchState) -> Changes<Stored> {
    let watcher = watcher(seed.objects::<WeedPolicy>(), watch_config());
    state.follow(watcher, move |object| (Stored::new(&object, dry_run), true))
}

/// Follows namespaces. One that is being deleted is of no concern any more.
pub(super) fn namespaces(
    client: &Client,
    state: &WatchState,
) -> Changes<PartialObjectMeta<Namespace>> {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    state.follow(watcher(api, watch_config()), |mut namespace| {
        namespace.metadata.managed_fields = None;
        namespace.metadata.annotations = None;
        let stays = namespace.metadata.deletion_timestamp.is_none();
        (namespace, stays)
    })
}

/// The watch of the slices of the services that are named.
pub(super) struct Slices {
    client: Client,
    pub(super) services: BTreeSet<Arc<str>>,
    changes: Option<Changes<Slice>>,
    pub(super) state: WatchState,
}

impl Slices {
    /// None yet: no service is named.
    pub(super) fn new(client: Client, state: WatchState) -> Self {
        state.begin_anew(false);
        Self {
            client,
            services: BTreeSet::new(),
            changes: None,
            state,
        }
    }

    /// These services are named, and no others. If they were others before, the watch begins anew.
    pub(super) fn want(&mut self, services: &BTreeSet<Arc<str>>) {
        if *services == self.services {
            return;
        }
        let is_needed = !services.is_empty();
        if is_needed == self.services.is_empty() {
            self.state.begin_anew(is_needed);
        }
        let names = services.iter().map(|it| &**it).collect::<Vec<_>>();
        let mut selector = format!("{SERVICE_LABEL} in ({})", names.join(","));
        if selector.len() > MAX_SELECTOR {
            // The slices of all services; those of others are passed over.
            SERVICE_LABEL.clone_into(&mut selector);
        }
        self.changes = is_needed.then(|| {
            let api: Api<EndpointSlice> = Api::all(self.client.clone());
            let config = watch_config().labels(&selector);
            let watcher = watcher(api, config);
            self.state.follow(watcher, |it| (Slice::new(&it), true))
        });
        self.services.clone_from(services);
    }

    pub(super) async fn next(&mut self) -> Option<Change<Slice>> {
        self.changes.as_mut()?.next().await
    }
}

/// The watches of pods that are wanted. They go past the budget, as all watches do: there are few, and a pod that is to
/// be deleted at once must not wait for statuses to be written.
pub(super) struct Pods {
    client: Client,
    watches: Watches,
    wanted: BTreeMap<Scope, (WatchState, Changes<Pod>)>,
}

impl Pods {
    /// None yet.
    pub(super) fn new(client: Client, watches: Watches) -> Self {
        Self {
            client,
            watches,
            wanted: BTreeMap::new(),
        }
    }

    /// These are wanted, and no others.
    pub(super) fn want(&mut self, scopes: &BTreeSet<Scope>) {
        self.wanted.retain(|scope, _| scopes.contains(scope));
        for scope in scopes {
            self.wanted.entry(scope.clone()).or_insert_with(|| {
                let client = self.client.clone();
                let (place, api) = match scope {
                    Some(it) => (&**it, Api::namespaced(client, it)),
                    None => ("all namespaces", Api::all(client)),
                };
                let state = self.watches.one_of("Pods", format!("Pods in {place}"));
                let config = watch_config().page_size(PODS_PER_PAGE);
                let changes = state.follow(watcher(api, config), |pod: Pod| {
                    let is_looping = pod.is_looping();
                    (pod, is_looping)
                });
                (state, changes)
            });
        }
    }

    /// What one of them tells.
    pub(super) async fn next(&mut self) -> (Scope, Change<Pod>) {
        poll_fn(|context| {
            for (scope, (_, changes)) in &mut self.wanted {
                if let Poll::Ready(Some(change)) = changes.poll_next_unpin(context) {
                    return Poll::Ready((scope.clone(), change));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Those that are broken, and why.
    pub(super) fn broken(&self) -> Vec<(Scope, String)> {
        let wanted = self.wanted.iter();
        let broken =
            wanted.filter_map(|(scope, (state, _))| Some((scope.clone(), state.outage()?)));
        broken.collect()
    }
}
