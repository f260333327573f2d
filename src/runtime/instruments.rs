//! Everything by which others see how a component fares, whatever it does.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{
    health::Health,
    metrics::{Registry, RequestMetrics},
    watch::Watches,
};

/// Metrics and health that every component has. Clones share them.
#[derive(Clone)]
pub struct Common {
    /// Requests to the seed.
    pub requests: RequestMetrics,
    /// Whether this replica acts.
    pub leader: Gauge,
    /// Counter of Leases lost.
    pub leaderships_lost: Counter,
    /// The watches on the seed.
    pub watches: Watches,
    /// Whether the main loops move, and whether the process is ready.
    pub health: Health,
}

impl Common {
    /// Instruments that this registry shows.
    pub fn register(registry: &mut Registry) -> Self {
        let health = Health::default();
        let common = Self {
            requests: RequestMetrics::default(),
            leader: Gauge::default(),
            leaderships_lost: Counter::default(),
            watches: Watches::new(health.clone()),
            health,
        };
        // Without an election, it does.
        common.leader.set(1);
        common.requests.register(registry);
        common.watches.register(registry);
        registry.register(
            "leader",
            "1 if this replica acts, 0 if it stands by",
            common.leader.clone(),
        );
        registry.register(
            "leaderships_lost",
            "How often this process lost the Lease, and stood for election again",
            common.leaderships_lost.clone(),
        );
        common
    }

    /// Begins one more candidacy: it does not act, and has no loop and no watch yet.
    pub fn stand_by(&self) {
        self.leader.set(0);
        self.health.clear();
        self.watches.clear();
    }
}
