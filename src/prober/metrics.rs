//! What the prober counts: probes, verdicts, what is scaled, and for how long clusters are protected.
//!
//! A healthy probe costs a few additions: its counters are looked up once.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::time::Instant;

use super::{
    evidence::EvidenceError,
    flow::What,
    plan::{Aim, Step},
    verdict::Verdict,
    watch::Conclusion,
};
use crate::{
    observer::metrics::ObserverMetrics,
    prober::report::verdict_reason,
    runtime::metrics::{Computed, ProbeMetrics, ProbeResult, ProbeType, Registry},
};

/// The target is a second; what is written later than the grace is of no use.
const REACTION_SECONDS: [f64; 15] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const LEASE_AGE_SECONDS: [f64; 12] = [
    10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 60.0, 120.0, 300.0,
];
const PROTECTION_SECONDS: [f64; 10] = [
    30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0,
];

/// The prober's metrics.
#[derive(Debug)]
pub struct ProberMetrics {
    probes: Family<ResultLabel, Counter>,
    durations: ProbeMetrics,
    succeeded: (Counter, Histogram),
    probing: Gauge,
    verdicts: Family<VerdictLabels, Counter>,
    healthy: Counter,
    evidence_failures: Family<ReasonLabel, Counter>,
    decision_lease_age: Histogram,
    reaction: Histogram,
    flows: Gauge,
    operations: Family<OperationLabels, Counter>,
    scale_failures: Family<ReasonLabel, Counter>,
    protections: Histogram,
    protected: Arc<ProtectedTime>,
    /// Clusters by state.
    pub observer: ObserverMetrics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    direction: &'static str,
    result: &'static str,
}

impl Default for ProberMetrics {
    fn default() -> Self {
        let probes: Family<ResultLabel, Counter> = Family::default();
        let durations = ProbeMetrics::default();
        let verdicts: Family<VerdictLabels, Counter> = Family::default();
        let operations: Family<OperationLabels, Counter> = Family::default();
        // A rise from nothing is none for Prometheus: what alerts are about is there from the start.
        for result in ["failure", "throttled"] {
            drop(probes.get_or_create(&ResultLabel { result }));
        }
        for direction in ["down", "up", "release", "look"] {
            for result in ["success", "failure", "late", "interrupted"] {
                drop(operations.get_or_create(&OperationLabels { direction, result }));
            }
        }
        let result = "success";
        Self {
            succeeded: (
                probes.get_or_create_owned(&ResultLabel { result }),
                durations.duration(ProbeType::Leases, ProbeResult::Success),
            ),
            healthy: verdicts.get_or_create_owned(&verdict_labels(Verdict::Healthy)),
            probes,
            durations,
            probing: Gauge::default(),
            verdicts,
            evidence_failures: Family::default(),
            decision_lease_age: Histogram::new(LEASE_AGE_SECONDS),
            reaction: Histogram::new(REACTION_SECONDS),
            flows: Gauge::default(),
            operations,
            scale_failures: Family::default(),
            protections: Histogram::new(PROTECTION_SECONDS),
            protected: Arc::default(),
            observer: ObserverMetrics::default(),
        }
    }
}

