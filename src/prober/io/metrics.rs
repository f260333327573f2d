//! What the prober counts: probes, verdicts, what is scaled, and for how long clusters are
//! protected.

use std::time::Duration;

use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use crate::{
    api::ClusterState,
    observer::state::STATES,
    prober::finding::verdict_reason,
    prober::{
        dependents::What,
        lease_judge::Conclusion,
        step::{Aim, Step},
        verdict::Verdict,
    },
    runtime::metrics::{LEASES, ProbeMetrics, Registry, States},
    shoot::{Said, Unread},
};

/// The target is one second; a write after the grace comes too late.
const REACTION_SECONDS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const PROTECTION_SECONDS: [f64; 10] = [
    30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
];

/// The names and values of labels.
type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// The prober's metrics.
#[derive(Debug)]
pub struct ProberMetrics {
    /// Durations of all ways to look at a cluster.
    pub(crate) durations: ProbeMetrics,
    /// Probes that are under way.
    pub(crate) probing: Gauge,
    verdicts: Counters<2>,
    /// From a provable outage to the first write of the scale-down.
    pub(crate) reaction: Histogram,
    operations: Counters<2>,
    scale_failures: Counters<1>,
    /// Lengths of protections that ended, with their time under earlier processes.
    pub(crate) protections: Histogram,
    /// Clusters by the state that is observed.
    pub(crate) observed: States,
}

impl Default for ProberMetrics {
    fn default() -> Self {
        let operations = Counters::default();
        let (verdicts, durations) = (Counters::default(), ProbeMetrics::default());
        // Prometheus sees no increase in a series that appears: those of alerts are there from the
        // start.
        for direction in ["down", "up", "release", "look"] {
            for result in ["success", "failure", "late"] {
                drop(operations.get_or_create(&[("direction", direction), ("result", result)]));
            }
        }
        let scale_failures = Counters::default();
        drop(verdicts.get_or_create(&verdict_labels(Verdict::Healthy)));
        drop(verdicts.get_or_create(&unread_labels("Unreachable")));
        drop(scale_failures.get_or_create(&[("reason", "Forbidden")]));
        drop(durations.duration(LEASES, "success"));
        Self {
            durations,
            probing: Gauge::default(),
            verdicts,
            reaction: Histogram::new(REACTION_SECONDS),
            operations,
            scale_failures,
            protections: Histogram::new(PROTECTION_SECONDS),
            observed: States::new(STATES.map(ClusterState::name)),
        }
    }
}

impl ProberMetrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        self.durations.register(registry);
        registry.register(
            "probes_in_flight",
            "Probes that are under way",
            self.probing.clone(),
        );
        registry.register(
            "verdicts",
            "Probes that ended, by their verdict on the leases (unread: there was no evidence), with the reason that \
             the ClusterHealth gives",
            self.verdicts.clone(),
        );
        registry.register(
            "reaction_seconds",
            "Time from the instant at which an outage was provable to the first write that scaled a \
             dependent down",
            self.reaction.clone(),
        );
        registry.register(
            "scale_operations",
            "What was done to dependents: down, up, release (mark removed), look; success, failure, \
             late (the effect did not come in time)",
            self.operations.clone(),
        );
        registry.register(
            "scale_failures",
            "Dependents that could not be scaled, by the reason that the ClusterHealth gives",
            self.scale_failures.clone(),
        );
        registry.register(
            "protection_duration_seconds",
            "For how long clusters were protected, of protections that ended",
            self.protections.clone(),
        );
        self.observed.register(
            registry,
            "observed_clusters",
            "Clusters that are probed, by the state that their ClusterHealths show: PENDING, \
             CONNECTING, ONLINE, DEGRADED, OFFLINE, UNHEALTHY, NOTREADY, FAILING_METRICS",
        );
    }

    /// Counts the result of a probe that took so long. One that is dropped has none.
    pub(crate) fn probed(&self, outcome: &Result<Conclusion, Unread>, took: Duration) {
        let result = match outcome {
            Ok(conclusion) => {
                count(&self.verdicts, verdict_labels(conclusion.verdict));
                "success"
            }
            Err(error) => {
                count(&self.verdicts, unread_labels(error.reason));
                match error.said {
                    Said::Throttled(_) => "throttled",
                    _ => "failure",
                }
            }
        };
        let duration = self.durations.duration(LEASES, result);
        duration.observe(took.as_secs_f64());
    }

    /// Counts what was done to a dependent with this aim.
    pub(crate) fn did(&self, aim: Aim, what: &What) {
        let aimed = match aim {
            Aim::Down => "down",
            Aim::Up => "up",
            Aim::Release => "release",
            Aim::Leave => "look",
        };
        let (direction, result) = match what {
            What::Did(Step::ScaleDown { .. }, _) => ("down", "success"),
            What::Did(Step::ScaleUp { .. }, _) => ("up", "success"),
            What::Did(Step::Mark { .. } | Step::Record { .. }, _) => return,
            What::Did(Step::Unmark { .. }, _) => ("release", "success"),
            What::Unready(_) | What::Troubled(_) => return,
            What::Late => (aimed, "late"),
            What::Failed(error) => {
                count(&self.scale_failures, [("reason", error.reason())]);
                (aimed, "failure")
            }
        };
        let labels = [("direction", direction), ("result", result)];
        count(&self.operations, labels);
    }
}

fn count<const N: usize>(counters: &Counters<N>, labels: Labels<N>) {
    counters.get_or_create(&labels).inc();
}

fn verdict_labels(verdict: Verdict) -> Labels<2> {
    let name = match verdict {
        Verdict::Healthy => "healthy",
        Verdict::Outage => "outage",
        Verdict::Undetermined(_) => "undetermined",
    };
    let reason = verdict_reason(verdict);
    [("verdict", name), ("reason", reason)]
}

fn unread_labels(reason: &'static str) -> Labels<2> {
    [("verdict", "unread"), ("reason", reason)]
}
