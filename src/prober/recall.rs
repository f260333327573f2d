//! What an earlier run has left in statuses.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::DeserializeGuard,
    runtime::watcher,
};
use tokio::time::sleep;

use crate::{
    api::{ClusterHealth, ClusterHealthSpec, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    health::Known,
    runtime::{
        seed::Seed,
        watches::{WatchState, events},
    },
};

/// What cannot be read is tried again after this long.
const AGAIN: Duration = Duration::from_secs(10);

/// What an earlier run has left in statuses, however long it takes to list them. One that cannot be
/// read keeps nobody from starting: the marks on the dependents tell what is owed.
pub(super) async fn known(seed: &Seed, policies: &WatchState, healths: &WatchState) -> Known {
    let api: Api<DeserializeGuard<ClusterHealth>> = Api::all(seed.client().clone());
    let stream = watcher(api, watcher::Config::default());
    let clusters = listed(stream, healths).await;
    let clusters = clusters.into_iter().map(|DeserializeGuard(health)| {
        health.unwrap_or_else(|invalid| {
            let name = invalid.metadata.name.unwrap_or_default();
            tracing::warn!(name, error = %invalid.error, "a ClusterHealth is unreadable");
            ClusterHealth::new(&name, ClusterHealthSpec::default())
        })
    });
    // Whatever the spec of a policy is like, its status is what we have written.
    let kind = ApiResource::erase::<ProbePolicy>(&());
    let api: Api<DynamicObject> = Api::all_with(seed.client().clone(), &kind);
    let stream = watcher(api, watcher::Config::default());
    let policies = listed(stream, policies).await;
    let policies = policies.into_iter().filter_map(|mut policy| {
        let status = policy.data.get_mut("status")?.take();
        let status: ProbePolicyStatus = serde_json::from_value(status).ok()?;
        Some((policy.metadata.name?.into(), status))
    });
    Known {
        clusters: clusters.collect(),
        policies: policies.collect(),
    }
}

/// All objects of a kind, once.
async fn listed<K: Send + 'static>(
    stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    state: &WatchState,
) -> Vec<K> {
    let mut listed = Vec::new();
    let mut events = events(stream, state.clone());
    while let Some(event) = events.next().await {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => listed.push(object),
            watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_) => {
                break;
            }
        }
    }
    listed
}

/// What a status tells of its cluster: nothing if it has never been written, as between the two requests
/// that make one, or cannot be read. Each that is written gives a reason.
///
/// That nothing is owed is another thing to say: by that a mark would be forgotten.
pub(super) fn record(status: Option<ClusterHealthStatus>) -> Option<ClusterHealthStatus> {
    status.filter(|status| status.reason.is_some())
}

/// What the ClusterHealth of this name says, however long it takes to read.
pub(super) async fn read(seed: &Seed, name: &str) -> Option<ClusterHealthStatus> {
    let api: Api<DeserializeGuard<ClusterHealth>> = Api::all(seed.client().clone());
    // As a list, for which the right is there anyway.
    let this = ListParams::default().fields(&format!("metadata.name={name}"));
    loop {
        match seed.call(api.list(&this)).await {
            Ok(found) => {
                let DeserializeGuard(health) = found.items.into_iter().next()?;
                return record(health.ok()?.status);
            }
            Err(error) => {
                tracing::warn!(cluster = name, %error, "its ClusterHealth could not be read");
                sleep(AGAIN).await;
            }
        }
    }
}
