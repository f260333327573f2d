//! What writers show in metrics: how the clusters fare, and how the writes do.

use std::{collections::BTreeMap, sync::Arc};

use prometheus_client::metrics::{family::Family, gauge::Gauge};

use super::{
    brief::{Brief, Standing},
    policy::PolicyReport,
};
use crate::{
    report::{WriterMetrics, set},
    runtime::metrics::Registry,
};

/// The metrics of the prober's writer. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct HealthMetrics {
    policies: Family<[(&'static str, &'static str); 1], Gauge>,
    clusters: Family<[(&'static str, &'static str); 1], Gauge>,
    protected: Gauge,
    overdue: Gauge,
    owed: Gauge,
    pub(super) writer: WriterMetrics,
}

impl HealthMetrics {
    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry) {
        self.stand_by();
        registry.register(
            "probe_policies",
            "ProbePolicies: enforcing, dry_run (by the mode, or by --dry-run), suspended, invalid, \
             deleting",
            self.policies.clone(),
        );
        registry.register(
            "clusters",
            "Selected clusters: pending (not probed yet), skipped (not to be probed), judged (probed, with a verdict or about to have one), undetermined (cannot be \
             judged; or cannot be probed, since their Shoot cannot be read or is in an unknown operation)",
            self.clusters.clone(),
        );
        registry.register(
            "protected_clusters",
            "Clusters whose dependents are scaled down, or not all back",
            self.protected.clone(),
        );
        registry.register(
            "overdue_clusters",
            "Clusters that are protected for longer than 30 minutes",
            self.overdue.clone(),
        );
        registry.register(
            "owed_dependents",
            "Dependents that are owed their replicas",
            self.owed.clone(),
        );
        self.writer
            .register(registry, &["ClusterHealth", "ProbePolicy"]);
    }

    /// There are these policies.
    pub(super) fn policies(&self, reports: &[PolicyReport]) {
        for state in ["enforcing", "dry_run", "suspended", "invalid", "deleting"] {
            let those = reports.iter().filter(|report| state_of(report) == state);
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

fn state_of(report: &PolicyReport) -> &'static str {
    match report {
        it if it.deleting => "deleting",
        it if !it.problems.is_empty() => "invalid",
        it if it.hold.suspended => "suspended",
        it if it.hold.dry_run => "dry_run",
        _ => "enforcing",
    }
}
