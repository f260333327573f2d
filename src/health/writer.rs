//! Writes statuses: one task, the only one that does.
//!
//! Reports are coalesced: what is written is the newest that is known when its turn comes. A
//! status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more. A few objects are written at once, so that
//! one whose write hangs keeps no other waiting.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    cluster, policy,
    report::{ClusterReport, PolicyReport},
    request::{WriteError, create, delete, write_status},
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    runtime::{seed::Seed, timer::until},
};

/// So many objects are written at once.
const WRITES_AT_ONCE: usize = 16;
/// When the writer is stopped, what is due may still be written within this.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// A record is written again after this long even if it says the same, at the latest ...
const REFRESH: Duration = Duration::from_secs(15 * 60);
/// ... and after this share of it at the earliest, so that a thousand are spread out.
const REFRESH_SPREAD: f64 = 0.5;
/// A policy's status is written at most this often.
const POLICY_PAUSE: Duration = Duration::from_secs(5);
/// Whether a policy's status says anything new is looked at most this often.
const POLICY_LOOK: Duration = Duration::from_secs(1);
/// After a write that failed; twice as long after each further one, up to the limit.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// Hands reports to the writer. Never blocks.
#[derive(Clone, Debug)]
pub struct Reporter(UnboundedSender<Update>);

#[derive(Debug)]
enum Update {
    Cluster(Arc<str>, Box<ClusterReport>),
    ClusterUnselected(Arc<str>),
    ClusterGone(Arc<str>),
    Policies(Vec<PolicyReport>),
}

/// Writes ClusterHealths and the statuses of ProbePolicies.
pub struct Writer {
    seed: Seed,
    updates: UnboundedReceiver<Update>,
    reports: BTreeMap<Arc<str>, ClusterReport>,
    clusters: BTreeMap<Arc<str>, Record<ClusterHealthStatus>>,
    policies: BTreeMap<Arc<str>, (PolicyReport, Record<ProbePolicyStatus>)>,
    writes: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// A write that has come to an end.
enum Done {
    Cluster(Arc<str>, Box<ClusterHealthStatus>, Result<(), WriteError>),
    Deleted(Arc<str>, Result<(), WriteError>),
    Policy(Arc<str>, Box<ProbePolicyStatus>, Result<(), WriteError>),
}

/// What was last written to one object, and when it is due again.
#[derive(Debug)]
struct Record<S> {
    written: S,
    due: Instant,
    not_before: Instant,
    failures: u32,
    /// A write is under way.
    writing: bool,
    /// There may be something newer than what is being written.
    outdated: bool,
    /// The ClusterHealth is to be deleted, since no policy selects its cluster.
    unwanted: bool,
}

impl Reporter {
    /// All that is known of this cluster.
    pub fn cluster(&self, name: &Arc<str>, report: ClusterReport) {
        self.send(Update::Cluster(name.clone(), Box::new(report)));
    }

    /// No policy selects this cluster any more: its ClusterHealth is deleted.
    pub fn cluster_unselected(&self, name: &Arc<str>) {
        self.send(Update::ClusterUnselected(name.clone()));
    }

    /// This Cluster is gone, and its ClusterHealth with it.
    pub fn cluster_gone(&self, name: &Arc<str>) {
        self.send(Update::ClusterGone(name.clone()));
    }

    /// All policies that there are.
    pub fn policies(&self, policies: Vec<PolicyReport>) {
        self.send(Update::Policies(policies));
    }

