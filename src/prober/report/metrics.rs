//! What writers show in metrics: how the clusters fare, and how the writes do.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, family::Family, gauge::Gauge},
};

use super::{
    ClusterReport,
    finding::{Finding, reason},
    policy::PolicyReport,
    summary::{Standing, Summary},
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    runtime::metrics::Registry,
    status::{WriterMetrics, set},
};

/// The metrics of the prober's writer. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct HealthMetrics {
    policies: Family<StateLabel, Gauge>,
    clusters: Family<StateLabel, Gauge>,
    protected: Gauge,
    overdue: Gauge,
    owed: Gauge,
    widespread: Gauge,
    held: Gauge,
    writer: WriterMetrics,
    /// `None` without series for each cluster.
    each: Option<Each>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// How many clusters are in which state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    pub(super) probed: usize,
    pending: usize,
    skipped: usize,
    judged: usize,
    undetermined: usize,
    protected: usize,
    overdue: usize,
    owed: usize,
    held: usize,
}

impl Census {
    pub(super) fn count(&mut self, summary: &Summary<'_>, status: &ClusterHealthStatus) {
        *match summary.standing {
            Standing::Pending => &mut self.pending,
            Standing::Skipped => &mut self.skipped,
            Standing::Judged => &mut self.judged,
            Standing::Doubtful => &mut self.undetermined,
        } += 1;
        self.probed += usize::from(summary.probed);
        self.protected += usize::from(summary.protected);
        self.overdue += usize::from(summary.overdue);
        self.held += usize::from(summary.held);
        self.owed += status.dependents.iter().filter(|it| it.owed).count();
    }
}

impl HealthMetrics {
    /// With series for each cluster only if told so: there may be thousands.
    pub fn new(cluster_metrics: bool) -> Self {
        Self {
            each: cluster_metrics.then(Each::default),
            ..Self::default()
        }
    }

    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "probe_policies",
            &["state"],
            "ProbePolicies: enforcing, dry_run (by the mode, or by --dry-run), suspended, invalid, \
             deleting",
            self.policies.clone(),
        );
        registry.register(
            "clusters",
            &["state"],
            "Selected clusters: pending (not probed yet, for a minute at most), skipped (not to be \
             probed), judged (probed, with a verdict or about to have one), undetermined (cannot be \
             judged; or cannot be probed, since their Shoot cannot be read or is in an unknown operation)",
            self.clusters.clone(),
        );
        registry.register(
            "protected_clusters",
            &[],
            "Clusters whose dependents are scaled down, or not all back",
            self.protected.clone(),
        );
        registry.register(
            "overdue_clusters",
            &[],
            "Clusters that are protected for longer than --report-protection-after",
            self.overdue.clone(),
        );
        registry.register(
            "owed_dependents",
            &[],
            "Dependents that are owed their replicas",
            self.owed.clone(),
        );
        registry.register(
            "widespread_outage_clusters",
            &[],
            "Clusters that fell silent at once and still are, if they are so many that a common \
             cause is likely; else 0",
            self.widespread.clone(),
        );
        registry.register(
            "widespread_trigger_clusters",
            &[],
            "Clusters in which a Trigger fails that is not acted on, since its check fails in many \
             clusters of the policy at the same time",
            self.held.clone(),
        );
        self.writer.register(registry);
        if let Some(each) = &self.each {
            each.register(registry);
        }
    }

    /// How its writes fare.
    pub(super) fn writer(&self) -> &WriterMetrics {
        &self.writer
    }

    /// There are these policies.
    pub(super) fn policies(&self, reports: &[PolicyReport]) {
        for state in ["enforcing", "dry_run", "suspended", "invalid", "deleting"] {
            let those = reports.iter().filter(|report| state_of(report) == state);
            set(
                &self.policies.get_or_create(&StateLabel { state }),
                those.count(),
            );
        }
    }

    /// So many clusters are in which state.
    pub(super) fn counted(&self, census: Census) {
        for (state, count) in [
            ("pending", census.pending),
            ("skipped", census.skipped),
            ("judged", census.judged),
            ("undetermined", census.undetermined),
        ] {
            set(&self.clusters.get_or_create(&StateLabel { state }), count);
        }
        set(&self.protected, census.protected);
        set(&self.overdue, census.overdue);
        set(&self.owed, census.owed);
        set(&self.held, census.held);
    }

    /// So many clusters fell silent at once.
    pub(super) fn widespread(&self, clusters: usize) {
        set(&self.widespread, clusters);
    }

    /// This is known of a cluster.
    pub(super) fn reported(&self, name: &Arc<str>, report: &ClusterReport) {
        if let Some(each) = &self.each {
            each.lock().insert(name.clone(), Sample::of(report));
        }
    }

    /// Nobody keeps a record of the cluster any more.
    pub(super) fn gone(&self, name: &str) {
        if let Some(each) = &self.each {
            each.lock().remove(name);
        }
    }
}

fn state_of(report: &PolicyReport) -> &'static str {
    match report {
        it if it.deleting => "deleting",
        it if !it.problems.is_empty() => "invalid",
        it if it.brake.suspend => "suspended",
        it if it.brake.dry_run => "dry_run",
        _ => "enforcing",
    }
}

/// What is shown of each cluster.
#[derive(Clone, Debug, Default)]
struct Each(Arc<Mutex<BTreeMap<Arc<str>, Sample>>>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    reason: &'static str,
    protected: bool,
    /// Candidates, expired, unknown; of clusters that were judged.
    leases: Option<[usize; 3]>,
}

impl Sample {
    fn of(report: &ClusterReport) -> Self {
        Self {
            reason: reason(&report.finding),
            protected: report.protection != Protection::None,
            leases: match report.finding.leases() {
                Finding::Judged(_, seen) => Some([seen.candidates, seen.expired, seen.unknown]),
                _ => None,
            },
        }
    }
}

impl Each {
    fn register(&self, registry: &mut Registry) {
        let mut show = |name, labels, help, rows| {
            let each = self.clone();
            registry.register(name, labels, help, Shown { each, rows });
        };
        show(
            "cluster_finding",
            &["cluster", "reason"],
            "1 for what was found last of each cluster, by the reason that its ClusterHealth gives",
            |sample| vec![(Some(("reason", sample.reason)), 1)],
        );
        show(
            "cluster_protected",
            &["cluster"],
            "1 for each cluster whose dependents are scaled down or not all back, 0 for others",
            |sample| vec![(None, usize::from(sample.protected))],
        );
        show(
            "cluster_leases",
            &["cluster", "state"],
            "Node leases of each cluster that was judged: candidates (all that count), and of these \
             expired and unknown",
            |sample| {
                let states = ["candidates", "expired", "unknown"].map(|it| Some(("state", it)));
                let counts = sample.leases.into_iter().flatten();
                states.into_iter().zip(counts).collect()
            },
        );
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The series of a cluster: a label beside its name, and the value.
type Rows = Vec<(Option<(&'static str, &'static str)>, usize)>;

/// A gauge with series for each cluster.
#[derive(Debug)]
struct Shown {
    each: Each,
    rows: fn(&Sample) -> Rows,
}

impl EncodeMetric for Shown {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // To put it into text takes longer than to copy it, and the writer must not wait.
        let samples = self.each.lock().clone();
        for (name, sample) in &samples {
            for (label, value) in (self.rows)(sample) {
                let labels: Vec<_> = [("cluster", &**name)].into_iter().chain(label).collect();
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                encoder.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
