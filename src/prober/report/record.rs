//! What the writer knows of one object: what is there, what is to be there, and when it is written.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::Resource;
use tokio::time::Instant;

use super::{
    ClusterReport,
    changes::Changes,
    events::{
        dependent::{self, DependentNews, Troubles},
        sight::Sight,
    },
    finding::Finding,
    news,
    policy::{self, PolicyReport},
    recall::Recalled,
    status,
    summary::{Standing, Summary},
    widespread,
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ClusterState, ProbePolicy, ProbePolicyStatus},
    gardener::Cluster,
    health::{
        allowance::Allowance,
        events::{self, Event},
        finalizer::Finalizer,
        kept::Kept,
        rights::OUTAGE,
        schedule::Schedule,
    },
    observer::told::ToldState,
    prober::verdict::Verdict,
};

/// A failure of the same reason in other words is written at most this often: the words may
/// alternate, and a budget of five requests a second is shared by a thousand clusters.
const REWORD: Duration = Duration::from_secs(60);
/// A cluster without a verdict counts as new for this long, and then as one that cannot be judged. Twice
/// the default of probeTimeout: a first read may wait for others of that length, and then take as long.
const NEW: Duration = Duration::from_secs(60);
/// A ClusterHealth that is deleted again and again is created anew at most this often.
const RECREATE: Duration = Duration::from_secs(1);

/// A ClusterHealth.
pub(super) struct ClusterRecord {
    /// Until when it counts as new while it has no verdict.
    pub(super) new_until: Instant,
    /// The newest report of this run.
    pub(super) report: Option<Arc<ClusterReport>>,
    /// The report that the status says, once there is one.
    said: Option<Arc<ClusterReport>>,
    said_at: Instant,
    /// The status that is there, as far as is known.
    pub(super) status: ClusterHealthStatus,
    /// The UID of the Cluster that owns the ClusterHealth, empty if none does; `None` if there is
    /// no ClusterHealth.
    pub(super) owner: Option<Arc<str>>,
    /// The UID of the ClusterHealth, once it is known.
    health_uid: Option<String>,
    /// Whether the cluster can be judged, as it was told.
    sight: Sight,
    /// What was amiss with its dependents, as an earlier run has told it.
    troubles: Option<Troubles>,
    /// The state of the cluster, as it was told.
    state: ToldState,
    /// Its state, as the log has told it.
    changes: Changes,
    /// What checks had come to in an earlier run.
    recalled: Recalled,
    /// What is to be written tells only of what was observed, for which nothing is scaled.
    only_observed: bool,
    /// How often it may be said that something else was observed.
    observations: Allowance,
    /// It is to be deleted, since no policy selects its cluster.
    pub(super) unwanted: bool,
    /// It was deleted since the write under way began.
    lost: bool,
    /// When it was last created, or given its owner.
    established: Option<Instant>,
    /// Since when the nodes of the cluster are silent, if they are and that is known.
    pub(super) silent_since: Option<Timestamp>,
    /// They were heard in this run.
    heard: bool,
    pub(super) schedule: Schedule,
}

/// A ProbePolicy.
pub(super) struct PolicyRecord {
    pub(super) report: PolicyReport,
    pub(super) kept: Kept<ProbePolicyStatus>,
    /// The clusters for which it needs the finalizer.
    pub(super) holding: BTreeSet<Arc<str>>,
    pub(super) finalizer: Finalizer,
    /// What is to be said of rights that are missing; before they are asked for, what an earlier run
    /// has left.
    pub(super) lacking: Option<String>,
    /// When the first of its new clusters ceases to count as new.
    pub(super) look_again: Option<Instant>,
}

