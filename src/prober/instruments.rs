//! Everything by which others see how the prober fares.

use std::sync::Arc;

use super::metrics::ProberMetrics;
use crate::{
    health::HealthMetrics,
    runtime::{
        metrics::{self, BudgetMetrics, LeaderMetrics, Registry, RequestMetrics},
        pulse::Pulses,
        readiness::Checks,
        watches::Watches,
    },
};

/// What the prober tells its metrics, its pulse and its readiness to. Clones are the same.
#[derive(Clone, Debug)]
pub struct Instruments {
    /// Probes and scale operations.
    pub prober: Arc<ProberMetrics>,
    /// Clusters and statuses.
    pub health: HealthMetrics,
    /// Requests to the seed.
    pub requests: RequestMetrics,
    /// Requests that wait for their turn, but for those to dependents.
    pub seed_budget: BudgetMetrics,
    /// Requests to dependents that wait for their turn.
    pub scale_budget: BudgetMetrics,
    /// Whether this replica acts.
    pub leader: LeaderMetrics,
    /// The watches on the seed.
    pub watches: Watches,
    /// Whether the main loops move.
    pub pulses: Pulses,
    /// Whether the process is ready.
    pub checks: Checks,
}

impl Instruments {
    /// Instruments, and the registry that shows all of them; with series for each cluster only if
    /// told so.
    pub fn new(cluster_metrics: bool) -> (Self, Registry) {
        let mut registry = Registry::default();
        let checks = Checks::default();
        let [seed_budget, scale_budget] = BudgetMetrics::register(&mut registry, ["seed", "scale"]);
        let instruments = Self {
            prober: Arc::default(),
            health: HealthMetrics::new(cluster_metrics),
            requests: RequestMetrics::default(),
            seed_budget,
            scale_budget,
            leader: LeaderMetrics::default(),
            watches: Watches::new(checks.clone()),
            pulses: Pulses::default(),
            checks,
        };
        instruments.prober.register(&mut registry);
        instruments.health.register(&mut registry);
        instruments.requests.register(&mut registry);
        instruments.watches.register(&mut registry);
        instruments.leader.register(&mut registry);
        registry.register_build_info();
        metrics::register_process(&mut registry);
        (instruments, registry)
    }
}
