//! Index of which policy applies to which cluster, kept by two watches.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::{Api, Client, core::DeserializeGuard, runtime::watcher};
use parking_lot::Mutex;

use crate::{
    api::ProbePolicy,
    cluster::{Changed, Index, Policy},
    gardener::Cluster,
    runtime::watch::{Changes, WatchState, Watches, large_watch_config, watch_config},
};

/// Index of which policy applies to which cluster, and the watches of both.
pub(super) struct Selection {
    pub(super) index: SharedIndex,
    /// State of the watch of ProbePolicies.
    pub(super) policies: WatchState,
    /// The same of Clusters.
    pub(super) clusters: WatchState,
    policy_changes: Changes<Policy>,
    cluster_changes: Changes<Cluster>,
}

/// The index, shared with who reads objects past every cache and compares them with it.
pub(super) type SharedIndex = Arc<Mutex<Index>>;

impl Selection {
    /// Begins to watch. With `dry_run` every policy is one with the mode `DryRun`.
    pub(super) fn watch(client: &Client, dry_run: bool, watches: &Watches) -> Self {
        let policies = watches.begin("ProbePolicies", "watch-probepolicies");
        let clusters = watches.begin("Clusters", "watch-clusters");
        let api: Api<DeserializeGuard<ProbePolicy>> = Api::all(client.clone());
        let policy_changes = policies.follow(watcher(api, watch_config()), move |mut policy| {
            if let Ok(policy) = &mut policy.0 {
                policy.spec.mode = policy.spec.mode.or_dry_run(dry_run);
            }
            (Policy::from(&policy), true)
        });
        let api: Api<Cluster> = Api::all(client.clone());
        // A Cluster embeds a cloud profile of hundreds of kilobytes.
        let watcher = watcher(api, large_watch_config());
        let cluster_changes = clusters.follow(watcher, |cluster| (cluster, true));
        Self {
            index: SharedIndex::default(),
            policies,
            clusters,
            policy_changes,
            cluster_changes,
        }
    }

    /// Waits for the next change: whether it is about a policy, and what it changed. Nothing is lost if it is
    /// not waited for to the end.
    pub(super) async fn changed(&mut self) -> (bool, Changed) {
        tokio::select! {
            // Policies first: they decide what the clusters' changes mean.
            biased;
            Some(change) = self.policy_changes.next() => (true, self.index.lock().policies_changed(change)),
            Some(change) = self.cluster_changes.next() => (false, self.index.lock().clusters_changed(change)),
            else => std::future::pending().await,
        }
    }
}
