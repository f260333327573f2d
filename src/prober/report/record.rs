//! One ClusterHealth: the status that is there, the one that is wanted, and when it is written.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::Resource;
use tokio::time::Instant;

use super::{
    ClusterReport,
    status::status,
    urgency::{Urgency, differs, urgency},
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus},
    gardener::Cluster,
    status::{
        allowance::Allowance,
        conditions, events,
        request::{Applied, WriteError, complain},
        schedule::Schedule,
    },
    util::now::wall,
};

/// Minimum time between two writes that differ in words alone: the words may alternate, and a thousand
/// clusters share a budget of five requests a second.
const REWORD: Duration = Duration::from_secs(60);
/// Minimum time between two creations of a ClusterHealth that somebody deletes again and again.
const RECREATE: Duration = Duration::from_secs(1);

/// A report with its status, which has no times until it is written.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) report: ClusterReport,
    pub(super) status: ClusterHealthStatus,
}

impl Said {
    pub(super) fn by(report: ClusterReport) -> Self {
        let status = status(&report);
        Self { report, status }
    }

    /// Keeps what was said of the nodes until they have been read.
    pub(super) fn keep_nodes(&mut self, said: &ClusterHealthStatus) {
        let status = &mut self.status;
        if status.state.is_none() || status.nodes.is_some() {
            return;
        }
        status.nodes.clone_from(&said.nodes);
        status
            .nodes_pid_pressure
            .clone_from(&said.nodes_pid_pressure);
        status
            .nodes_memory_pressure
            .clone_from(&said.nodes_memory_pressure);
        status
            .nodes_disk_pressure
            .clone_from(&said.nodes_disk_pressure);
        status.unhealthy_nodes.clone_from(&said.unhealthy_nodes);
    }
}

/// A ClusterHealth.
pub(super) struct Record {
    /// The newest report of this run.
    pub(super) wanted: Option<Said>,
    /// The status that is there, as far as is known; with its report once this run has written it, or found
    /// that it says the same.
    said: Result<Said, ClusterHealthStatus>,
    /// The newest status of which events were told, if it could not be written.
    told: Option<Box<ClusterHealthStatus>>,
    /// The urgency of the wanted status.
    urgency: Option<Urgency>,
    /// The limit for writes of observations that come and go.
    observations: Allowance,
    /// The UID of the Cluster that owns the ClusterHealth, empty if none does; `None` if there is
    /// no ClusterHealth.
    owner: Option<Arc<str>>,
    /// The UID of the ClusterHealth, once it is known.
    uid: Option<String>,
    /// The ClusterHealth is to be deleted.
    pub(super) unwanted: bool,
    /// The time of its last creation, or change of owner.
    established: Option<Instant>,
    pub(super) schedule: Schedule,
}

/// The order of writes that are due at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A finalizer.
    First,
    /// A cluster is protected, or is not any more.
    Urgent,
    /// Any other news.
    News,
    /// A cluster is observed otherwise, if only as unreachable: that may be true of all of them at the
    /// same time, again and again.
    Observed,
}

/// A write under way.
pub(super) struct Written {
    pub(super) wanted: Said,
    urgency: Option<Urgency>,
    /// The ClusterHealth was there, and owned by its Cluster.
    pub(super) was_established: bool,
}

impl Record {
    /// One that is not there yet.
    pub(super) fn new() -> Self {
        Self {
            wanted: None,
            said: Err(ClusterHealthStatus::default()),
            told: None,
            urgency: None,
            observations: Allowance::full(),
            owner: None,
            uid: None,
            unwanted: false,
            established: None,
            schedule: Schedule::idle(),
        }
    }

    /// One that an earlier run has left.
    pub(super) fn known(health: ClusterHealth) -> Self {
        Self {
            owner: Some(owner(&health.metadata, None)),
            uid: health.metadata.uid,
            said: Err(health.status.unwrap_or_default()),
            schedule: Schedule::refreshed(),
            ..Self::new()
        }
    }

    /// The status that is there, as far as is known.
    pub(super) fn status(&self) -> &ClusterHealthStatus {
        match &self.said {
            Ok(said) => &said.status,
            Err(left) => left,
        }
    }

