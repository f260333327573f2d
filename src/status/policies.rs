//! The statuses of policies of one kind: what is there, as far as is known, and when it is written.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    events::{self, Event},
    request::{Applied, WriteError, complain, write_status},
    schedule::Schedule,
    writer::{Write, write},
};
use crate::runtime::seed::Seed;

/// A status is written at most this often.
const PAUSE: Duration = Duration::from_secs(5);
/// A status is compared with the one that is there at most this often.
const LOOK: Duration = Duration::from_secs(1);

/// What is reported of a policy.
pub(crate) trait Reported: PartialEq + Send + 'static {
    /// The kind of the policy.
    type Policy: Resource<DynamicType = ()>;
    /// Its status.
    type Status: Clone + PartialEq + Serialize + Send + Sync + 'static;

    /// The name of that kind.
    const KIND: &'static str;

    /// The events of a status that was written, given the one that was there.
    fn transitions(before: &Self::Status, after: &Self::Status) -> Vec<Event>;

    fn name(&self) -> &Arc<str>;
    fn uid(&self) -> &Arc<str>;
    /// What is wrong with it.
    fn problems(&self) -> &[String];
}

/// A policy, with more that is known of it.
pub(crate) struct Policy<R: Reported, M> {
    pub(crate) report: R,
    /// The status that is there, as far as is known.
    pub(crate) status: R::Status,
    /// The newest status of which events were told, if it could not be written.
    pub(crate) told: Option<R::Status>,
    pub(crate) schedule: Schedule,
    pub(crate) more: M,
}

/// All policies of a kind, by name.
pub(crate) struct Policies<R: Reported, M>(pub(crate) BTreeMap<Arc<str>, Policy<R, M>>);

impl<R: Reported, M> Default for Policies<R, M> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<R: Reported, M: 'static> Policies<R, M> {
    /// Takes up all policies that there are; `new` gives the status that an earlier run has left.
    pub(crate) fn take(&mut self, reports: Vec<R>, mut new: impl FnMut(&R) -> (R::Status, M)) {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.0);
        for report in reports {
            let name = report.name().clone();
            // One that was created anew under its name is another.
            let known = before.remove(&name);
            let known = known.filter(|known| known.report.uid() == report.uid());
            let news = known.as_ref().is_none_or(|known| known.report != report);
            let former = known.as_ref().map(|known| known.report.problems());
            if former != Some(report.problems()) && !report.problems().is_empty() {
                let problems = report.problems().join("; ");
                tracing::warn!(policy = &*name, "the policy is not obeyed: {problems}");
            }
            let policy = match known {
                Some(known) => Policy { report, ..known },
                None => {
                    let (status, more) = new(&report);
                    let schedule = Schedule::refreshed();
                    Policy {
                        report,
                        status,
                        told: None,
                        schedule,
                        more,
                    }
                }
            };
            let policy = self.0.entry(name).insert_entry(policy).into_mut();
            if news {
                policy.schedule.hurry(now);
            }
        }
    }

    /// The policy with this name, if it has this UID.
    pub(crate) fn with_uid(&mut self, name: &str, uid: &str) -> Option<&mut Policy<R, M>> {
        let policy = self.0.get_mut(name);
        policy.filter(|policy| **policy.report.uid() == *uid)
    }

    /// Begins to write this status of a policy, unless it says nothing new. `all` are the policies in the
    /// content; when that has ended, `wrote` receives the events.
    pub(crate) fn write<C: 'static>(
        &mut self,
        seed: &Seed,
        name: &str,
        status: R::Status,
        all: fn(&mut C) -> &mut Self,
        wrote: fn(&mut C, Vec<(ObjectReference, Event)>),
    ) -> Option<Write<C>> {
        let policy = self.0.get_mut(name)?;
        if !policy.schedule.is_doubtful() && policy.status == status {
            policy.schedule.settle(LOOK);
            return None;
        }
        policy.schedule.begin();
        let (name, uid) = (policy.report.name().clone(), policy.report.uid().clone());
        let (seed, about, new) = (seed.clone(), name.clone(), status.clone());
        let request = async move { write_status::<R::Policy>(&seed, &about, &new).await };
        Some(write(R::KIND, request, move |content: &mut C, result| {
            let written = all(content).written(&name, &uid, status, result);
            if let Some(events) = written {
                wrote(content, events);
            }
        }))
    }

    /// A write of this status has ended. Returns the events, also if it failed: what has come about does not
    /// depend on the right to write it down. They are told once.
    fn written(
        &mut self,
        name: &str,
        uid: &str,
        status: R::Status,
        result: Applied,
    ) -> Option<Vec<(ObjectReference, Event)>> {
        let policy = self.0.get_mut(name)?;
        if **policy.report.uid() != *uid {
            // What was meant for a predecessor of the same name may have been written to this one.
            policy.schedule.doubt();
            return None;
        }
        // If it was deleted, the watch reports that.
        let gone = result.as_ref().is_err_and(WriteError::is_not_found);
        let before = policy.told.take().unwrap_or_else(|| policy.status.clone());
        let events = R::transitions(&before, &status).into_iter();
        let events = events.map(|it| (policy.regarding(), it)).collect();
        if let Some(error) = result.err().filter(|_| !gone) {
            let tried = "write the status of";
            complain(tried, R::KIND, name, &policy.schedule, &error);
            policy.schedule.failed();
            policy.told = Some(status);
            return Some(events);
        }
        let outdated = policy.schedule.settle(PAUSE);
        policy.schedule.refresh();
        if outdated {
            policy.schedule.hurry(Instant::now());
        }
        policy.status = status;
        (!gone).then_some(events)
    }
}

impl<R: Reported, M> Policy<R, M> {
    /// The policy, as events refer to it.
    pub(crate) fn regarding(&self) -> ObjectReference {
        events::regarding::<R::Policy>(self.report.name(), Some(self.report.uid()))
    }
}
