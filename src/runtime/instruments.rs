//! Everything by which others see how a component fares, whatever it does.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{
    health::Health,
    metrics::{Registry, RequestMetrics, metrics},
    watch::Watches,
};

metrics! {
    /// Metrics and health that every component has. Clones share them.
    pub struct Common {
        /// Requests to the seed.
        pub requests: RequestMetrics,
        /// 1 if this replica acts, 0 if it stands by.
        pub leader: Gauge as "leader",
        /// How often this process lost the Lease, and stood for election again.
        pub leaderships_lost: Counter as "leaderships_lost",
        /// The watches on the seed, and the health that they are a part of.
        pub watches: Watches,
    }
}

impl Common {
    /// Instruments that this registry shows.
    pub fn register(registry: &mut Registry) -> Self {
        let common = Self::default();
        // Without an election, it does.
        common.leader.set(1);
        common.requests.register(registry);
        common.watches.show(registry);
        common.show(registry);
        common
    }

    /// Returns whether the main loops move, and whether the process is ready.
    pub fn health(&self) -> &Health {
        &self.watches.health
    }

    /// Begins one more candidacy: it does not act, and has no loop and no watch yet.
    pub fn stand_by(&self) {
        self.leader.set(0);
        self.watches.clear();
    }
}
