//! What writers show in metrics: how the clusters fare, and how the writes do.

use std::{collections::BTreeMap, sync::Arc};

use prometheus_client::metrics::gauge::Gauge;

use super::brief::{Brief, Standing};
use crate::{
    cluster::{Policy, PolicyView},
    report::{WriterMetrics, set},
    runtime::metrics::{Gauges, Registry, metrics},
};

metrics! {
    /// The metrics of the prober's writer. Clones are the same.
    pub struct HealthMetrics {
        /// ProbePolicies: enforcing, dry_run (by the mode, or by --dry-run), suspended, invalid, deleting.
        policies: Gauges<1> as "probe_policies",
        /// Selected clusters: pending (not probed yet), skipped (not to be probed), judged (probed, with a verdict or
        /// about to have one), undetermined (cannot be judged; or cannot be probed, since their Shoot cannot be read or
        /// is in an unknown operation).
        clusters: Gauges<1> as "clusters",
        /// Clusters whose dependents are scaled down, or not all back.
        protected: Gauge as "protected_clusters",
        /// Clusters that are protected for longer than 30 minutes.
        overdue: Gauge as "overdue_clusters",
        /// Dependents that are owed their replicas.
        owed: Gauge as "owed_dependents",
        /// Writes and events.
        pub(super) writer: WriterMetrics,
    }
}

impl HealthMetrics {
    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.stand_by();
        self.show(registry);
        let kinds = ["ClusterHealth", "ProbePolicy"];
        self.writer.register(registry, &kinds);
    }

    /// There are these policies.
    pub(super) fn policies(&self, views: &[PolicyView]) {
        for state in ["enforcing", "dry_run", "suspended", "invalid", "deleting"] {
            let those = views.iter().filter(|it| state_of(&it.policy) == state);
            let gauge = self.policies.get_or_create(&[("state", state)]);
            set(&gauge, those.count());
        }
    }

    /// Counts the clusters by their states.
    pub(super) fn counted(&self, clusters: &BTreeMap<Arc<str>, Brief>) {
        let count = |is: fn(&Brief) -> bool| clusters.values().filter(|it| is(it)).count();
        for (state, standing) in [
            ("pending", Standing::Pending),
            ("skipped", Standing::Skipped),
            ("judged", Standing::Judged),
            ("undetermined", Standing::Doubtful),
        ] {
            let those = clusters.values().filter(|it| it.standing == standing);
            let gauge = self.clusters.get_or_create(&[("state", state)]);
            set(&gauge, those.count());
        }
        set(&self.protected, count(|it| it.protected));
        set(&self.overdue, count(|it| it.overdue));
        set(&self.owed, clusters.values().map(|it| it.owed).sum());
    }

    /// What a prober shows that does not lead.
    pub(crate) fn stand_by(&self) {
        self.policies(&[]);
        self.counted(&BTreeMap::new());
        self.writer.stand_by();
    }
}

fn state_of(policy: &Policy) -> &'static str {
    match policy {
        it if it.deleting => "deleting",
        it if !it.problems.is_empty() => "invalid",
        it if it.hold.suspended => "suspended",
        it if it.hold.dry_run => "dry_run",
        _ => "enforcing",
    }
}
