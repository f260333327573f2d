//! Which policy applies to which cluster, kept by two watches.

use futures::{Stream, StreamExt as _};
use kube::{
    Api, Client,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};

use crate::{
    api::ProbePolicy,
    cluster::{Changed, Index},
    gardener::Cluster,
    runtime::watches::{
        LARGE_OBJECTS_PER_PAGE, WATCH_SECONDS, WatchState, Watches, events, followed,
    },
};

/// Which policy applies to which cluster, by watches of both.
pub(in crate::prober) struct Selection {
    pub(in crate::prober) index: Index,
    /// How the watch of ProbePolicies fares.
    pub(in crate::prober) policies: WatchState,
    /// The same of Clusters.
    pub(in crate::prober) clusters: WatchState,
    policy_events: Box<dyn Stream<Item = Event<DeserializeGuard<ProbePolicy>>> + Send + Unpin>,
    cluster_events: Box<dyn Stream<Item = Event<Cluster>> + Send + Unpin>,
}

impl Selection {
    /// Begins to watch. With `dry_run` every policy is one with the mode `DryRun`.
    pub(in crate::prober) fn watch(client: &Client, dry_run: bool, watches: &Watches) -> Self {
        let policies_state = watches.begin("ProbePolicies", "watch-probepolicies");
        let clusters_state = watches.begin("Clusters", "watch-clusters");
        let policies: Api<DeserializeGuard<ProbePolicy>> =
            Api::all(followed(client, &policies_state));
        let clusters: Api<Cluster> = Api::all(followed(client, &clusters_state));
        let heard_soon = watcher::Config::default().timeout(WATCH_SECONDS);
        // A Cluster embeds a cloud profile of hundreds of kilobytes.
        let small_pages = heard_soon.clone().page_size(LARGE_OBJECTS_PER_PAGE);
        let policies = watcher(policies, heard_soon).modify(move |policy| {
            if let Ok(policy) = &mut policy.0 {
                policy.spec.mode = policy.spec.mode.or_dry_run(dry_run);
            }
        });
        let policy_events = events(policies, policies_state.clone());
        let cluster_events = events(watcher(clusters, small_pages), clusters_state.clone());
        Self {
            index: Index::default(),
            policies: policies_state,
            clusters: clusters_state,
            policy_events: Box::new(policy_events),
            cluster_events: Box::new(cluster_events),
        }
    }

    /// Waits for the next event: whether it is about a policy, and what it changed. Nothing is lost if it is
    /// not waited for to the end.
    pub(in crate::prober) async fn changed(&mut self) -> (bool, Changed) {
        tokio::select! {
            // Policies first: they decide what the clusters' events mean.
            biased;
            Some(event) = self.policy_events.next() => (true, self.index.policy_event(event)),
            Some(event) = self.cluster_events.next() => (false, self.index.cluster_event(event)),
            else => std::future::pending().await,
        }
    }
}