impl ClusterRecord {
    /// One that is not there yet.
    pub(super) fn new() -> Self {
        Self {
            new_until: Instant::now() + NEW,
            report: None,
            said: None,
            said_at: Instant::now(),
            status: ClusterHealthStatus::default(),
            owner: None,
            health_uid: None,
            sight: Sight::default(),
            troubles: None,
            state: ToldState::default(),
            changes: Changes::new(None),
            recalled: Recalled::default(),
            only_observed: false,
            observations: Allowance::full(),
            unwanted: false,
            lost: false,
            established: None,
            silent_since: None,
            heard: false,
            schedule: Schedule::idle(),
        }
    }

    /// One that an earlier run has left.
    pub(super) fn known(health: ClusterHealth) -> Self {
        let status = health.status.unwrap_or_default();
        Self {
            owner: Some(owner(&health.metadata, None)),
            health_uid: health.metadata.uid,
            sight: Sight::recorded(&status),
            troubles: Troubles::recorded(&status),
            state: ToldState::recorded(&status),
            changes: Changes::new(status.state),
            recalled: Recalled::new(&status.checks),
            silent_since: widespread::recorded_since(&status),
            status,
            schedule: Schedule::refreshed(),
            ..Self::new()
        }
    }

    /// What policies need to know of the cluster.
    pub(super) fn summary(&self, now: Instant) -> Option<Summary<'_>> {
        let mut summary = match &self.report {
            Some(report) => Summary::of(report),
            // What is deleted has been let go.
            None if self.unwanted => return None,
            None => Summary::recorded(&self.status),
        };
        if summary.standing == Standing::Pending && self.new_until <= now {
            summary.standing = Standing::Doubtful;
        }
        Some(summary)
    }

    /// How many of its dependents are owed their replicas.
    pub(super) fn owed(&self) -> usize {
        let dependents = match &self.report {
            Some(report) => &report.dependents,
            None => &self.status.dependents,
        };
        dependents.iter().filter(|it| it.owed).count()
    }

    /// When it is written next; `None` if there is nothing to write, or it is being written.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.schedule.due();
        due.filter(|_| self.unwanted || self.report.is_some())
    }

    /// Whether it is there, and owned by the Cluster that is reported.
    pub(super) fn is_established(&self) -> bool {
        let uid = self.report.as_ref().map(|report| &report.uid);
        uid.is_some() && self.owner.as_ref() == uid
    }

    /// Whether it has yet to tell that the cluster is protected, or is not any more.
    pub(super) fn is_urgent(&self) -> bool {
        let report = self.report.as_ref();
        report.is_some_and(|report| report.protection != self.status.protection)
    }

    /// Whether what is to be written may wait until all else is.
    pub(super) fn is_minor(&self) -> bool {
        self.only_observed && !self.unwanted && !self.is_urgent()
    }

    /// The ClusterHealth, as events refer to it.
    pub(super) fn regarding(&self, name: &str) -> ObjectReference {
        events::regarding::<ClusterHealth>(name, self.health_uid.as_deref())
    }

    /// What this report is the last of several to say.
    pub(super) fn look_at(&mut self, report: &ClusterReport) -> Option<Event> {
        self.sight.look(report)
    }

    /// What this is to say of a dependent.
    pub(super) fn event(&mut self, news: &DependentNews) -> Option<Event> {
        let policy = match &self.report {
            Some(report) => report.policy.as_deref(),
            None => self.status.policy.as_deref(),
        };
        dependent::event(news, policy, self.troubles.as_mut())
    }

    /// That a command has not ended in time, which was tolerated.
    pub(super) fn tolerated(&self, check: &str, message: String) -> Event {
        let report = self.report.as_ref();
        let policy = report.and_then(|it| it.policy.as_deref());
        tolerated(policy.unwrap_or_default(), check, message)
    }

    /// Says in the log that the state of the cluster is another than before.
    pub(super) fn log_state(&mut self, cluster: &str, report: &ClusterReport) {
        let Some(view) = report.observed.as_ref() else {
            // Whatever it is next, it begins anew.
            self.changes.rest();
            return;
        };
        if let Some(change) = self.changes.take(view.state, Instant::now()) {
            let (from, to) = (change.from.map(ClusterState::name), change.to.name());
            let between = Some(change.between).filter(|number| *number > 0);
            tracing::info!(cluster, from, to, between, "state: {}", view.message);
        }
    }

    /// Takes up a report, and tells whether policies have to know.
    pub(super) fn take(&mut self, mut report: ClusterReport) -> bool {
        let left = self.report.is_none() && self.status.reason.is_some();
        if left && report.finding == Finding::Pending {
            // What an earlier run has left stands until there is something to say.
            return false;
        }
        let was_new = self.report.as_ref();
        let was_new = was_new.is_some_and(|known| known.finding == Finding::Pending);
        if report.finding == Finding::Pending && !was_new {
            self.new_until = Instant::now() + NEW;
        }
        self.recalled.fill_in(&mut report.checks);
        let news = self.report.as_ref().is_none_or(|known| {
            known.looked_at != report.looked_at
                || news::is_news(known, &report)
                || news::is_other_finding(known, &report)
        });
        let leases = report.finding.leases();
        self.heard |= matches!(leases, Finding::Judged(Verdict::Healthy, _));
        let (before, now) = (self.silent_since, Timestamp::now());
        self.silent_since = widespread::silent_since(&report, before, self.heard, now);
        self.report = Some(Arc::new(report));
        if std::mem::take(&mut self.unwanted) {
            self.said = None;
        }
        self.look();
        news
    }

    /// Has it written if the newest report says something new.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        let Some(report) = &self.report else {
            return;
        };
        self.only_observed = false;
        if !self.is_established() {
            let again = self.established.map_or(now, |last| last + RECREATE);
            self.schedule.hurry(now.max(again));
            return;
        }
        match &self.said {
            Some(said) if news::is_news(said, report) => self.schedule.hurry(now),
            Some(said) if news::is_other_observation(said, report) => {
                self.only_observed = true;
                self.schedule.hurry(self.observations.next(now));
            }
            Some(said) if news::is_reworded(said, report) => {
                self.schedule.hurry(now.max(self.said_at + REWORD));
            }
            // What was to be said later is over.
            Some(_) => self.schedule.relax(),
            None => {
                let wanted = status::status(report, &self.status, Timestamp::now());
                if !report.problems.is_empty() || status::differs(&self.status, &wanted) {
                    self.schedule.hurry(now);
                } else {
                    // What an earlier run has left says as much as this report.
                    self.said = Some(report.clone());
                }
            }
        }
    }

    /// Nobody keeps a record of the cluster any more.
    pub(super) fn unselect(&mut self) {
        self.report = None;
        self.drop_health();
    }

    /// The ClusterHealth is deleted. What was reported still counts for its policy.
    pub(super) fn drop_health(&mut self) {
        self.said = None;
        self.silent_since = None;
        self.unwanted = true;
        self.schedule.hurry(Instant::now());
    }

    /// The watch tells of it.
    pub(super) fn seen(&mut self, metadata: &ObjectMeta) {
        // What is told during a write may be what it has just replaced.
        if !self.schedule.is_writing() {
            self.owner = Some(owner(metadata, self.report.as_deref()));
            self.health_uid.clone_from(&metadata.uid);
            self.look();
        }
    }

    /// It was deleted, by somebody else if it is wanted.
    pub(super) fn vanished(&mut self) {
        self.owner = None;
        self.health_uid = None;
        self.lost = true;
        if !self.unwanted {
            self.look();
        }
    }

    /// It was deleted as it was to be; its cluster may be selected again.
    pub(super) fn deleted(&mut self) {
        self.schedule.settle(Duration::ZERO);
        self.status = ClusterHealthStatus::default();
        self.owner = None;
        self.health_uid = None;
        self.sight = Sight::default();
        self.state = ToldState::default();
        if !self.unwanted {
            self.look();
        }
    }

    /// A write of what is known now begins.
    pub(super) fn begin(&mut self) {
        self.lost = false;
        if self.report.is_some() && !self.is_established() {
            self.established = Some(Instant::now());
        }
        self.schedule.begin();
    }

    /// This report was written, as this status; tells what is new in it. The ClusterHealth has this
    /// UID.
    pub(super) fn wrote(
        &mut self,
        report: Arc<ClusterReport>,
        status: ClusterHealthStatus,
        uid: Option<String>,
    ) -> Vec<Event> {
        let mut events = super::events::cluster::transitions(&self.status, &status);
        events.extend(self.state.tell(&status));
        // What news carry along costs no write.
        let observed = |said: &Arc<ClusterReport>| {
            !news::is_news(said, &report) && news::is_other_observation(said, &report)
        };
        if self.said.as_ref().is_some_and(observed) {
            self.observations.spend(Instant::now());
        }
        self.health_uid = uid;
        self.schedule.settle(Duration::ZERO);
        self.schedule.refresh();
        self.status = status;
        if !self.lost {
            self.owner = Some(report.uid.clone());
        }
        self.said = Some(report);
        self.said_at = Instant::now();
        if self.unwanted {
            // Its cluster was let go during the write.
            self.schedule.hurry(Instant::now());
        } else {
            self.look();
        }
        events
    }
}

