//! When restored dependents lose their marks.

use std::time::Duration;

use tokio::time::Instant;

use super::{Flows, TRY, UnderWay};
use crate::prober::{
    flow::Ending,
    machine::Effect,
    plan::{Aim, Purpose},
};

/// How long restored dependents keep their marks once all run. gardenlet decides about replicas in one step
/// of a reconciliation, and writes them in another without a precondition.
const MARKS_STAY: Duration = Duration::from_secs(60);
/// Interval of reads meanwhile, and of retries to remove a mark.
pub(super) const MARKED_LOOK: Duration = Duration::from_secs(15);

/// When marks are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Marks {
    /// When, if there are any.
    at: Option<Instant>,
    /// Until when the evidence for that counts.
    pub(super) until: Option<Instant>,
    /// No policy selects the cluster, so they go immediately, without evidence.
    unneeded: bool,
}

impl Marks {
    /// When they are to be removed.
    pub(super) fn due(self) -> Option<Instant> {
        let counts = |at: &Instant| self.unneeded || self.until >= Some(*at);
        self.at.filter(counts)
    }

    /// Until when they may be removed, if they may now.
    pub(super) fn removable_until(self, now: Instant) -> Option<Instant> {
        match self.unneeded {
            true => Some(now + TRY),
            false => self.until.filter(|until| now <= *until),
        }
    }
}

impl Flows {
    /// Sets whether the marks of restored dependents are needed. If not, they are removed without evidence.
    pub(in crate::prober::protect::machine) fn set_marks_unneeded(
        &mut self,
        unneeded: bool,
        now: Instant,
    ) {
        if unneeded && !self.marks.unneeded && self.debts.keeps_marks() {
            self.marks.at = Some(now);
        }
        self.marks.unneeded = unneeded;
    }

    /// Removes the marks if they are due, and may be removed.
    pub(super) fn wake_marks(&mut self, now: Instant) -> Option<Effect> {
        self.marks.due().filter(|due| *due <= now)?;
        if let Some(until) = self.marks.removable_until(now) {
            return Some(self.remove_marks(until, now));
        }
        self.marks.until = None;
        None
    }

    /// Sets when the marks are removed, after this flow has ended.
    pub(super) fn conclude_marks(&mut self, flow: UnderWay, ending: Ending, now: Instant) {
        let removes = flow.removes_marks;
        // No other waits for one that cannot be read and is owed nothing.
        let is_over = ending != Ending::Stopped;
        let at = self.marks.at;
        self.marks.at = if !self.debts.keeps_marks() || self.debts.owes() && !removes {
            None
        } else if removes && is_over {
            Some(now + MARKED_LOOK)
        } else if self.marks.unneeded {
            at.or(Some(now))
        } else if flow.aim == Aim::Restore && is_over {
            at.or(Some(now + MARKS_STAY))
        } else {
            at
        };
    }

    /// Begins a flow over restored, marked dependents. It scales nothing: none waits for another.
    fn remove_marks(&mut self, valid_until: Instant, now: Instant) -> Effect {
        self.debts.begin(now);
        let flow = UnderWay {
            aim: Aim::Restore,
            by_verdict: true,
            removes_marks: true,
            withdrawn: false,
        };
        let tasks = self.debts.marked_tasks();
        self.begin(flow, Purpose::of(flow.aim), tasks, valid_until)
    }
}
