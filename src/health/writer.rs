//! Writes statuses: one task, the only one that does.
//!
//! Reports are coalesced: what is written is the newest that is known when its turn comes. A
//! status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::OwnerReference, jiff::Timestamp};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    cluster, conditions, policy,
    report::{ClusterReport, PolicyReport},
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    gardener::Cluster,
};

/// The field manager of every status.
const FIELD_MANAGER: &str = "dependency-watchdog";
/// The time that one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
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
    client: Client,
    updates: UnboundedReceiver<Update>,
    reports: BTreeMap<Arc<str>, ClusterReport>,
    clusters: BTreeMap<Arc<str>, Record<ClusterHealthStatus>>,
    policies: BTreeMap<Arc<str>, (PolicyReport, Record<ProbePolicyStatus>)>,
}

/// What was last written to one object, and when it is due again.
#[derive(Debug)]
struct Record<S> {
    written: S,
    due: Instant,
    not_before: Instant,
    failures: u32,
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
    pub fn new(client: Client, known: Vec<ClusterHealth>) -> (Self, Reporter) {
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
            client,
            updates,
            reports: BTreeMap::new(),
            clusters,
            policies: BTreeMap::new(),
        };
        (writer, Reporter(sender))
    }

    /// Writes until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = self.next();
            let due = next.as_ref().map(|(due, _)| *due);
            tokio::select! {
                // What is newest is worth more than what is due.
                biased;
                () = stop.cancelled() => return,
                update = self.updates.recv() => match update {
                    Some(update) => self.take(update),
                    None => return,
                },
                () = until(due) => if let Some((_, object)) = next {
                    self.write(object).await;
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

    /// What is due first.
    fn next(&self) -> Option<(Instant, Object)> {
        let clusters = self
            .clusters
            .iter()
            .filter(|(name, record)| record.unwanted || self.reports.contains_key(*name))
            .map(|(name, record)| (record.due, Object::Cluster(name.clone())));
        let policies = self
            .policies
            .iter()
            .map(|(name, (_, record))| (record.due, Object::Policy(name.clone())));
        clusters.chain(policies).min_by_key(|(due, _)| *due)
    }

    async fn write(&mut self, object: Object) {
        match object {
            Object::Cluster(name) => self.write_cluster(&name).await,
            Object::Policy(name) => self.write_policy(&name).await,
        }
    }

    async fn write_cluster(&mut self, name: &Arc<str>) {
        let Some(record) = self.clusters.get_mut(name) else {
            return;
        };
        if record.unwanted {
            let api = objects::<ClusterHealth>(&self.client);
            let deleted = limited(api.delete(name, &DeleteParams::default())).await;
            match deleted {
                Ok(_) | Err(WriteError::NotFound) => {
                    self.clusters.remove(name);
                }
                Err(error) => record.failed("delete", "ClusterHealth", name, &error),
            }
            return;
        }
        let Some(report) = self.reports.get(name) else {
            return;
        };
        let status = cluster::status(report, &record.written, Timestamp::now());
        let mut written = write_status::<ClusterHealth>(&self.client, name, &status).await;
        if let Err(WriteError::NotFound) = written {
            written = match create(&self.client, name, &report.uid).await {
                Ok(()) => write_status::<ClusterHealth>(&self.client, name, &status).await,
                Err(error) => Err(error),
            };
        }
        match written {
            Ok(()) => record.succeeded(status),
            Err(error) => record.failed("write the status of", "ClusterHealth", name, &error),
        }
    }

    async fn write_policy(&mut self, name: &Arc<str>) {
        let Some((report, record)) = self.policies.get_mut(name) else {
            return;
        };
        let status = policy::status(report, &self.reports, &record.written, Timestamp::now());
        if !policy_differs(&record.written, &status) {
            record.settle(POLICY_LOOK);
            return;
        }
        match write_status::<ProbePolicy>(&self.client, name, &status).await {
            Ok(()) => {
                record.succeeded(status);
                record.settle(POLICY_PAUSE);
            }
            // It has been deleted, which the watch will tell.
            Err(WriteError::NotFound) => record.settle(POLICY_PAUSE),
            Err(error) => record.failed("write the status of", "ProbePolicy", name, &error),
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
            unwanted: false,
        }
    }

    /// Has it written by then, unless writes have been failing.
    fn hurry(&mut self, by: Instant) {
        if self.failures == 0 {
            self.due = self.due.min(by.max(self.not_before));
        }
    }

    fn succeeded(&mut self, written: S) {
        self.written = written;
        self.failures = 0;
        self.settle(Duration::ZERO);
    }

    /// Has nothing to write until the refresh, and nothing at all within the pause.
    fn settle(&mut self, pause: Duration) {
        let now = Instant::now();
        self.due = now + refresh();
        self.not_before = now + pause;
    }

    fn failed(&mut self, tried: &str, kind: &str, name: &str, error: &WriteError) {
        tracing::warn!(kind, name, %error, "could not {tried} it; it is tried again");
        let pause = RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.due = Instant::now() + pause.min(RETRY_LIMIT);
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("it does not exist")]
    NotFound,
    #[error("the seed answered {0}")]
    Api(String),
    #[error("the seed did not answer within {REQUEST_LIMIT:?}")]
    Late,
}

async fn limited<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(REQUEST_LIMIT, request).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(WriteError::NotFound),
        Ok(Err(kube::Error::Api(status))) => Err(WriteError::Api(format!(
            "{}: {}",
            status.code, status.message
        ))),
        Ok(Err(error)) => Err(WriteError::Api(error.to_string())),
        Err(_) => Err(WriteError::Late),
    }
}

async fn write_status<K: Resource<DynamicType = ()>>(
    client: &Client,
    name: &str,
    status: &impl Serialize,
) -> Result<(), WriteError> {
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let api = objects::<K>(client);
    limited(api.patch_status(name, &params, &Patch::Apply(patch)))
        .await
        .map(drop)
}

async fn create(client: &Client, name: &str, uid: &str) -> Result<(), WriteError> {
    let owner = OwnerReference {
        api_version: Cluster::api_version(&()).into_owned(),
        kind: Cluster::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let patch = json!({
        "apiVersion": ClusterHealth::api_version(&()),
        "kind": ClusterHealth::kind(&()),
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {},
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let api = objects::<ClusterHealth>(client);
    limited(api.patch(name, &params, &Patch::Apply(patch)))
        .await
        .map(drop)
}

/// Objects of a kind, undecoded: of what the server answers, nothing is needed.
fn objects<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

fn policy_differs(before: &ProbePolicyStatus, after: &ProbePolicyStatus) -> bool {
    before.observed_generation != after.observed_generation
        || before.clusters != after.clusters
        || before.protected_clusters != after.protected_clusters
        || !conditions::same(&before.conditions, &after.conditions)
}

fn refresh() -> Duration {
    REFRESH.mul_f64(1.0 - REFRESH_SPREAD * fastrand::f64())
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