    fn send(&self, update: Update) {
        // The writer ends only with the process.
        let _ = self.0.send(update);
    }
}

impl Writer {
    /// A writer for what its reporter is told. `known` are the ClusterHealths that exist.
    pub fn new(seed: Seed, known: Vec<ClusterHealth>) -> (Self, Reporter) {
        let (sender, updates) = mpsc::unbounded_channel();
        let clusters = known
            .into_iter()
            .filter_map(|health| {
                let name = health.metadata.name?;
                Some((
                    Arc::from(name),
                    Record::new(health.status.unwrap_or_default()),
                ))
            })
            .collect();
        let writer = Self {
            seed,
            updates,
            reports: BTreeMap::new(),
            clusters,
            policies: BTreeMap::new(),
            writes: FuturesUnordered::new(),
        };
        (writer, Reporter(sender))
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.next().filter(|_| self.writes.len() < WRITES_AT_ONCE);
            let due = next.as_ref().map(|(due, _)| *due);
            tokio::select! {
                // What is newest is worth more than what is due.
                biased;
                () = stop.cancelled() => break,
                update = self.updates.recv() => match update {
                    Some(update) => self.take(update),
                    None => break,
                },
                Some(done) = self.writes.next() => self.written(done),
                () = until(due) => if let Some((_, object)) = next {
                    self.write(&object);
                },
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again: the
        // marks on the dependents tell as much.
        let _ = timeout(LAST_WRITES, self.write_what_is_due()).await;
    }

    async fn write_what_is_due(&mut self) {
        while let Ok(update) = self.updates.try_recv() {
            self.take(update);
        }
        loop {
            let due = self.next().filter(|(due, _)| *due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some((_, object)) => self.write(&object),
                None => match self.writes.next().await {
                    Some(done) => self.written(done),
                    None => return,
                },
            }
        }
    }

    fn take(&mut self, update: Update) {
        let now = Instant::now();
        match update {
            Update::Cluster(name, report) => {
                let record = self
                    .clusters
                    .entry(name.clone())
                    .or_insert_with(|| Record::new(ClusterHealthStatus::default()));
                let wanted = cluster::status(&report, &record.written, Timestamp::now());
                if cluster::differs(&record.written, &wanted) || record.unwanted {
                    record.hurry(now);
                }
                record.unwanted = false;
                if let Some((_, policy)) = report
                    .policy
                    .as_ref()
                    .and_then(|p| self.policies.get_mut(p))
                {
                    policy.hurry(now);
                }
                self.reports.insert(name, *report);
            }
            Update::ClusterUnselected(name) => {
                self.reports.remove(&name);
                if let Some(record) = self.clusters.get_mut(&name) {
                    record.unwanted = true;
                    record.hurry(now);
                }
            }
            Update::ClusterGone(name) => {
                self.reports.remove(&name);
                self.clusters.remove(&name);
            }
            Update::Policies(reports) => {
                let mut before = std::mem::take(&mut self.policies);
                for report in reports {
                    let name = report.name.clone();
                    let news = before.get(&name).is_none_or(|(known, _)| *known != report);
                    if news && !report.problems.is_empty() {
                        let problems = report.problems.join("; ");
                        tracing::warn!(policy = &*name, "the policy is not obeyed: {problems}");
                    }
                    let entry = match before.remove(&name) {
                        Some((_, mut record)) => {
                            if news {
                                record.hurry(now);
                            }
                            (report, record)
                        }
                        None => {
                            let mut record = Record::new(ProbePolicyStatus::default());
                            record.hurry(now);
                            (report, record)
                        }
                    };
                    self.policies.insert(name, entry);
                }
            }
        }
    }

    /// What is due first, of what is not being written.
    fn next(&self) -> Option<(Instant, Object)> {
        let cluster = self
            .clusters
            .iter()
            .filter(|(_, record)| !record.writing)
            .filter(|(name, record)| record.unwanted || self.reports.contains_key(*name))
            .min_by_key(|(_, record)| record.due)
            .map(|(name, record)| (record.due, Object::Cluster(name.clone())));
        let policy = self
            .policies
            .iter()
            .filter(|(_, (_, record))| !record.writing)
            .min_by_key(|(_, (_, record))| record.due)
            .map(|(name, (_, record))| (record.due, Object::Policy(name.clone())));
        cluster
            .into_iter()
            .chain(policy)
            .min_by_key(|(due, _)| *due)
    }

    fn write(&mut self, object: &Object) {
        match object {
            Object::Cluster(name) => self.write_cluster(name),
            Object::Policy(name) => self.write_policy(name),
        }
    }

    fn write_cluster(&mut self, name: &Arc<str>) {
        let Some(record) = self.clusters.get_mut(name) else {
            return;
        };
        let (seed, name) = (self.seed.clone(), name.clone());
        if record.unwanted {
            record.begin();
            self.writes.push(Box::pin(async move {
                let deleted = delete(&seed, &name).await;
                Done::Deleted(name, deleted)
            }));
            return;
        }
        let Some(report) = self.reports.get(&name) else {
            return;
        };
        record.begin();
        let status = cluster::status(report, &record.written, Timestamp::now());
        let uid = report.uid.clone();
        self.writes.push(Box::pin(async move {
            let mut written = write_status::<ClusterHealth>(&seed, &name, &status).await;
            if written.as_ref().is_err_and(WriteError::is_not_found) {
                written = match create(&seed, &name, &uid).await {
                    Ok(()) => write_status::<ClusterHealth>(&seed, &name, &status).await,
                    Err(error) => Err(error),
                };
            }
            Done::Cluster(name, Box::new(status), written)
        }));
    }

    fn write_policy(&mut self, name: &Arc<str>) {
        let Some((report, record)) = self.policies.get_mut(name) else {
            return;
        };
        let status = policy::status(report, &self.reports, &record.written, Timestamp::now());
        if !policy::differs(&record.written, &status) {
            record.settle(POLICY_LOOK);
            return;
        }
        record.begin();
        let (seed, name) = (self.seed.clone(), name.clone());
        self.writes.push(Box::pin(async move {
            let written = write_status::<ProbePolicy>(&seed, &name, &status).await;
            Done::Policy(name, Box::new(status), written)
        }));
    }

    /// Takes down how a write ended.
    fn written(&mut self, done: Done) {
        match done {
            Done::Cluster(name, status, written) => {
                // Its Cluster may have gone meanwhile.
                let Some(record) = self.clusters.get_mut(&name) else {
                    return;
                };
                match written {
                    Ok(()) => {
                        record.succeeded(*status, Duration::ZERO);
                        self.look_again(&name);
                    }
                    Err(error) => {
                        record.failed("write the status of", "ClusterHealth", &name, &error);
                    }
                }
            }
            Done::Deleted(name, deleted) => {
                let Some(record) = self.clusters.get_mut(&name) else {
                    return;
                };
                match deleted {
                    Err(error) if !error.is_not_found() => {
                        record.failed("delete", "ClusterHealth", &name, &error);
                    }
                    _ if record.unwanted => {
                        self.clusters.remove(&name);
                    }
                    // Its cluster was selected again meanwhile.
                    _ => {
                        record.succeeded(ClusterHealthStatus::default(), Duration::ZERO);
                        self.look_again(&name);
                    }
                }
            }
            Done::Policy(name, status, written) => {
                let Some((_, record)) = self.policies.get_mut(&name) else {
                    return;
                };
                match written {
                    Err(error) if !error.is_not_found() => {
                        record.failed("write the status of", "ProbePolicy", &name, &error);
                    }
                    // It may have been deleted, which the watch will tell.
                    _ => {
                        record.succeeded(*status, POLICY_PAUSE);
                        if record.outdated {
                            // Whether there is anything new is seen when its turn comes.
                            record.due = record.not_before;
                        }
                    }
                }
            }
        }
    }

    /// Has a ClusterHealth written again if what has come during its write says something new.
    fn look_again(&mut self, name: &Arc<str>) {
        let Some(record) = self.clusters.get_mut(name) else {
            return;
        };
        let differs = self.reports.get(name).is_some_and(|report| {
            let status = cluster::status(report, &record.written, Timestamp::now());
            cluster::differs(&record.written, &status)
        });
        if differs || record.unwanted {
            record.hurry(Instant::now());
        }
    }
}

enum Object {
    Cluster(Arc<str>),
    Policy(Arc<str>),
}

impl<S> Record<S> {
    fn new(written: S) -> Self {
        Self {
            written,
            due: Instant::now() + refresh(),
            not_before: Instant::now(),
            failures: 0,
            writing: false,
            outdated: false,
            unwanted: false,
        }
    }

    /// Has it written by then, unless writes have been failing.
    fn hurry(&mut self, by: Instant) {
        if self.writing {
            self.outdated = true;
        } else if self.failures == 0 {
            self.due = self.due.min(by.max(self.not_before));
        }
    }

    /// A write of what is known now begins.
    fn begin(&mut self) {
        self.writing = true;
        self.outdated = false;
    }

    fn succeeded(&mut self, written: S, pause: Duration) {
        self.written = written;
        self.writing = false;
        self.failures = 0;
        self.settle(pause);
    }

    /// Has nothing to write until the refresh, and nothing at all within the pause.
    fn settle(&mut self, pause: Duration) {
        let now = Instant::now();
        self.due = now + refresh();
        self.not_before = now + pause;
    }

    fn failed(&mut self, tried: &str, kind: &str, name: &str, error: &WriteError) {
        tracing::warn!(kind, name, %error, "could not {tried} it; it is tried again");
        self.writing = false;
        let pause = RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.due = Instant::now() + pause.min(RETRY_LIMIT);
    }
}

fn refresh() -> Duration {
    REFRESH.mul_f64(1.0 - REFRESH_SPREAD * fastrand::f64())
}
