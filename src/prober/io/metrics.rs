//! What the prober counts: probes, verdicts, what is scaled, and for how long clusters are
//! protected.

use std::time::Duration;

use prometheus_client::metrics::{gauge::Gauge, histogram::Histogram};

use crate::{
    api::ClusterState,
    prober::finding::verdict_reason,
    prober::{
        dependents::What,
        lease_judge::Conclusion,
        scale_error::SCALING_FORBIDDEN,
        step::{Aim, Step},
        verdict::Verdict,
    },
    runtime::metrics::{Counters, LEASES, Label, ProbeMetrics, Registry, States, metrics},
    shoot::{Said, Unread},
};

/// The target is one second; a write after the grace comes too late.
const REACTION_SECONDS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const PROTECTION_SECONDS: [f64; 10] = [
    30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
];

metrics! {
    /// The prober's metrics.
    pub struct ProberMetrics {
        /// Durations of all ways to look at a cluster.
        pub(crate) durations: ProbeMetrics,
        /// Probes that are under way.
        pub(crate) probing: Gauge as "probes_in_flight",
        /// Probes that ended, by their verdict on the leases (unread: there was no evidence), with the reason that
        /// the ClusterHealth gives.
        verdicts: Counters<2> as "verdicts",
        /// Time from the instant at which an outage was provable to the first write that scaled a dependent down.
        pub(crate) reaction: Histogram as "reaction_seconds" = Histogram::new(REACTION_SECONDS),
        /// What was done to dependents: down, up, release (mark removed), look; success, failure, late (the effect
        /// did not come in time).
        operations: Counters<2> as "scale_operations",
        /// Dependents that could not be scaled, by the reason that the ClusterHealth gives.
        scale_failures: Counters<1> as "scale_failures",
        /// For how long clusters were protected, of protections that ended.
        pub(crate) protections: Histogram as "protection_duration_seconds" = Histogram::new(PROTECTION_SECONDS),
        /// Clusters that are probed, by the state that their ClusterHealths show: PENDING, CONNECTING, ONLINE,
        /// DEGRADED, OFFLINE, UNHEALTHY, NOTREADY, FAILING_METRICS.
        pub(crate) observed: States as "observed_clusters",
    }
}

impl ProberMetrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        // Prometheus sees no increase in a series that appears: those of alerts are there from the
        // start.
        for direction in ["down", "up", "release", "look"] {
            for result in ["success", "failure", "late"] {
                let labels = [("direction", direction), ("result", result)];
                drop(self.operations.get_or_create(&labels));
            }
        }
        let verdicts = &self.verdicts;
        drop(verdicts.get_or_create(&verdict_labels(Verdict::Healthy)));
        drop(verdicts.get_or_create(&unread_labels("Unreachable")));
        let forbidden = [("reason", SCALING_FORBIDDEN)];
        drop(self.scale_failures.get_or_create(&forbidden));
        drop(self.durations.duration(LEASES, "success"));
        let state = [("state", ClusterState::default().name())];
        drop(self.observed.get_or_create(&state));
        self.durations.register(registry);
        self.show(registry);
    }

    /// Counts the result of a probe that took so long. One that is dropped has none.
    pub(crate) fn probed(&self, outcome: &Result<Conclusion, Unread>, took: Duration) {
        let (labels, result) = match outcome {
            Ok(conclusion) => (verdict_labels(conclusion.verdict), "success"),
            Err(error) => match error.said {
                Said::Throttled(_) => (unread_labels(error.reason), "throttled"),
                _ => (unread_labels(error.reason), "failure"),
            },
        };
        count(&self.verdicts, labels);
        let duration = self.durations.duration(LEASES, result);
        duration.observe(took.as_secs_f64());
    }

    /// Counts what was done to a dependent with this aim.
    pub(crate) fn did(&self, aim: Aim, what: &What) {
        let direction = match what {
            What::Did(Step::ScaleDown { .. }, _) => "down",
            What::Did(Step::ScaleUp { .. }, _) => "up",
            What::Did(Step::Unmark { .. }, _) => "release",
            What::Did(..) | What::Unready(_) | What::Troubled(_) => return,
            What::Late | What::Failed(_) => match aim {
                Aim::Down => "down",
                Aim::Up => "up",
                Aim::Release => "release",
                Aim::Leave => "look",
            },
        };
        let result = match what {
            What::Late => "late",
            What::Failed(error) => {
                count(&self.scale_failures, [("reason", error.reason())]);
                "failure"
            }
            _ => "success",
        };
        let labels = [("direction", direction), ("result", result)];
        count(&self.operations, labels);
    }
}

fn count<const N: usize>(counters: &Counters<N>, labels: [Label; N]) {
    counters.get_or_create(&labels).inc();
}

fn verdict_labels(verdict: Verdict) -> [Label; 2] {
    let name = match verdict {
        Verdict::Healthy => "healthy",
        Verdict::Outage => "outage",
        Verdict::Undetermined(_) => "undetermined",
    };
    let reason = verdict_reason(verdict);
    [("verdict", name), ("reason", reason)]
}

fn unread_labels(reason: &'static str) -> [Label; 2] {
    [("verdict", "unread"), ("reason", reason)]
}