impl ProberMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "probes",
            &["result"],
            "Probes that ended: success (a verdict was reached), failure (no evidence), throttled \
             (the shoot's API server asked for less load)",
            self.probes.clone(),
        );
        self.durations.register(registry);
        registry.register(
            "probes_in_flight",
            &[],
            "Probes that are under way",
            self.probing.clone(),
        );
        registry.register(
            "verdicts",
            &["verdict", "reason"],
            "Verdicts on leases that were read, with the reason that the ClusterHealth gives",
            self.verdicts.clone(),
        );
        registry.register(
            "evidence_failures",
            &["reason"],
            "Probes that came to no evidence, by the reason that the ClusterHealth gives",
            self.evidence_failures.clone(),
        );
        registry.register(
            "decision_lease_age_seconds",
            &[],
            "Median age of the expired leases when it was decided to scale a cluster down",
            self.decision_lease_age.clone(),
        );
        registry.register(
            "reaction_seconds",
            &[],
            "Time from the instant at which an outage was provable to the first write that scaled a \
             dependent down",
            self.reaction.clone(),
        );
        registry.register(
            "flows_in_flight",
            &[],
            "Runs over the dependents of a cluster that are under way",
            self.flows.clone(),
        );
        registry.register(
            "scale_operations",
            &["direction", "result"],
            "What was done to dependents: down, up, release (mark removed), look; success, failure, \
             late (the effect did not come in time), interrupted (stopped after a part)",
            self.operations.clone(),
        );
        registry.register(
            "scale_failures",
            &["reason"],
            "Dependents that could not be scaled, by the reason that the ClusterHealth gives",
            self.scale_failures.clone(),
        );
        registry.register(
            "protection_duration_seconds",
            &[],
            "For how long clusters were protected, of protections that ended",
            self.protections.clone(),
        );
        let protected = self.protected.clone();
        registry.register(
            "protected_seconds",
            &[],
            "Time for which clusters were protected by this process, summed over all clusters",
            Computed::counter(move || Some(protected.total().as_secs_f64())),
        );
        self.observer.register(registry);
    }

    /// How long it takes to look at a cluster, for what does so in other ways.
    pub fn durations(&self) -> ProbeMetrics {
        self.durations.clone()
    }

    /// A probe begins.
    pub fn probe(self: &Arc<Self>) -> Probing {
        let metrics = self.clone();
        metrics.probing.inc();
        Probing {
            metrics,
            began: Instant::now(),
        }
    }

    /// A run over the dependents begins; it lasts for as long as what is returned.
    pub fn flow(self: &Arc<Self>) -> Flowing {
        self.flows.inc();
        Flowing(self.clone())
    }

    /// A cluster is to be scaled down, since leases of this age are expired.
    pub fn decided(&self, lease_age: Duration) {
        self.decision_lease_age.observe(lease_age.as_secs_f64());
    }

    /// The first write of a scale-down has landed, so long after the outage was provable.
    pub fn reacted(&self, after: Duration) {
        self.reaction.observe(after.as_secs_f64());
    }

    /// A flow with this aim did something to a dependent.
    pub fn did(&self, aim: Aim, what: &What) {
        let aimed = match aim {
            Aim::Protect => "down",
            Aim::Restore => "up",
            Aim::Release => "release",
            Aim::Look => "look",
        };
        let (direction, result) = match what {
            What::Did(Step::ScaleDown { .. }, _) => ("down", "success"),
            What::Did(Step::ScaleUp { .. }, _) => ("up", "success"),
            What::Did(..) => ("release", "success"),
            What::Settled(..) | What::Waiting(..) | What::Delayed => return,
            What::Late(_) => (aimed, "late"),
            What::Interrupted(_) => (aimed, "interrupted"),
            What::Failed(error, _) => {
                let reason = error.reason();
                self.scale_failures
                    .get_or_create(&ReasonLabel { reason })
                    .inc();
                (aimed, "failure")
            }
        };
        let labels = OperationLabels { direction, result };
        self.operations.get_or_create(&labels).inc();
    }

    /// A cluster is protected; it is for as long as what is returned.
    pub fn protect(&self) -> Protecting {
        Protecting {
            began: self.protected.open(),
            time: self.protected.clone(),
            lengths: self.protections.clone(),
        }
    }
}

fn verdict_labels(verdict: Verdict) -> VerdictLabels {
    VerdictLabels {
        verdict: match verdict {
            Verdict::Healthy => "healthy",
            Verdict::Outage => "outage",
            Verdict::Undetermined(_) => "undetermined",
        },
        reason: verdict_reason(verdict),
    }
}

