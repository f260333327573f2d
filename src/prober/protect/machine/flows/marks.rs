//! When what is back loses the marks that it has kept.

use std::time::Duration;

use tokio::time::Instant;

use super::{Flows, UnderWay};
use crate::prober::{
    flow::Ending,
    machine::Effect,
    plan::{Aim, Purpose},
};

/// What is restored keeps its mark for so long after all of it runs. gardenlet decides about replicas in one
/// step and writes them, without a precondition, in another of the same reconciliation.
const MARKS_STAY: Duration = Duration::from_secs(60);
/// Meanwhile it is looked at this often, and a mark that could not be removed is tried again after this.
pub(super) const MARKED_LOOK: Duration = Duration::from_secs(15);
/// Marks that are not needed are removed by a flow that is over after this.
const TRY: Duration = Duration::from_secs(3600);

/// When the marks fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Marks {
    /// When they do, if there are any.
    at: Option<Instant>,
    /// Until when the evidence counts by which they do.
    pub(super) until: Option<Instant>,
    /// No policy selects the cluster, so they fall immediately and without evidence.
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
    /// Takes up whether the marks of what is back are needed. If not, they are removed, whatever is known of
    /// the cluster.
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

    /// Takes up when the marks fall, now that this flow has ended.
    pub(super) fn conclude_marks(&mut self, flow: UnderWay, ending: Ending, now: Instant) {
        let removes = flow.removes_marks;
        // What cannot be read, and is owed nothing, keeps no other waiting.
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

    /// Begins a flow over what is back and marked. It scales nothing, so none waits for another.
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
