//! How many clusters are in which state.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

use crate::{api::ClusterState, runtime::metrics::Registry};

/// All states, in the order of the table in the documentation.
pub const STATES: [ClusterState; 8] = [
    ClusterState::Pending,
    ClusterState::Connecting,
    ClusterState::Online,
    ClusterState::Degraded,
    ClusterState::Offline,
    ClusterState::Unhealthy,
    ClusterState::NotReady,
    ClusterState::FailingMetrics,
];

/// Counts clusters by state. Clones are the same.
#[derive(Clone, Debug)]
pub struct ObserverMetrics {
    clusters: Family<StateLabel, Gauge>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

impl Default for ObserverMetrics {
    fn default() -> Self {
        let clusters: Family<StateLabel, Gauge> = Family::default();
        // Each is there from the start, so that none seems unknown.
        for state in STATES {
            drop(clusters.get_or_create(&label(state)));
        }
        Self { clusters }
    }
}

impl ObserverMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "observed_clusters",
            &["state"],
            "Clusters that are probed, by the state that their ClusterHealths show: PENDING, \
             CONNECTING, ONLINE, DEGRADED, OFFLINE, UNHEALTHY, NOTREADY, FAILING_METRICS",
            self.clusters.clone(),
        );
    }

    /// A cluster that is counted in no state yet.
    pub fn cluster(&self) -> Counted {
        Counted {
            clusters: self.clusters.clone(),
            state: None,
        }
    }
}

fn label(state: ClusterState) -> StateLabel {
    StateLabel {
        state: state.name(),
    }
}

/// A cluster that is counted in its state for as long as this lasts.
#[derive(Debug)]
pub struct Counted {
    clusters: Family<StateLabel, Gauge>,
    state: Option<ClusterState>,
}

impl Counted {
    /// It is in this state, or in none, since it is not observed.
    pub fn set(&mut self, state: Option<ClusterState>) {
        if self.state == state {
            return;
        }
        if let Some(before) = self.state {
            self.clusters.get_or_create(&label(before)).dec();
        }
        if let Some(state) = state {
            self.clusters.get_or_create(&label(state)).inc();
        }
        self.state = state;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_counted_once() {
        let metrics = ObserverMetrics::default();
        let counts = || STATES.map(|state| metrics.clusters.get_or_create(&label(state)).get());
        let mut one = metrics.cluster();
        let mut other = metrics.cluster();
        assert_eq!(counts(), [0; 8]);
        one.set(Some(ClusterState::Pending));
        other.set(Some(ClusterState::Pending));
        assert_eq!(counts(), [2, 0, 0, 0, 0, 0, 0, 0]);
        one.set(Some(ClusterState::Online));
        one.set(Some(ClusterState::Online));
        assert_eq!(counts(), [1, 0, 1, 0, 0, 0, 0, 0]);
        other.set(None);
        drop(one);
        assert_eq!(counts(), [0; 8]);
    }

    /// What a metric says is what a ClusterHealth says.
    #[test]
    fn names_are_those_of_the_status() {
        for state in STATES {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
