//! What is counted of checks, beside how long they take.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use crate::runtime::metrics::{InFlight, ProbeMetrics, Registry};

/// The metrics of checks. Clones count for the same.
#[derive(Clone, Debug, Default)]
pub struct CheckMetrics {
    pub(super) probes: ProbeMetrics,
    waiting: Gauge,
    running: Gauge,
    tolerated: Counter,
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
        registry.register(
            "checks_waiting",
            "Checks that are due and wait for their turn, which is not part of their timeout",
            self.waiting.clone(),
        );
        registry.register(
            "checks_in_flight",
            "Checks that are under way",
            self.running.clone(),
        );
        registry.register(
            "exec_timeouts_tolerated",
            "Commands of checks that had not ended in time and would have failed, but for the feature \
             gate ExecProbeTimeout that is off",
            self.tolerated.clone(),
        );
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