    /// The time of the next write; `None` if there is nothing to write, or a write is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.schedule.due();
        due.filter(|_| self.unwanted || self.wanted.is_some())
    }

    pub(super) fn rank(&self) -> Rank {
        match &self.wanted {
            Some(wanted) if wanted.status.protection != self.status().protection => Rank::Urgent,
            _ if self.unwanted || !self.is_established() => Rank::News,
            _ if self.urgency == Some(Urgency::Observed) => Rank::Observed,
            _ => Rank::News,
        }
    }

    /// The ClusterHealth, as events refer to it.
    pub(super) fn regarding(&self, name: &str) -> ObjectReference {
        events::regarding::<ClusterHealth>(name, self.uid.as_deref())
    }

    /// Takes up the newest report.
    pub(super) fn want(&mut self, wanted: Said) {
        self.wanted = Some(wanted);
        if std::mem::take(&mut self.unwanted) {
            self.forget_said();
        }
        self.look();
    }

    /// Has it deleted. The newest report still counts, unless the cluster is unselected.
    pub(super) fn delete(&mut self, unselected: bool) {
        self.wanted = self.wanted.take().filter(|_| !unselected);
        self.forget_said();
        self.unwanted = true;
        self.schedule.hurry(Instant::now());
    }

    /// Takes up what the watch says: there is such a ClusterHealth, or none. Returns whether the record
    /// has no further use.
    pub(super) fn seen(&mut self, health: Option<&ObjectMeta>) -> bool {
        match health {
            // During a write, the watch may report what that has just replaced.
            Some(metadata) if !self.schedule.is_writing() => {
                let ours = self.wanted.as_ref().map(|it| &*it.report.uid);
                self.owner = Some(owner(metadata, ours));
                self.uid.clone_from(&metadata.uid);
                self.look();
            }
            None if self.owner.is_some() => {
                (self.owner, self.uid) = (None, None);
                if self.wanted.is_none() && !self.unwanted {
                    return true;
                }
                if !self.unwanted {
                    self.look();
                }
            }
            Some(_) | None => {}
        }
        false
    }

    /// Begins to write what is wanted now; `None` if the record is to be deleted.
    pub(super) fn begin(&mut self) -> Option<Written> {
        let mut wanted = self.wanted.clone().filter(|_| !self.unwanted)?;
        let was_established = self.is_established();
        date(&mut wanted.status, self.status(), wall());
        if !was_established {
            self.established = Some(Instant::now());
        }
        // Unless the watch reports meanwhile that it was deleted.
        self.owner = Some(wanted.report.uid.clone());
        self.schedule.begin();
        Some(Written {
            wanted,
            urgency: self.urgency,
            was_established,
        })
    }

    /// Takes up the result of a write: the UID of the ClusterHealth. Returns the statuses whose difference
    /// the events tell, also if it failed: what was done does not depend on the right to write it down.
    pub(super) fn written(
        &mut self,
        name: &str,
        written: Written,
        result: Applied,
    ) -> (ClusterHealthStatus, ClusterHealthStatus) {
        let before = self.told.take().map(|told| *told);
        let before = before.unwrap_or_else(|| self.status().clone());
        let after = written.wanted.status.clone();
        match result {
            Ok(uid) => self.uid = uid,
            Err(error) => {
                if !written.was_established {
                    self.owner = None;
                }
                self.failed("write the status of", name, &error);
                self.told = Some(Box::new(after.clone()));
                return (before, after);
            }
        }
        // What is written along with news costs no write.
        if written.urgency == Some(Urgency::Observed) {
            self.observations.spend(Instant::now());
        }
        self.schedule.settle(Duration::ZERO);
        self.schedule.refresh();
        self.said = Ok(written.wanted);
        if self.unwanted {
            // Its cluster was let go during the write.
            self.forget_said();
            self.schedule.hurry(Instant::now());
        } else {
            self.look();
        }
        (before, after)
    }

    /// Takes up the result of a deletion. Returns whether the record has no further use.
    pub(super) fn deleted(&mut self, name: &str, result: Result<(), WriteError>) -> bool {
        if let Err(error) = result {
            self.failed("delete", name, &error);
            return false;
        }
        if self.unwanted && self.wanted.is_none() {
            return true;
        }
        // Its cluster may be selected again, or what is owed to it still counts.
        self.schedule.removed();
        self.said = Err(ClusterHealthStatus::default());
        self.told = None;
        (self.owner, self.uid) = (None, None);
        if !self.unwanted {
            self.look();
        }
        false
    }

    fn failed(&mut self, tried: &str, name: &str, error: &WriteError) {
        complain(tried, "ClusterHealth", name, &self.schedule, error);
        self.schedule.failed();
    }

    fn forget_said(&mut self) {
        self.said = Err(self.status().clone());
    }

    /// Whether the ClusterHealth exists, and belongs to the Cluster that is reported.
    fn is_established(&self) -> bool {
        let uid = self.wanted.as_ref().map(|it| &it.report.uid);
        uid.is_some() && self.owner.as_ref() == uid
    }

    /// Has it written if the wanted status differs from the one that is there.
    fn look(&mut self) {
        let now = Instant::now();
        let Some(wanted) = &self.wanted else {
            return;
        };
        if !self.is_established() {
            let again = self.established.map_or(now, |last| last + RECREATE);
            return self.schedule.hurry(now.max(again));
        }
        self.urgency = match &self.said {
            Ok(said) => urgency(said, wanted),
            Err(left) => differs(left, wanted).then_some(Urgency::News),
        };
        let due = match self.urgency {
            Some(Urgency::News) => now,
            Some(Urgency::Observed) => self.observations.next(now),
            Some(Urgency::Words) => now.max(self.schedule.written_at() + REWORD),
            // What was to be said later is over.
            None if self.said.is_ok() => return self.schedule.relax(),
            // What an earlier run has left says as much.
            None => {
                self.said = Ok(Said {
                    report: wanted.report.clone(),
                    status: self.status().clone(),
                });
                return;
            }
        };
        self.schedule.hurry(due);
    }
}

/// Dates a status: what is as before keeps its time.
pub(super) fn date(status: &mut ClusterHealthStatus, before: &ClusterHealthStatus, now: Timestamp) {
    status.last_transition_time = match before.protection == status.protection {
        true => before.last_transition_time.clone(),
        false => Some(Time(now)),
    };
    let same_state = before.state == status.state;
    let since = before.last_state_transition_time.clone();
    let since = since.filter(|_| same_state).unwrap_or(Time(now));
    status.last_state_transition_time = status.state.map(|_| since);
    conditions::date(&mut status.conditions, &before.conditions, now);
}

/// The UID of the Cluster that owns a ClusterHealth, empty if none does. Of several owners, the one
/// of the report is meant: the garbage collector has not removed the others yet.
fn owner(metadata: &ObjectMeta, ours: Option<&str>) -> Arc<str> {
    let owners = metadata.owner_references.iter().flatten();
    let mut clusters = owners.filter(|owner| owner.kind == Cluster::kind(&()));
    let found = clusters.clone().find(|owner| ours == Some(&*owner.uid));
    let found = found.or_else(|| clusters.next());
    found.map_or_else(Arc::default, |owner| owner.uid.as_str().into())
}
