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

/// Returns counts with a series for each of these states from the start.
pub(crate) fn states(names: impl IntoIterator<Item = &'static str>) -> States {
    let states = States::default();
    for state in names {
        drop(states.get_or_create(&[("state", state)]));
    }
    states
}

/// Cluster that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct InState {
    states: States,
    counted: Option<(&'static str, InFlight)>,
}

impl InState {
    /// Returns a cluster that is in no state yet.
    pub(crate) fn of(states: &States) -> Self {
        Self {
            states: states.clone(),
            counted: None,
        }
    }

    /// Counts it in this state, or in none.
    pub(crate) fn set(&mut self, state: Option<&'static str>) {
        if self.counted.as_ref().map(|it| it.0) != state {
            let gauge = |state| self.states.get_or_create_owned(&[("state", state)]);
            self.counted = state.map(|state| (state, InFlight::new(&gauge(state))));
        }
    }
}
