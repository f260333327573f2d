//! Slot of one object that is written: what is there, what is wanted, and when that is written.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio::time::Instant;

use super::{
    allowance::Allowance,
    conditions::PROTECTING,
    events::{Event, changes},
    object::{Kind, Status, Weight},
    request::{Applied, Write, complain},
};
use crate::{api::Protection, gardener::Cluster, util::now::wall};

/// A status is written again after this long even if it says the same, at the latest ...
pub const REFRESH: Duration = Duration::from_secs(15 * 60);
/// ... and after this share of it at the earliest, so that a thousand are spread out.
const REFRESH_SPREAD: f64 = 0.5;
/// After a write that failed; twice as long after each further one, up to the limit.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// Minimum time between two creations of a ClusterHealth that somebody deletes again and again.
const RECREATE: Duration = Duration::from_secs(1);
/// Time for which the status of an earlier run stands while reports are incomplete. Twice the default of probeTimeout.
const STANDS: Duration = Duration::from_secs(60);

/// The order of writes that are due at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// An object that is written.
#[derive(Debug)]
pub(super) struct Slot {
    kind: Kind,
    /// UID of the policy, or of the Cluster that is to own the ClusterHealth.
    uid: Arc<str>,
    /// The newest status of this run.
    wanted: Option<Status>,
    /// The status that is there, as far as is known.
    there: Option<Status>,
    /// End of the time for which the status of an earlier run stands while reports are incomplete.
    stands_until: Option<Instant>,
    /// UID of the policy, or of the Cluster, whose status is there; `None` if there is no ClusterHealth.
    owner: Option<Arc<str>>,
    /// UID of the ClusterHealth, once it is known.
    health: Option<String>,
    /// The ClusterHealth is to be deleted.
    unwanted: bool,
    /// Time of the last creation of the ClusterHealth, or change of its owner.
    created: Option<Instant>,
    /// Weight of what is new in the wanted status.
    weight: Option<Weight>,
    /// Time of the next write, if there is something to say.
    due: Option<Instant>,
    /// Time of the next write of a status that says the same.
    refresh: Option<Instant>,
    /// Failed writes in a row, each of which may have been carried out all the same.
    failures: u32,
    writing: bool,
    /// The limit for writes of what comes and goes, ...
    writes: Allowance,
    /// ... and for events.
    events: Allowance,
    /// Reasons before changes of conditions that were too many to be told yet.
    untold: BTreeMap<&'static str, Option<String>>,
}