impl PolicyRecord {
    /// One of which the watch tells for the first time; `status` is what an earlier run has left.
    pub(super) fn new(report: PolicyReport, status: ProbePolicyStatus) -> Self {
        Self {
            finalizer: Finalizer::new(report.held),
            lacking: OUTAGE.told(&status.conditions).map(str::to_owned),
            report,
            kept: Kept::new(status),
            holding: BTreeSet::new(),
            look_again: None,
        }
    }

    /// Whether this status has to be written.
    pub(super) fn calls_for(&self, status: &ProbePolicyStatus) -> bool {
        self.kept.is_doubtful() || policy::differs(&self.kept.status, status)
    }

    /// The policy, as events refer to it.
    pub(super) fn regarding(&self) -> ObjectReference {
        let PolicyReport { name, uid, .. } = &self.report;
        events::regarding::<ProbePolicy>(name, Some(uid))
    }

    /// What has become of the finalizer.
    pub(super) fn finalizer_event(&mut self) -> Option<Event> {
        let on = self.finalizer.news(!self.holding.is_empty())?;
        Some(super::events::policy::finalizer(on, &self.holding))
    }

    /// Whether the finalizer is to be put on or taken off.
    pub(super) fn finalizer_change(&self) -> Option<bool> {
        self.finalizer
            .change(!self.holding.is_empty(), self.report.deleting)
    }
}

/// The UID of the Cluster that owns a ClusterHealth, empty if none does. Of several owners, the one
/// of the report is meant: the others are what the garbage collector has not taken off yet.
fn owner(metadata: &ObjectMeta, report: Option<&ClusterReport>) -> Arc<str> {
    let owners = metadata.owner_references.iter().flatten();
    let mut clusters = owners.filter(|owner| owner.kind == Cluster::kind(&()));
    let ours = |uid: &str| report.is_some_and(|report| *report.uid == *uid);
    let found = match clusters.clone().find(|owner| ours(&owner.uid)) {
        Some(owner) => Some(owner),
        None => clusters.next(),
    };
    found.map_or_else(Arc::default, |owner| owner.uid.as_str().into())
}

/// That a command has not ended in time, which was tolerated. What several checks of a policy tell of
/// one cluster is not taken for the same.
fn tolerated(policy: &str, check: &str, message: String) -> Event {
    let check = ObjectReference {
        field_path: Some(format!("spec.checks{{{check}}}")),
        ..events::regarding::<ProbePolicy>(policy, None)
    };
    Event {
        related: Some(Box::new(check)),
        ..Event::new(&events::kinds::EXEC_TIMEOUT_TOLERATED, message)
    }
}
