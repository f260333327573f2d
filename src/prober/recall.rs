//! What an earlier run has left in statuses.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    runtime::watcher,
};
use tokio::time::sleep;

use super::report::Known;
use crate::{
    api::{ClusterHealth, ClusterHealthSpec, ClusterHealthStatus, ProbePolicy},
    runtime::{
        salvage,
        seed::Seed,
        watches::{WatchState, events},
    },
};

/// What cannot be read is tried again after this long.
const AGAIN: Duration = Duration::from_secs(10);

/// What an earlier run has left in statuses, however long it takes to list them. One that cannot be
/// read keeps nobody from starting: the marks on the dependents tell what is owed.
pub(super) async fn known(seed: &Seed, policies: &WatchState, healths: &WatchState) -> Known {
    let stream = watcher(raw::<ClusterHealth>(seed), watcher::Config::default());
    let clusters = listed(stream, healths).await;
    // Whatever the spec of a policy is like, its status is what we have written.
    let stream = watcher(raw::<ProbePolicy>(seed), watcher::Config::default());
    let policies = listed(stream, policies).await;
    let policies = policies.into_iter().filter_map(|policy| {
        let (status, _) = salvage::readable(policy.data.get("status")?)?;
        Some((policy.metadata.name?.into(), status))
    });
    Known {
        clusters: clusters.into_iter().map(health).collect(),
        policies: policies.collect(),
    }
}

/// Objects of a kind as they are, of which perhaps not all can be read.
fn raw<K: Resource<DynamicType = ()>>(seed: &Seed) -> Api<DynamicObject> {
    Api::all_with(seed.client().clone(), &ApiResource::erase::<K>(&()))
}

/// A ClusterHealth, as far as it can be read.
fn health(object: DynamicObject) -> ClusterHealth {
    let status = object.data.get("status").and_then(salvage::readable);
    let name = object.name_any();
    let status = status.map(|(mut status, unread): (ClusterHealthStatus, _)| {
        if !unread.is_empty() {
            tracing::warn!(cluster = name, fields = ?unread, "its ClusterHealth cannot be read in full");
        }
        // Who owes something says so also where it cannot be read what for.
        let owes = status.dependents.iter().any(|dependent| dependent.owed);
        let is_lost = |field: &str| unread.iter().any(|it| it == field);
        if is_lost("dependents") || is_lost("protection") && !owes {
            status.reason = None;
        }
        status
    });
    ClusterHealth {
        metadata: object.metadata,
        status,
        ..ClusterHealth::new(&name, ClusterHealthSpec::default())
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
/// that make one, or if what matters cannot be read. Each that is written gives a reason.
///
/// That nothing is owed is another thing to say: by that a mark would be forgotten.
pub(super) fn record(status: Option<ClusterHealthStatus>) -> Option<ClusterHealthStatus> {
    status.filter(|status| status.reason.is_some())
}

/// What the ClusterHealth of this name says, however long it takes to read.
pub(super) async fn read(seed: &Seed, name: &str) -> Option<ClusterHealthStatus> {
    let api = raw::<ClusterHealth>(seed);
    // As a list, for which the right is there anyway.
    let this = ListParams::default().fields(&format!("metadata.name={name}"));
    loop {
        match seed.call(api.list(&this)).await {
            Ok(found) => {
                let found = found.items.into_iter().next()?;
                return record(health(found).status);
            }
            Err(error) => {
                tracing::warn!(cluster = name, %error, "its ClusterHealth could not be read");
                sleep(AGAIN).await;
            }
        }
    }
}
