//! Gauges that count what lasts, for as long as it lasts.

use prometheus_client::metrics::{family::Family, gauge::Gauge};

use super::{Label, Registry};

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

/// Counts clusters by state. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct States(Family<[Label; 1], Gauge>);

impl States {
    /// With a series for each of these states from the start.
    pub(crate) fn new(states: impl IntoIterator<Item = &'static str>) -> Self {
        let clusters = Family::default();
        for state in states {
            drop(clusters.get_or_create(&[("state", state)]));
        }
        Self(clusters)
    }

    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry, name: &'static str, help: &'static str) {
        registry.register(name, help, self.0.clone());
    }

    /// A cluster, in no state yet.
    pub(crate) fn cluster(&self) -> InState {
        InState {
            states: self.clone(),
            counted: None,
        }
    }
}

/// One cluster. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct InState {
    states: States,
    counted: Option<(&'static str, InFlight)>,
}

impl InState {
    /// Counts it in this state, or in none.
    pub(crate) fn set(&mut self, state: Option<&'static str>) {
        if self.counted.as_ref().map(|it| it.0) != state {
            let gauge = |state| self.states.0.get_or_create_owned(&[("state", state)]);
            self.counted = state.map(|state| (state, InFlight::new(&gauge(state))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_counted_once() {
        let names = ["pending", "online", "offline"];
        let states = States::new(names);
        let counts = || names.map(|state| states.0.get_or_create(&[("state", state)]).get());
        let mut one = states.cluster();
        let mut other = states.cluster();
        assert_eq!(counts(), [0; 3]);
        one.set(Some("pending"));
        other.set(Some("pending"));
        assert_eq!(counts(), [2, 0, 0]);
        one.set(Some("online"));
        one.set(Some("online"));
        assert_eq!(counts(), [1, 1, 0]);
        other.set(None);
        drop(one);
        assert_eq!(counts(), [0; 3]);
    }
}
