//! What a replica shows of the clusters that it observes without leading.

use prometheus_client::metrics::{family::Family, gauge::Gauge};

use crate::runtime::metrics::Registry;

const PENDING: &str = "pending";
const JUDGED: &str = "judged";
const UNDETERMINED: &str = "undetermined";

type State = [(&'static str, &'static str); 1];

/// Counts the clusters that are observed while another replica leads. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct StandbyMetrics(Family<State, Gauge>);

impl Default for StandbyMetrics {
    fn default() -> Self {
        let clusters: Family<State, Gauge> = Family::default();
        for state in [PENDING, JUDGED, UNDETERMINED] {
            drop(clusters.get_or_create(&[("state", state)]));
        }
        Self(clusters)
    }
}

impl StandbyMetrics {
    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "standby_clusters",
            &["state"],
            "Clusters that this replica observes while it does not lead: judged (the last read came to \
             a verdict), undetermined (it did not), pending (not read yet)",
            self.0.clone(),
        );
    }

    /// A cluster that is counted until this is dropped.
    pub(super) fn cluster(&self) -> Counted {
        let state = PENDING;
        self.0.get_or_create(&[("state", state)]).inc();
        let clusters = self.0.clone();
        Counted { clusters, state }
    }
}

/// One cluster that is counted.
pub(super) struct Counted {
    clusters: Family<State, Gauge>,
    state: &'static str,
}

impl Counted {
    /// Whether its last read came to a verdict.
    pub(super) fn set(&mut self, judged: bool) {
        let state = if judged { JUDGED } else { UNDETERMINED };
        if state != self.state {
            self.clusters.get_or_create(&[("state", self.state)]).dec();
            self.clusters.get_or_create(&[("state", state)]).inc();
            self.state = state;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.clusters.get_or_create(&[("state", self.state)]).dec();
    }
}
