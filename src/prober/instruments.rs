//! Everything by which others see how the prober fares.

use std::sync::Arc;

use super::{metrics::ProberMetrics, report::HealthMetrics};
use crate::{
    checks::CheckMetrics,
    runtime::{
        instruments::Common,
        metrics::{BudgetMetrics, Registry},
    },
};

/// What the prober tells its metrics, its pulse and its readiness to. Clones are the same.
#[derive(Clone, Debug)]
pub struct Instruments {
    /// Probes and scale operations.
    pub prober: Arc<ProberMetrics>,
    /// Clusters and statuses.
    pub health: HealthMetrics,
    /// Requests to dependents that wait for their turn.
    pub scale_budget: BudgetMetrics,
    /// Requests for commands of checks that wait for their turn.
    pub exec_budget: BudgetMetrics,
    /// Checks of clusters.
    pub checks: CheckMetrics,
    /// What every component has.
    pub common: Common,
}

impl Instruments {
    /// Instruments, and the registry that shows all of them; with series for each cluster only if
    /// told so.
    pub fn new(cluster_metrics: bool) -> (Self, Registry) {
        let mut registry = Registry::default();
        let (common, [scale_budget, exec_budget]) =
            Common::register(&mut registry, ["scale", "exec"]);
        let prober: Arc<ProberMetrics> = Arc::default();
        let instruments = Self {
            checks: CheckMetrics::new(prober.durations()),
            prober,
            health: HealthMetrics::new(cluster_metrics),
            scale_budget,
            exec_budget,
            common,
        };
        instruments.prober.register(&mut registry);
        instruments.checks.register(&mut registry);
        instruments.health.register(&mut registry);
        (instruments, registry)
    }
}
