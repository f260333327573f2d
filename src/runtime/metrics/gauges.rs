//! Gauges that count what lasts, for as long as it lasts.

use prometheus_client::metrics::gauge::Gauge;

use super::Gauges;

/// Counts in a gauge until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl InFlight {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts of clusters by state.
pub(crate) type States = Gauges<1>;

/// Counts a cluster in this state until it is dropped.
pub(crate) fn in_state(states: &States, state: &'static str) -> InFlight {
    InFlight::new(&states.get_or_create(&[("state", state)]))
}
