//! Everything by which others see how a component fares, whatever it does.

use super::{
    liveness::Liveness,
    metrics::{self, BudgetMetrics, LeaderMetrics, Registry, RequestMetrics},
    readiness::Checks,
    watches::Watches,
};

/// What every component tells its metrics, its liveness and its readiness to. Clones are the same.
#[derive(Clone, Debug)]
pub struct Common {
    /// Requests to the seed.
    pub requests: RequestMetrics,
    /// Requests that wait for their turn, but for those that have a budget of their own.
    pub seed_budget: BudgetMetrics,
    /// Whether this replica acts.
    pub leader: LeaderMetrics,
    /// The watches on the seed.
    pub watches: Watches,
    /// Whether the main loops move.
    pub liveness: Liveness,
    /// Whether the process is ready.
    pub checks: Checks,
}

impl Common {
    /// Instruments that this registry shows, and those of further budgets of these names.
    pub fn register<const N: usize>(
        registry: &mut Registry,
        budgets: [&'static str; N],
    ) -> (Self, [BudgetMetrics; N]) {
        let checks = Checks::default();
        let (seed_budget, budgets) = BudgetMetrics::register(registry, "seed", budgets);
        let common = Self {
            requests: RequestMetrics::default(),
            seed_budget,
            leader: LeaderMetrics::default(),
            watches: Watches::new(checks.clone()),
            liveness: Liveness::default(),
            checks,
        };
        common.requests.register(registry);
        common.watches.register(registry);
        common.leader.register(registry);
        registry.register_build_info();
        metrics::register_process(registry);
        (common, budgets)
    }

    /// What a replica shows that does not lead: nothing is watched and no loop runs, as it should be.
    pub fn stand_by(&self) {
        self.liveness.clear();
        self.watches.clear();
    }
}
