//! How long it takes to look at a cluster, in whatever way, and whether that ended in time.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::{Counters, Histograms, Registry, metrics};

const SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// Time after the timeout of a probe, and a tenth of it, from which on its end is late: nothing but a process that is
/// starved of time causes that.
const LATE: Duration = Duration::from_secs(1);

/// The type of a probe that reads leases. It may be several lists, each with a timeout of its own.
pub const LEASES: &str = "leases";
/// The types of all others.
const WITH_TIMEOUT: [&str; 5] = ["readyz", "apiService", "exec", "httpGet", "tcpSocket"];

metrics! {
    /// Times that probes take. Clones count for the same.
    #[derive(Debug)]
    pub struct ProbeMetrics {
        /// Time that a probe took, from its start to its verdict or failure, by type: leases (the lists of a probe),
        /// readyz, apiService, exec, httpGet, tcpSocket; and result: success, failure, timeout, throttled (the server
        /// asked for less load), unknown (it could not be made).
        durations: Histograms<2> as "probe_duration_seconds"
            = Histograms::new_with_constructor(|| Histogram::new(SECONDS)),
        /// Probes that ended more than 10% plus 1 s after their timeout, by type.
        past_timeout: Counters<1> as "probes_past_timeout",
    }
}

impl ProbeMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        // A rise from nothing is none for Prometheus.
        for kind in WITH_TIMEOUT {
            drop(self.past_timeout.get_or_create(&[("type", kind)]));
        }
        self.show(registry);
    }

    /// Returns the histogram of probes of this type that end so.
    pub fn duration(&self, kind: &'static str, result: &'static str) -> Histogram {
        let labels = [("type", kind), ("result", result)];
        self.durations.get_or_create_owned(&labels)
    }

    /// Counts a probe that has ended after so long a time, for which it had so much.
    pub fn ended(
        &self,
        kind: &'static str,
        result: &'static str,
        took: Duration,
        timeout: Duration,
    ) {
        self.duration(kind, result).observe(took.as_secs_f64());
        if is_past(took, timeout) {
            self.past_timeout.get_or_create(&[("type", kind)]).inc();
        }
    }
}

/// Returns whether a probe that took so long ended later than its timeout explains: this process stood still, or had no
/// CPU.
pub fn is_past(took: Duration, timeout: Duration) -> bool {
    took > timeout + timeout / 10 + LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_long_after_its_timeout_is_counted() {
        let metrics = ProbeMetrics::default();
        let timeout = Duration::from_secs(10);
        for (took, past) in [(0, 0), (10, 0), (12, 0), (13, 1), (60, 2)] {
            metrics.ended("exec", "timeout", Duration::from_secs(took), timeout);
            let counted = metrics.past_timeout.get_or_create(&[("type", "exec")]);
            assert_eq!(counted.get(), past, "{took}");
        }
    }
}
