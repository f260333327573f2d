//! One ClusterHealth: what is there, what is to be there, and when it is written.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::Resource;
use tokio::time::Instant;

use super::{
    allowance::Allowance,
    conditions, events,
    request::{Applied, WriteError, complain, delete, write_health},
    schedule::Schedule,
    writer::{self, Write},
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus},
    gardener::Cluster,
    runtime::seed::Seed,
};

/// A status that differs in words alone is written at most this often: the words may alternate, and a
/// thousand clusters share a budget of five requests a second.
const REWORD: Duration = Duration::from_secs(60);
/// A ClusterHealth that is deleted again and again is created anew at most this often.
const RECREATE: Duration = Duration::from_secs(1);

/// Why a status is written that differs from the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// It puts the same into other words: once a minute.
    Words,
    /// Something else was observed, which may come and go: within an allowance, and after all else.
    Observed,
    /// It is written immediately.
    News,
}

/// A status with what tells it from others beyond its fields.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K> {
    pub(crate) status: ClusterHealthStatus,
    pub(crate) key: K,
}

/// What tells statuses apart.
pub(crate) trait Key: Clone + Send + Sync + 'static {
    /// How urgent it is to write the second status where the first one is.
    fn urgency(said: &Keyed<Self>, wanted: &Keyed<Self>) -> Option<Urgency>;

    /// Whether it has to be written where an earlier run has left this status.
    fn differs(left: &ClusterHealthStatus, wanted: &Keyed<Self>) -> bool;
}

/// A ClusterHealth.
pub(crate) struct Record<K> {
    /// The newest status, and the UID of the Cluster that is to own it.
    wanted: Option<(Arc<str>, Keyed<K>)>,
    /// The status that is there, as far as is known; with its key once this run has written it, or found
    /// that it says the same.
    said: Result<Keyed<K>, ClusterHealthStatus>,
    /// How urgent the newest status is.
    urgency: Option<Urgency>,
    /// How often it may be written that something else was observed.
    observations: Allowance,
    /// The UID of the Cluster that owns the ClusterHealth, empty if none does; `None` if there is
    /// no ClusterHealth.
    owner: Option<Arc<str>>,
    /// The UID of the ClusterHealth, once it is known.
    uid: Option<String>,
    /// It is to be deleted.
    unwanted: bool,
    /// When it was last created, or given its owner.
    established: Option<Instant>,
    pub(crate) schedule: Schedule,
}

/// What was written.
pub(crate) struct Written<K> {
    wanted: Keyed<K>,
    urgency: Option<Urgency>,
    /// It was there, and owned by its Cluster.
    was_established: bool,
}

impl<K: Key> Record<K> {
    /// One that is not there yet.
    pub(crate) fn new() -> Self {
        Self {
            wanted: None,
            said: Err(ClusterHealthStatus::default()),
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
    pub(crate) fn known(metadata: ObjectMeta, status: ClusterHealthStatus) -> Self {
        Self {
            owner: Some(owner(&metadata, None)),
            uid: metadata.uid,
            said: Err(status),
            schedule: Schedule::refreshed(),
            ..Self::new()
        }
    }

    /// The status that is there, as far as is known.
    pub(crate) fn status(&self) -> &ClusterHealthStatus {
        match &self.said {
            Ok(said) => &said.status,
            Err(left) => left,
        }
    }

    /// The status that is to be there, once this run has one.
    pub(crate) fn wanted(&self) -> Option<&Keyed<K>> {
        self.wanted.as_ref().map(|(_, wanted)| wanted)
    }

    /// Whether it is to be deleted.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.unwanted
    }

    /// When it is written next; `None` if there is nothing to write, or it is being written.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = self.schedule.due();
        due.filter(|_| self.unwanted || self.wanted.is_some())
    }

    /// Whether it has yet to say that the cluster is protected, or is not any more.
    pub(crate) fn is_urgent(&self) -> bool {
        let wanted = self.wanted();
        wanted.is_some_and(|it| it.status.protection != self.status().protection)
    }

    /// Whether what is to be written may wait until all else is.
    pub(crate) fn is_minor(&self) -> bool {
        let observed = self.urgency == Some(Urgency::Observed) && self.is_established();
        observed && !self.unwanted && !self.is_urgent()
    }

    /// The ClusterHealth, as events refer to it.
    pub(crate) fn regarding(&self, name: &str) -> ObjectReference {
        events::regarding::<ClusterHealth>(name, self.uid.as_deref())
    }

    /// Takes up the newest status, of the Cluster with this UID.
    pub(crate) fn want(&mut self, uid: Arc<str>, wanted: Keyed<K>) {
        self.wanted = Some((uid, wanted));
        if std::mem::take(&mut self.unwanted) {
            self.forget_said();
        }
        self.look();
    }

    /// Nobody keeps it any more.
    pub(crate) fn unselect(&mut self) {
        self.wanted = None;
        self.delete();
    }

    /// Has it deleted. What was wanted last is still known.
    pub(crate) fn delete(&mut self) {
        self.forget_said();
        self.unwanted = true;
        self.schedule.hurry(Instant::now());
    }