impl Slot {
    /// An object of which nothing is known.
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            uid: Arc::default(),
            wanted: None,
            there: None,
            stands_until: None,
            owner: None,
            health: None,
            unwanted: false,
            created: None,
            weight: None,
            due: None,
            refresh: None,
            failures: 0,
            writing: false,
            writes: match kind {
                Kind::ProbePolicy | Kind::WeedPolicy => Allowance::of_policies(),
                Kind::ClusterHealth | Kind::Finalizer => Allowance::full(),
            },
            events: Allowance::full(),
            untold: BTreeMap::new(),
        }
    }

    /// Returns an object that an earlier run has left with this status.
    pub(super) fn left(status: Status, uid: Arc<str>, health: Option<String>) -> Self {
        let new = Self::new(status.kind());
        Self {
            owner: Some(uid.clone()),
            uid,
            health,
            refresh: Some(refresh()),
            stands_until: Some(Instant::now() + STANDS),
            there: Some(status),
            ..new
        }
    }

    /// UID of the object, as events refer to it.
    pub(super) fn object_uid(&self) -> Option<&str> {
        match self.kind {
            Kind::ClusterHealth => self.health.as_deref(),
            _ => Some(&self.uid),
        }
    }

    /// Returns whether the ClusterHealth is there, or is to be.
    pub(super) fn is_kept(&self) -> bool {
        !self.unwanted
    }

    /// Takes up the newest status of the object with this UID, and returns the events. Returns `None` if what an
    /// earlier run left stands instead: the report is not complete yet, and tells of no deed.
    pub(super) fn want(
        &mut self,
        uid: &Arc<str>,
        mut status: Status,
        complete: bool,
    ) -> Option<Vec<Event>> {
        if self.uid != *uid && self.kind != Kind::ClusterHealth {
            // Of one that was created anew under its name nothing is known.
            (self.wanted, self.there) = (None, None);
        }
        let stands = self
            .stands_until
            .is_some_and(|until| Instant::now() < until);
        if stands && !complete && status.weigh(self.there.as_ref()) != Some(Weight::Deed) {
            return None;
        }
        self.stands_until = None;
        let before = self.wanted.as_ref().or(self.there.as_ref());
        status.date(before, wall());
        let untold = mem::take(&mut self.untold);
        let said = |condition: &str| match untold.get(condition) {
            Some(reason) => Some((&**reason.as_ref()?, "")),
            None => before?.said(condition),
        };
        let mut events = changes(status.rules(), said, |condition| status.said(condition));
        // What is done is always told, anything else in its time.
        let is_deed = || status.weigh(before) == Some(Weight::Deed);
        events.retain(|event| {
            let may = event.action == PROTECTING && is_deed() || self.events.take();
            if !may {
                let before = said(event.action).map(|(reason, _)| reason.to_owned());
                self.untold.insert(event.action, before);
            }
            may
        });
        self.uid = uid.clone();
        self.wanted = Some(status);
        self.unwanted = false;
        self.look();
        Some(events)
    }

    /// Requests the deletion of the ClusterHealth. The newest status still counts, unless the cluster is unselected.
    pub(super) fn delete(&mut self, unselected: bool) {
        self.wanted = self.wanted.take().filter(|_| !unselected);
        self.unwanted = true;
        // Whatever the watch says: a write under way, or somebody else, may just have created it.
        self.owner.get_or_insert_default();
        self.look();
    }

    /// Takes up what the watch says: there is such a ClusterHealth, or none.
    pub(super) fn seen(&mut self, health: Option<&ObjectMeta>) {
        match health {
            // It is deleted anyway.
            _ if self.unwanted => return,
            // During a write, the watch may report what that has just replaced.
            Some(_) if self.writing => return,
            Some(metadata) => {
                self.owner = Some(owner(metadata, &self.uid));
                self.health.clone_from(&metadata.uid);
            }
            None => (self.owner, self.health) = (None, None),
        }
        self.look();
    }

    /// Takes up what the watch says now of a finalizer. It lags behind our own writes, so this is for what is new in
    /// it.
    pub(super) fn found(&mut self, uid: &Arc<str>, there: Status) {
        (self.uid, self.owner) = (uid.clone(), Some(uid.clone()));
        self.there = Some(there);
        self.failures = 0;
        self.look();
    }

    /// The time of the next write; `None` if there is nothing to write, or a write is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        let refresh = self.refresh.filter(|_| self.wanted.is_some());
        let soonest = [self.due, refresh].into_iter().flatten().min();
        soonest.filter(|_| !self.writing)
    }

    pub(super) fn rank(&self) -> Rank {
        match &self.wanted {
            Some(Status::Finalizer(_)) => Rank::First,
            Some(Status::Cluster(wanted)) => {
                let protection = match &self.there {
                    Some(Status::Cluster(there)) => there.protection,
                    _ => Protection::None,
                };
                if wanted.protection != protection {
                    Rank::Urgent
                } else if self.weight == Some(Weight::Words) && self.is_owned() && !self.unwanted {
                    Rank::Observed
                } else {
                    Rank::News
                }
            }
            _ => Rank::News,
        }
    }

    /// Returns whether the object is neither there nor wanted.
    pub(super) fn is_over(&self) -> bool {
        self.wanted.is_none() && self.owner.is_none() && !self.writing
    }

    /// Brings forward what was put off: nothing more is reported. Words about clusters wait for whoever leads next.
    pub(super) fn close(&mut self) {
        if self.failures == 0 && self.kind != Kind::ClusterHealth {
            self.due = self.due.map(|due| due.min(Instant::now()));
        }
    }

    /// Begins to write what is wanted now.
    pub(super) fn begin(&mut self, name: &Arc<str>) -> Write {
        let status = self.wanted.clone().filter(|_| !self.unwanted);
        let write = Write {
            kind: self.kind,
            name: name.clone(),
            uid: self.uid.clone(),
            established: self.is_owned(),
            weight: self.weight,
            status,
        };
        (self.writing, self.due) = (true, None);
        if write.status.is_some() {
            if !write.established {
                self.created = Some(Instant::now());
            }
            // Unless the watch reports meanwhile that it was deleted.
            self.owner = Some(self.uid.clone());
        }
        write
    }

    /// Takes up the result of a write: the UID of the object.
    pub(super) fn ended(&mut self, write: Write, result: Applied) {
        self.writing = false;
        // That a policy was deleted the watch reports.
        let policy = matches!(self.kind, Kind::ProbePolicy | Kind::WeedPolicy);
        match result {
            Ok(uid) => self.health = uid,
            Err(error) if policy && error.is_not_found() => {}
            Err(error) => {
                // One that is to be deleted may be there all the same.
                if !write.established && !self.unwanted {
                    self.owner = None;
                }
                complain(&write, self.failures > 0, &error);
                let pause = RETRY * 2_u32.saturating_pow(self.failures.min(16));
                self.failures = self.failures.saturating_add(1);
                self.due = Some(Instant::now() + pause.min(RETRY_LIMIT));
                // What is tried again is as good.
                self.refresh = None;
                return;
            }
        }
        self.failures = 0;
        if write.status.is_none() {
            (self.owner, self.health, self.refresh) = (None, None, None);
        } else {
            if write.weight == Some(Weight::Words) {
                self.writes.spend(Instant::now());
            }
            self.refresh = (self.kind != Kind::Finalizer).then(refresh);
        }
        self.there = write.status;
        self.look();
    }

    /// Returns whether the object is there and is that of this UID: a ClusterHealth is owned by its Cluster.
    fn is_owned(&self) -> bool {
        self.owner.as_ref() == Some(&self.uid)
    }

    /// Schedules a write if the wanted status differs from the one that is there.
    fn look(&mut self) {
        let wanted = self.wanted.as_ref();
        self.weight = wanted.and_then(|wanted| wanted.weigh(self.there.as_ref()));
        if self.writing || self.failures > 0 {
            // It is looked at again when that has ended, or is tried again anyway.
            return;
        }
        let now = Instant::now();
        let due = match self.weight {
            _ if self.unwanted => self.owner.is_some().then_some(now),
            _ if wanted.is_none() => None,
            _ if !self.is_owned() => {
                let again = self.created.map_or(now, |last| last + RECREATE);
                Some(again.max(now))
            }
            Some(Weight::Deed) => Some(now),
            Some(Weight::Words) => Some(self.writes.next(now)),
            None => None,
        };
        // It keeps its turn, however often it is reported anew.
        self.due = due.map(|due| self.due.map_or(due, |before| before.min(due)));
    }
}

/// Returns when a status that was written now is written again although it says the same.
fn refresh() -> Instant {
    Instant::now() + REFRESH.mul_f64(1.0 - REFRESH_SPREAD * fastrand::f64())
}

/// The UID of the Cluster that owns a ClusterHealth, empty if none does. Of several owners, ours is meant: the garbage
/// collector has not removed the others yet.
pub(super) fn owner(metadata: &ObjectMeta, ours: &str) -> Arc<str> {
    let owners = metadata.owner_references.iter().flatten();
    let mut clusters = owners.filter(|owner| owner.kind == Cluster::kind(&()));
    let found = clusters.clone().find(|owner| owner.uid == ours);
    let found = found.or_else(|| clusters.next());
    found.map_or_else(Arc::default, |owner| owner.uid.as_str().into())
}
