//! Metrics and health of the prober.

use std::sync::Arc;

use super::{metrics::ProberMetrics, report::HealthMetrics, standby};
use crate::{
    checks::CheckMetrics,
    runtime::{
        instruments::Common,
        metrics::{self, BudgetMetrics, Registry, States},
    },
};

/// The prober's metrics and health. Clones count for the same.
#[derive(Clone)]
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
        let mut all = Registry::default();
        let registry = metrics::own(&mut all);
        let (common, [scale_budget, exec_budget, standby_budget]) =
            Common::register(registry, ["scale", "exec", "standby"]);
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
        instruments.prober.register(registry);
        drop(instruments.common.watches.restarts("Secrets"));
        instruments.checks.register(registry);
        instruments.health.register(registry);
        instruments.standby.register(
            registry,
            "standby_clusters",
            "Clusters that this replica observes while it does not lead: judged (the last read came to \
             a verdict), undetermined (it did not), pending (not read yet)",
        );
        (instruments, all)
    }

    /// The same for one more candidacy, whose common instruments these are. What is counted for each loop has
    /// ended with it.
    #[must_use]
    pub fn anew(&self, common: Common) -> Self {
        self.health.stand_by();
        Self {
            common,
            ..self.clone()
        }
    }
}