    /// Takes up what the watch says: there is such a ClusterHealth, or none. Returns whether nobody has
    /// any use for the record.
    pub(crate) fn seen(&mut self, health: Option<&ObjectMeta>) -> bool {
        match health {
            // What the watch says during a write may be what that has just replaced.
            Some(metadata) if !self.schedule.is_writing() => {
                let ours = self.wanted.as_ref().map(|(uid, _)| &**uid);
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

    /// Begins to write it, or to delete it. `wrote` and `deleted` receive the result.
    pub(crate) fn write<C: 'static>(
        &mut self,
        seed: &Seed,
        name: &Arc<str>,
        wrote: fn(&mut C, &str, Written<K>, Applied),
        deleted: fn(&mut C, &str, Result<(), WriteError>),
    ) -> Option<Write<C>> {
        const KIND: &str = "ClusterHealth";
        // Those that were begun before it may be waiting for their turns.
        let seed = match self.is_urgent() {
            true => seed.urgent(),
            false => seed.clone(),
        };
        let (about, name) = (name.clone(), name.clone());
        if self.unwanted {
            self.schedule.begin();
            let request = async move { delete(&seed, &about).await };
            let then = move |content: &mut C, result| deleted(content, &name, result);
            return Some(writer::write(KIND, request, then));
        }
        let written = self.begin()?;
        let (uid, _) = self.wanted.as_ref()?;
        let (uid, status) = (uid.clone(), written.wanted.status.clone());
        let established = written.was_established;
        let request = async move { write_health(&seed, &about, &uid, established, &status).await };
        let then = move |content: &mut C, result| wrote(content, &name, written, result);
        Some(writer::write(KIND, request, then))
    }

    /// A write of what is wanted now begins.
    pub(crate) fn begin(&mut self) -> Option<Written<K>> {
        let was_established = self.is_established();
        let (uid, wanted) = self.wanted.as_ref()?;
        let mut wanted = wanted.clone();
        date(&mut wanted.status, self.status(), Timestamp::now());
        if !was_established {
            self.established = Some(Instant::now());
        }
        // Unless the watch reports meanwhile that it was deleted.
        self.owner = Some(uid.clone());
        self.schedule.begin();
        Some(Written {
            wanted,
            urgency: self.urgency,
            was_established,
        })
    }

    /// A write has ended. If it succeeded, with this UID of the ClusterHealth, returns the status before.
    pub(crate) fn written(
        &mut self,
        name: &str,
        written: Written<K>,
        result: Applied,
    ) -> Option<ClusterHealthStatus> {
        match result {
            Ok(uid) => self.uid = uid,
            Err(error) => {
                if !written.was_established {
                    self.owner = None;
                }
                self.failed("write the status of", name, &error);
                return None;
            }
        }
        // What news carry along costs no write.
        if written.urgency == Some(Urgency::Observed) {
            self.observations.spend(Instant::now());
        }
        self.schedule.settle(Duration::ZERO);
        self.schedule.refresh();
        let before = self.status().clone();
        self.said = Ok(written.wanted);
        if self.unwanted {
            // Its cluster was let go during the write.
            self.forget_said();
            self.schedule.hurry(Instant::now());
        } else {
            self.look();
        }
        Some(before)
    }

    /// A deletion has ended. Returns whether nobody has any use for the record.
    pub(crate) fn deleted(&mut self, name: &str, result: Result<(), WriteError>) -> bool {
        if let Err(error) = result {
            self.failed("delete", name, &error);
            return false;
        }
        if self.unwanted && self.wanted.is_none() {
            return true;
        }
        // Its cluster may be selected again, or what is owed to it still counts.
        self.schedule.settle(Duration::ZERO);
        self.said = Err(ClusterHealthStatus::default());
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

    /// Whether it is there, and owned by the Cluster that is reported.
    fn is_established(&self) -> bool {
        let uid = self.wanted.as_ref().map(|(uid, _)| uid);
        uid.is_some() && self.owner.as_ref() == uid
    }

    /// Has it written if the newest status says something new.
    fn look(&mut self) {
        let now = Instant::now();
        let Some((_, wanted)) = &self.wanted else {
            return;
        };
        if !self.is_established() {
            let again = self.established.map_or(now, |last| last + RECREATE);
            return self.schedule.hurry(now.max(again));
        }
        self.urgency = match &self.said {
            Ok(said) => K::urgency(said, wanted),
            Err(left) => K::differs(left, wanted).then_some(Urgency::News),
        };
        match self.urgency {
            Some(Urgency::News) => self.schedule.hurry(now),
            Some(Urgency::Observed) => self.schedule.hurry(self.observations.next(now)),
            Some(Urgency::Words) => self
                .schedule
                .hurry(now.max(self.schedule.written_at() + REWORD)),
            // What was to be said later is over.
            None if self.said.is_ok() => self.schedule.relax(),
            // What an earlier run has left says as much.
            None => {
                self.said = Ok(Keyed {
                    status: self.status().clone(),
                    key: wanted.key.clone(),
                });
            }
        }
    }
}

/// Dates what a status says: what is as before keeps its time.
pub(crate) fn date(status: &mut ClusterHealthStatus, before: &ClusterHealthStatus, now: Timestamp) {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

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
/// of the report is meant: the others are what the garbage collector has not taken off yet.
fn owner(metadata: &ObjectMeta, ours: Option<&str>) -> Arc<str> {
    let owners = metadata.owner_references.iter().flatten();
    let mut clusters = owners.filter(|owner| owner.kind == Cluster::kind(&()));
    let found = clusters.clone().find(|owner| ours == Some(&*owner.uid));
    let found = found.or_else(|| clusters.next());
    found.map_or_else(Arc::default, |owner| owner.uid.as_str().into())
}
