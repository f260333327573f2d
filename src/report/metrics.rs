//! How the writes of statuses and events fare.

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use super::events::EventCounts;
use crate::runtime::metrics::Registry;

/// The metrics of a writer, whatever it writes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct WriterMetrics {
    writes: Family<[(&'static str, &'static str); 2], Counter>,
    pub(crate) writing: Gauge,
    pub(crate) due: Gauge,
    pub(crate) events: EventCounts,
}

impl WriterMetrics {
    /// Shows them, of writes of these kinds.
    pub fn register(&self, registry: &mut Registry, kinds: &[&'static str]) {
        // A rise from nothing is none for Prometheus.
        for kind in kinds {
            let labels = [("kind", *kind), ("result", "success")];
            drop(self.writes.get_or_create(&labels));
        }
        registry.register(
            "status_writes",
            "Writes of statuses and finalizers that ended",
            self.writes.clone(),
        );
        registry.register(
            "status_writes_in_flight",
            "Writes of statuses and finalizers that are under way",
            self.writing.clone(),
        );
        registry.register(
            "status_writes_due",
            "Objects whose status is due to be written and is not being written yet, as of the last \
             five seconds",
            self.due.clone(),
        );
        registry.register(
            "events_written",
            "Kubernetes events that the seed has taken",
            self.events.written.clone(),
        );
        registry.register(
            "events_dropped",
            "Kubernetes events that the seed refused or did not answer, or for which there was no room \
             or no time",
            self.events.dropped.clone(),
        );
    }

    /// A write of this kind ended.
    pub(crate) fn wrote(&self, kind: &'static str, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        let labels = [("kind", kind), ("result", result)];
        self.writes.get_or_create(&labels).inc();
    }

    /// Nothing is written any more.
    pub(crate) fn stand_by(&self) {
        self.writing.set(0);
        self.due.set(0);
    }
}

/// Shows this count.
pub(crate) fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}