/// A probe that is under way. One that is given up is not counted.
#[derive(Debug)]
pub struct Probing {
    metrics: Arc<ProberMetrics>,
    began: Instant,
}

impl Probing {
    /// It has ended.
    pub fn ended(self, outcome: &Result<Conclusion, EvidenceError>) {
        let (metrics, took) = (&self.metrics, self.began.elapsed().as_secs_f64());
        let error = match outcome {
            Ok(conclusion) => {
                let (count, duration) = &metrics.succeeded;
                count.inc();
                duration.observe(took);
                match conclusion.verdict {
                    Verdict::Healthy => metrics.healthy.inc(),
                    verdict => metrics
                        .verdicts
                        .get_or_create(&verdict_labels(verdict))
                        .inc(),
                };
                return;
            }
            Err(error) => error,
        };
        let (result, ended) = match error.throttled() {
            Some(_) => ("throttled", ProbeResult::Throttled),
            None => ("failure", ProbeResult::Failure),
        };
        let reason = error.reason();
        metrics.probes.get_or_create(&ResultLabel { result }).inc();
        metrics
            .durations
            .duration(ProbeType::Leases, ended)
            .observe(took);
        metrics
            .evidence_failures
            .get_or_create(&ReasonLabel { reason })
            .inc();
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.metrics.probing.dec();
    }
}

/// A flow that is under way.
#[derive(Debug)]
pub struct Flowing(Arc<ProberMetrics>);

impl Drop for Flowing {
    fn drop(&mut self) {
        self.0.flows.dec();
    }
}

/// A cluster that is protected.
#[derive(Debug)]
pub struct Protecting {
    time: Arc<ProtectedTime>,
    began: Duration,
    lengths: Histogram,
}

impl Protecting {
    /// It is not any more, after so long a time, that under an earlier process included.
    pub fn ended(self, length: Duration) {
        self.lengths.observe(length.as_secs_f64());
    }
}

impl Drop for Protecting {
    fn drop(&mut self) {
        self.time.close(self.began);
    }
}

/// The time for which clusters are protected, correct at any moment, and without a look at each.
#[derive(Debug)]
struct ProtectedTime {
    /// All times count from here.
    origin: Instant,
    spans: Mutex<Spans>,
}

#[derive(Debug, Default)]
struct Spans {
    /// Of those that have ended.
    closed: Duration,
    open: u32,
    /// The sum of their beginnings.
    beginnings: Duration,
}

impl Default for ProtectedTime {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            spans: Mutex::default(),
        }
    }
}

impl ProtectedTime {
    fn open(&self) -> Duration {
        let began = self.origin.elapsed();
        let mut spans = self.lock();
        spans.open += 1;
        spans.beginnings += began;
        began
    }

    fn close(&self, began: Duration) {
        let now = self.origin.elapsed();
        let mut spans = self.lock();
        spans.open = spans.open.saturating_sub(1);
        spans.beginnings = spans.beginnings.saturating_sub(began);
        spans.closed += now.saturating_sub(began);
    }

    fn total(&self) -> Duration {
        let now = self.origin.elapsed();
        let spans = self.lock();
        spans.closed + (now * spans.open).saturating_sub(spans.beginnings)
    }

    fn lock(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn protected_time_is_right_at_any_moment() {
        let metrics = ProberMetrics::default();
        let total = || metrics.protected.total();
        assert_eq!(total(), Duration::ZERO);
        advance(SECOND * 5).await;
        let first = metrics.protect();
        advance(SECOND * 2).await;
        assert_eq!(total(), SECOND * 2);
        let second = metrics.protect();
        advance(SECOND * 3).await;
        assert_eq!(total(), SECOND * 8);
        first.ended(SECOND * 5);
        advance(SECOND * 10).await;
        assert_eq!(total(), SECOND * 18);
        // Its loop has ended without letting go.
        drop(second);
        advance(SECOND * 10).await;
        assert_eq!(total(), SECOND * 18);
    }
}
