//! What writers show in metrics: how the clusters fare, and how the writes do.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, family::Family, gauge::Gauge},
};

use super::{
    ClusterReport,
    finding::{Finding, reason},
    policy::PolicyReport,
    summary::{Standing, Summary},
};
use crate::{
    api::Protection,
    runtime::metrics::Registry,
    status::{WriterMetrics, set},
};

/// The metrics with series for each cluster.
const FINDING: &str = "cluster_finding";
const PROTECTED: &str = "cluster_protected";
const LEASES: &str = "cluster_leases";

/// The metrics of the prober's writer. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct HealthMetrics {
    policies: Family<[(&'static str, &'static str); 1], Gauge>,
    clusters: Family<[(&'static str, &'static str); 1], Gauge>,
    protected: Gauge,
    overdue: Gauge,
    owed: Gauge,
    /// Those that fell silent at once.
    pub(super) widespread: Gauge,
    held: Gauge,
    pub(super) writer: WriterMetrics,
    /// `None` without series for each cluster.
    each: Option<Each>,
}

impl HealthMetrics {
    /// With series for each cluster only if told so: there may be thousands.
    pub(crate) fn new(cluster_metrics: bool) -> Self {
        Self {
            each: cluster_metrics.then(Each::default),
            ..Self::default()
        }
    }

    /// Shows them.
    pub(crate) fn register(&self, registry: &mut Registry) {
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
            "Selected clusters: pending (not probed yet, or new and without a lease that counts, for a \
             minute at most), skipped (not to be probed), judged (probed, with a verdict or about to have one), undetermined (cannot be \
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
            "Clusters that are protected for longer than --report-protection-after, or maxProtection of their policy",
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
            "Clusters that fell silent together and still are, if they are so many that a common \
             cause is likely; otherwise 0",
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

    /// There are these policies.
    pub(super) fn policies(&self, reports: &[PolicyReport]) {
        for state in ["enforcing", "dry_run", "suspended", "invalid", "deleting"] {
            let those = reports.iter().filter(|report| state_of(report) == state);
            let gauge = self.policies.get_or_create(&[("state", state)]);
            set(&gauge, those.count());
        }
    }

    /// Counts the clusters by their states.
    pub(super) fn counted(&self, clusters: &[Summary<'_>]) {
        let count = |is: fn(&Summary<'_>) -> bool| clusters.iter().filter(|it| is(it)).count();
        for (state, standing) in [
            ("pending", Standing::Pending),
            ("skipped", Standing::Skipped),
            ("judged", Standing::Judged),
            ("undetermined", Standing::Doubtful),
        ] {
            let those = clusters.iter().filter(|it| it.standing == standing);
            let gauge = self.clusters.get_or_create(&[("state", state)]);
            set(&gauge, those.count());
        }
        set(&self.protected, count(|it| it.protected));
        set(&self.overdue, count(|it| it.overdue));
        set(&self.owed, clusters.iter().map(|it| it.owed).sum());
        set(&self.held, count(|it| it.held));
    }

    /// What a prober shows that does not lead.
    pub(crate) fn stand_by(&self) {
        self.policies.clear();
        self.clusters.clear();
        for gauge in [
            &self.protected,
            &self.overdue,
            &self.owed,
            &self.widespread,
            &self.held,
        ] {
            gauge.set(0);
        }
        if let Some(each) = &self.each {
            each.lock().clear();
        }
        self.writer.stand_by();
    }

    /// This is known of a cluster.
    pub(super) fn reported(&self, name: &Arc<str>, report: &ClusterReport) {
        if let Some(each) = &self.each {
            each.lock().insert(name.clone(), rows(report));
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
        it if it.hold.suspended => "suspended",
        it if it.hold.dry_run => "dry_run",
        _ => "enforcing",
    }
}

/// The series of each cluster.
#[derive(Clone, Debug, Default)]
struct Each(Arc<Mutex<BTreeMap<Arc<str>, Vec<Row>>>>);

/// The name of a metric, a label beside the cluster's name, and the value.
type Row = (&'static str, Option<(&'static str, &'static str)>, usize);

/// The series of a cluster with this report.
fn rows(report: &ClusterReport) -> Vec<Row> {
    let reason = Some(("reason", reason(&report.finding)));
    let protected = usize::from(report.protection != Protection::None);
    let mut rows = vec![(FINDING, reason, 1), (PROTECTED, None, protected)];
    if let Finding::Judged(_, seen) = report.finding.leases() {
        let states = ["candidates", "expired", "unknown"].map(|it| Some(("state", it)));
        let counts = [seen.candidates, seen.expired, seen.unknown];
        let states = states.into_iter().zip(counts);
        rows.extend(states.map(|(state, count)| (LEASES, state, count)));
    }
    rows
}

impl Each {
    fn register(&self, registry: &mut Registry) {
        let mut show = |name, labels, help| {
            let each = self.clone();
            registry.register(name, labels, help, Shown { each, name });
        };
        show(
            FINDING,
            &["cluster", "reason"],
            "1 for what was found last of each cluster, by the reason that its ClusterHealth gives",
        );
        show(
            PROTECTED,
            &["cluster"],
            "1 for each cluster whose dependents are scaled down or not all back, 0 for others",
        );
        show(
            LEASES,
            &["cluster", "state"],
            "Node leases of each cluster that was judged: candidates (all that count), and of these \
             expired and unknown",
        );
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Vec<Row>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gauge with series for each cluster.
#[derive(Debug)]
struct Shown {
    each: Each,
    name: &'static str,
}

impl EncodeMetric for Shown {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // To put it into text takes longer than to copy it, and the writer must not wait.
        let all = self.each.lock().clone();
        for (cluster, rows) in &all {
            for (_, label, value) in rows.iter().filter(|(name, ..)| *name == self.name) {
                let labels = [("cluster", &**cluster)].into_iter().chain(*label);
                let labels: Vec<_> = labels.collect();
                let value = i64::try_from(*value).unwrap_or(i64::MAX);
                encoder.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}
