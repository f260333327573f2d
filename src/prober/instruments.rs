//! Metrics, liveness and readiness of the prober.

use std::sync::Arc;

use super::{metrics::ProberMetrics, report::HealthMetrics, standby};
use crate::{
    checks::CheckMetrics,
    runtime::{
        instruments::Common,
        metrics::{BudgetMetrics, Registry, States},
    },
};

/// The prober's metrics, liveness and readiness. Clones count for the same.
#[derive(Clone, Debug)]
pub struct Instruments {
    /// Probes and scale operations.
    pub prober: Arc<ProberMetrics>,
    /// Clusters and statuses.
    pub(crate) health: HealthMetrics,
    /// Requests to dependents that wait for their turn.
    pub scale_budget: BudgetMetrics,
    /// Requests for commands of checks that wait for their turn.
    pub exec_budget: BudgetMetrics,
    /// Requests of a replica that does not lead which wait for their turn.
    pub standby_budget: BudgetMetrics,
    /// What a replica observes that does not lead.
    pub(crate) standby: States,
    /// Checks of clusters.
    pub checks: CheckMetrics,
    /// The instruments of every component.
    pub common: Common,
}

impl Instruments {
    /// Instruments, and the registry that shows all of them.
    pub fn new() -> (Self, Registry) {
        let mut registry = Registry::default();
        let (common, [scale_budget, exec_budget, standby_budget]) =
            Common::register(&mut registry, ["scale", "exec", "standby"]);
        let prober: Arc<ProberMetrics> = Arc::default();
        let instruments = Self {
            checks: CheckMetrics::new(prober.durations.clone()),
            prober,
            health: HealthMetrics::default(),
            scale_budget,
            exec_budget,
            standby_budget,
            standby: States::new(standby::STATES),
            common,
        };
        instruments.prober.register(&mut registry);
        instruments.checks.register(&mut registry);
        instruments.health.register(&mut registry);
        instruments.standby.register(
            &mut registry,
            "standby_clusters",
            "Clusters that this replica observes while it does not lead: judged (the last read came to \
             a verdict), undetermined (it did not), pending (not read yet)",
        );
        (instruments, registry)
    }

    /// What a replica shows that does not lead. What is counted for each loop has ended with it.
    pub fn stand_by(&self) {
        self.common.stand_by();
        self.health.stand_by();
    }
}
