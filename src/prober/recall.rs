//! Reads what an earlier run has left: statuses, which say what is owed and since when each condition holds, and the
//! marks on dependents, which may say more.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all};
use kube::{Api, Resource, ResourceExt as _, api::DynamicObject, runtime::watcher};
use serde_json::Value;
use tokio::time::sleep;

use super::{io::named, report::Left, scale::workload, step::MARK};
use crate::{
    api::{ClusterHealth, ClusterHealthSpec, ClusterHealthStatus, DependentRef, ProbePolicy},
    runtime::{
        salvage,
        seed::Seed,
        watch::{Change, WatchState, watch_config},
    },
};

/// Judgement: the pause after a failed read.
const AGAIN: Duration = Duration::from_secs(10);

/// Records and marks of an earlier run.
pub(super) struct Known {
    /// The statuses.
    pub(super) statuses: Left,
    /// The namespaces in which a dependent of a policy is marked. What is owed there is urgent before it was
    /// read: Gardener's dependency-watchdog leaves marks and no status.
    pub(super) marked: BTreeSet<Arc<str>>,
}

/// Lists the statuses, however long it takes. A status that cannot be read does not prevent the
/// start: the marks on the dependents show what is owed.
pub(super) async fn known(seed: &Seed, policies: &WatchState, healths: &WatchState) -> Known {
    let clusters = listed::<ClusterHealth>(seed, healths).await;
    // The spec of a policy may be invalid, but its status is what this operator has written.
    let policies = listed::<ProbePolicy>(seed, policies).await;
    let marked = marked(&seed.acting(), &policies).await;
    let policies = policies.into_iter().filter_map(|policy| {
        let (status, _) = salvage::readable(policy.data.get("status")?)?;
        Some((policy.metadata.name?.into(), status))
    });
    let clusters = clusters.into_iter().map(health);
    Known {
        statuses: (clusters.collect(), policies.collect()),
        marked,
    }
}

/// Lists the metadata of each dependent that these policies name, by one request for all namespaces. A dependent that
/// is no workload of apps/v1, or that cannot be listed, is found when it is read.
async fn marked(seed: &Seed, policies: &[DynamicObject]) -> BTreeSet<Arc<str>> {
    let infos = policies.iter();
    let infos = infos.filter_map(|it| it.data.pointer("/spec/dependentResourceInfos")?.as_array());
    let reference = |it: &Value| serde_json::from_value(it.get("ref")?.clone()).ok();
    let references: BTreeSet<DependentRef> = infos.flatten().filter_map(reference).collect();
    let lists = references.iter().filter_map(|reference| {
        let resource = workload(reference)?;
        Some(async move {
            let api: Api<DynamicObject> = Api::all_with(seed.client().clone(), &resource);
            match seed.call(api.list_metadata(&named(&reference.name))).await {
                Ok(found) => found.items,
                Err(error) => {
                    let found = "what is owed is found when each cluster's is read";
                    tracing::warn!(dependent = %reference, %error, "its marks could not be listed: {found}");
                    vec![]
                }
            }
        })
    });
    let all = join_all(lists).await.into_iter().flatten();
    let marked = all.filter(|it| it.annotations().contains_key(MARK));
    let namespaces = marked.filter_map(|it| it.namespace().map(Arc::from));
    namespaces.collect()
}

/// A ClusterHealth, as far as it can be read. Without a reason its status says nothing.
pub(crate) fn health(object: DynamicObject) -> ClusterHealth {
    let status = object.data.get("status").and_then(salvage::readable);
    let name = object.name_any();
    let status = status.map(|(mut status, unread): (ClusterHealthStatus, _)| {
        if !unread.is_empty() {
            tracing::warn!(cluster = name, fields = ?unread, "its ClusterHealth cannot be read in full");
        }
        // A debt counts even if its reason cannot be read.
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
async fn listed<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    state: &WatchState,
) -> Vec<DynamicObject> {
    let watcher = watcher(seed.objects::<K>(), watch_config());
    let mut changes = state.follow(watcher, |object| (object, true));
    match changes.next().await {
        Some(Change::All(listed)) => listed,
        _ => Vec::new(),
    }
}

/// A status as the record of its cluster. Every written status gives a reason. One without says
/// nothing: it was never written, as between the two requests that create it, or a part that
/// matters is unreadable. It does not say that nothing is owed, by which a mark would be forgotten.
pub(super) fn record(status: Option<ClusterHealthStatus>) -> Option<ClusterHealthStatus> {
    status.filter(|status| status.reason.is_some())
}

/// Reads the record of this name, however long it takes.
pub(super) async fn read(seed: &Seed, name: &str) -> Option<ClusterHealthStatus> {
    let api = seed.objects::<ClusterHealth>();
    loop {
        match seed.call(api.list(&named(name))).await {
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
