//! What is counted of checks, beside how long they take.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use crate::runtime::metrics::{InFlight, ProbeMetrics, Registry, metrics};

metrics! {
    /// The metrics of checks. Clones count for the same.
    pub struct CheckMetrics {
        /// Durations, which are shown with those of other probes.
        pub(super) probes: ProbeMetrics,
        /// Checks that are due and wait for their turn, which is not part of their timeout.
        waiting: Gauge as "checks_waiting",
        /// Checks that are under way.
        running: Gauge as "checks_in_flight",
        /// Commands of checks that had not ended in time and would have failed, but for the feature gate
        /// ExecProbeTimeout that is off.
        tolerated: Counter as "exec_timeouts_tolerated",
    }
}

impl CheckMetrics {
    /// Metrics of checks, whose durations are counted here.
    pub fn new(probes: ProbeMetrics) -> Self {
        Self {
            probes,
            ..Self::default()
        }
    }

    /// Shows them, but for the durations.
    pub fn register(&self, registry: &mut Registry) {
        self.show(registry);
    }

    /// A check is due; it waits for as long as what is returned.
    pub(super) fn wait(&self) -> InFlight {
        InFlight::new(&self.waiting)
    }

    /// A check begins; it is under way for as long as what is returned.
    pub(super) fn run(&self) -> InFlight {
        InFlight::new(&self.running)
    }

    /// A command has not ended in time, and that is tolerated.
    pub(super) fn tolerate(&self) {
        self.tolerated.inc();
    }
}
