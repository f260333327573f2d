//! Metrics and health of the prober.

use std::sync::Arc;

use super::{metrics::ProberMetrics, report::HealthMetrics};
use crate::{
    checks::CheckMetrics,
    runtime::{
        instruments::Common,
        metrics::{self, Registry},
    },
};

/// The prober's metrics and health. Clones count for the same.
#[derive(Clone)]
pub struct Instruments {
    /// Probes and scale operations.
    pub prober: Arc<ProberMetrics>,
    /// Clusters and statuses.
    pub(crate) health: HealthMetrics,
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
        let common = Common::register(registry);
        let prober: Arc<ProberMetrics> = Arc::default();
        let instruments = Self {
            checks: CheckMetrics::new(prober.durations.clone()),
            prober,
            health: HealthMetrics::default(),
            common,
        };
        instruments.prober.register(registry);
        drop(instruments.common.watches.one_of("Secrets", String::new()));
        instruments.checks.register(registry);
        instruments.health.register(registry);
        (instruments, all)
    }

    /// Shows what a prober shows that does not lead. What is counted for each loop has ended with it.
    pub fn stand_by(&self) {
        self.health.stand_by();
    }
}
