//! Metrics of the writes of statuses and events.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use crate::runtime::metrics::{Counters, Registry, metrics};

metrics! {
    /// The metrics of a writer, whatever it writes. Clones are the same.
    pub struct WriterMetrics {
        /// Writes of statuses and finalizers that ended.
        writes: Counters<2> as "status_writes",
        /// Writes of statuses and finalizers that are under way.
        pub(crate) writing: Gauge as "status_writes_in_flight",
        /// Objects whose status is due to be written and is not being written yet, as of the last five seconds.
        pub(crate) due: Gauge as "status_writes_due",
        /// Events.
        pub(crate) events: EventCounts,
    }
}

metrics! {
    /// Counts of events that were written, and that were not. Clones are the same.
    #[derive(Debug)]
    pub struct EventCounts {
        /// Kubernetes events that the seed has taken.
        pub written: Counter as "events_written",
        /// Kubernetes events that the seed refused or did not answer, or for which there was no room.
        pub dropped: Counter as "events_dropped",
    }
}

impl WriterMetrics {
    /// Shows them, of writes of these kinds.
    pub fn register(&self, registry: &mut Registry, kinds: &[&'static str]) {
        // A rise from nothing is none for Prometheus.
        for kind in kinds {
            let labels = [("kind", *kind), ("result", "success")];
            drop(self.writes.get_or_create(&labels));
        }
        self.show(registry);
        self.events.show(registry);
    }

    /// A write of this kind ended.
    pub(crate) fn wrote(&self, kind: &'static str, succeeded: bool) {
        let result = if succeeded { "success" } else { "failure" };
        let labels = [("kind", kind), ("result", result)];
        self.writes.get_or_create(&labels).inc();
    }

    /// Shows that nothing is written any more.
    pub(crate) fn stand_by(&self) {
        self.writing.set(0);
        self.due.set(0);
    }
}

/// Shows this count.
pub(crate) fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}
