//! Which flow is under way over a cluster's dependents, and which comes next.
//!
//! There is at most one. A newer verdict with the same aim extends it; any other wish withdraws it: it ends
//! between two requests, and only then the next one begins.

mod pause;
mod waits;
mod wanted;

use std::time::Duration;

use tokio::time::Instant;

pub(super) use self::wanted::Wanted;
use super::{Effect, confirmation::Confirmed};
use crate::{
    api::{ClusterHealthStatus, Protection},
    cluster::Dependent,
    prober::{
        debts::{Debts, MARKS_STAY},
        flow::{Ending, FlowEvent, FlowInput, FlowPlan, Task, What},
        plan::{Aim, Purpose},
    },
};

/// Minimum time between reads of the dependents of a healthy cluster without marks, or of a held one.
pub(super) const SELDOM: Duration = Duration::from_secs(60);
/// How long restored dependents are not read again, unless a write is in doubt. After that they are: etcd may
/// have been rolled back to a state from an outage.
const BELIEVED: Duration = Duration::from_secs(3600);
/// Interval of reads of dependents that keep their marks, and of retries to remove a mark.
const MARKED_LOOK: Duration = Duration::from_secs(15);
/// Pause before an incomplete flow that no verdict asks for is retried; upper bound of the pause after the
/// seed has refused a scale-down.
const AGAIN: Duration = Duration::from_secs(10);
/// Time limit of a flow without a verdict.
const TRY: Duration = Duration::from_secs(3600);

/// The flow that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    aim: Aim,
    /// A verdict asked for it.
    by_verdict: bool,
    /// It only removes marks, those that were due at that moment.
    removes_marks: Option<Instant>,
    withdrawn: bool,
}

/// One cluster's dependents, what they are owed, and what is done about it.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Flows {
    /// The dependents and what they are owed.
    pub(super) debts: Debts,
    protection: Protection,
    /// `Active` may only mean that marks were found or recalled: not all may be down.
    is_found: bool,
    /// A mark was there when the process began. It counts until all dependents have been read.
    pub(super) expects_marks: bool,
    /// Until when the dependents, seen as a healthy cluster wants them, need no new read.
    restored: Option<Instant>,
    /// Dependents may be written, so that marks fall in time.
    pub(super) may_write: bool,
    /// When a flow with this aim may read again although nothing is known to be left or possible to do:
    /// each read costs requests to the seed, and there may be 1,000 clusters. With the ending of the last
    /// flow.
    look_again: Option<(Aim, Ending, Instant)>,
    under_way: Option<UnderWay>,
    /// What comes once the flow under way has ended, it is time, or it is confirmed.
    next: Wanted,
    pub(super) confirmed: Confirmed,
    /// From when it may be restored, as long as that is wanted.
    pub(super) turn: Option<Instant>,
}

impl Flows {
    /// Resumes from the ClusterHealth of an earlier run.
    pub(super) fn recall(known: Option<&ClusterHealthStatus>, now: Instant) -> Self {
        let mut debts = known.map(Debts::recall).unwrap_or_default();
        debts.keep_marks(now, now + MARKS_STAY);
        let owing = known.filter(|_| debts.owes());
        Self {
            is_found: owing.is_some_and(|known| known.dependents.iter().any(|it| !it.owed)),
            protection: match owing.map(|known| known.protection) {
                None => Protection::None,
                Some(Protection::None) => Protection::Active,
                Some(protection) => protection,
            },
            debts,
            ..Self::default()
        }
    }

    /// Whether the dependents are scaled down.
    pub(super) fn protection(&self) -> Protection {
        self.protection
    }

    /// Whether every scale-down is complete.
    fn is_complete(&self) -> bool {
        self.protection == Protection::Active && !self.is_found
    }

    /// Whether something is owed or keeps its mark, or is being scaled.
    pub(super) fn is_engaged(&self) -> bool {
        let scales = |flow: &UnderWay| matches!(flow.aim, Aim::Protect | Aim::Restore);
        self.is_marked() || self.under_way.as_ref().is_some_and(scales)
    }

    /// Whether something is owed, or keeps its mark.
    pub(super) fn is_marked(&self) -> bool {
        self.debts.owes() || self.debts.keeps_marks()
    }

    /// Whether a flow of this aim has urgent work, as far as is known.
    pub(super) fn is_urgent(&self, aim: Aim) -> bool {
        match aim {
            // Dependents that are down, or were refused, are only read again.
            Aim::Protect => {
                let refused = matches!(self.look_again, Some((Aim::Protect, Ending::Refused, _)));
                !self.is_complete() && !refused
            }
            Aim::Restore | Aim::Release => self.debts.owes() || self.expects_debts(),
            Aim::Look => self.expects_debts(),
        }
    }

    fn expects_debts(&self) -> bool {
        self.expects_marks && !self.debts.is_looked_at()
    }

    /// Adopts the dependents of a policy; none if no policy asks for any. Knowledge about another list does
    /// not apply to this one.
    #[must_use]
    pub(super) fn adopt(&mut self, dependents: &[Dependent], now: Instant) -> Option<Effect> {
        self.debts.adopt(dependents);
        self.restored = None;
        self.look_again = None;
        self.want(Wanted::Nothing, now)
    }

    /// This is wanted from now on.
    #[must_use]
    pub(super) fn want(&mut self, wanted: Wanted, now: Instant) -> Option<Effect> {
        // A restore ends once the opposite is wanted, even if that does not begin.
        if let Some(Aim::Protect | Aim::Release) = wanted.aim() {
            self.debts.reset_delays();
        }
        let restores =
            matches!(wanted, Wanted::Verdict { purpose, .. } if purpose.aim == Aim::Restore);
        self.turn.take_if(|_| !restores);
        if wanted.goes_on(self.next) {
            return None;
        }
        self.next = Wanted::Nothing;
        if let Wanted::Verdict {
            purpose,
            valid_until,
            ..
        } = wanted
        {
            match self.under_way {
                None if !self.is_due(purpose, now) => return None,
                None => {
                    self.next = wanted;
                    return self.go_on(now);
                }
                Some(flow) if flow.aim == purpose.aim && !flow.withdrawn => {
                    return Some(Effect::Flow(FlowInput::Extend(valid_until)));
                }
                Some(_) => {}
            }
        }
        self.next = wanted;
        let flow = self.under_way.as_mut()?;
        flow.withdrawn = true;
        Some(Effect::Flow(FlowInput::Withdraw))
    }

    /// Records what a flow did to a dependent, or met there.
    pub(super) fn note(&mut self, event: &FlowEvent, now: Instant) {
        // An outage may have withdrawn the flow: after that no delay goes on.
        let withdrawn = self.under_way.is_some_and(|flow| flow.withdrawn);
        if !withdrawn || !matches!(event.what, What::Delayed) {
            self.debts.note(&event.dependent, &event.what, now);
        }
    }

    /// When what is wanted is due, or a mark falls, while no flow is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        let wanted = match self.awaits_turn() {
            true => self.turn,
            false => self.next.due(),
        };
        let due = wanted.into_iter().chain(self.unmarks_at()).min();
        due.filter(|_| self.under_way.is_none())
    }

    /// When a mark falls, whatever is known of the shoot by then.
    fn unmarks_at(&self) -> Option<Instant> {
        use Wanted::Complete;
        // What is wanted removes all marks.
        let removes = matches!(self.next, Complete(Aim::Restore | Aim::Release, _));
        let at = self.debts.unmarked_at();
        at.filter(|_| self.may_write && !removes)
    }

    /// Begins what is due, if anything is.
    #[must_use]
    pub(super) fn wake(&mut self, now: Instant) -> Option<Effect> {
        self.due().filter(|due| *due <= now)?;
        if self.unmarks_at().is_some_and(|due| due <= now) {
            return Some(self.unmark(now));
        }
        self.next.due().filter(|due| *due <= now)?;
        let aim = self.next.aim().unwrap_or(Aim::Look);
        Some(self.start(Purpose::of(aim), now + TRY, false, now))
    }

    /// The flow under way has ended. `interval` is the one at which the cluster is probed.
    pub(super) fn ended(&mut self, ending: Ending, interval: Duration, now: Instant) {
        let Some(flow) = self.under_way.take() else {
            return;
        };
        self.conclude(flow, ending, now);
        self.look_again = self
            .pause(flow.aim, ending, interval)
            .map(|pause| (flow.aim, ending, now + pause));
        // What replaces a withdrawn flow has a time of its own.
        if flow.by_verdict || flow.withdrawn {
            return;
        }
        self.next = match self.next {
            Wanted::Held(_) => Wanted::Held(now + SELDOM),
            Wanted::Complete(aim, _) => {
                let settled = aim == Aim::Look || !self.is_marked();
                if settled && self.debts.is_looked_at() {
                    Wanted::Nothing
                } else {
                    // An earlier read would not count either.
                    let doubt = self
                        .debts
                        .doubt()
                        .filter(|_| settled && ending == Ending::Complete);
                    Wanted::Complete(aim, doubt.unwrap_or(now + AGAIN))
                }
            }
            next => next,
        };
    }

    fn start(
        &mut self,
        purpose: Purpose,
        valid_until: Instant,
        by_verdict: bool,
        now: Instant,
    ) -> Effect {
        let aim = purpose.aim;
        self.debts.begin(now);
        self.turn = None;
        match aim {
            Aim::Protect => {
                self.restored = None;
                if self.protection != Protection::Active {
                    self.protection = Protection::ScalingDown;
                }
            }
            Aim::Restore if self.debts.owes() => self.protection = Protection::Restoring,
            Aim::Restore | Aim::Release | Aim::Look => {}
        }
        let flow = UnderWay {
            aim,
            by_verdict,
            removes_marks: None,
            withdrawn: false,
        };
        let tasks = self.debts.tasks(aim);
        self.begin(flow, purpose, tasks, valid_until)
    }

    /// Begins a flow that removes the marks that are due. It scales nothing: none waits for another.
    fn unmark(&mut self, now: Instant) -> Effect {
        self.debts.begin(now);
        let flow = UnderWay {
            aim: Aim::Restore,
            by_verdict: true,
            removes_marks: Some(now),
            withdrawn: false,
        };
        let tasks = self.debts.unmarked_tasks(now);
        self.begin(flow, Purpose::of(flow.aim), tasks, now + TRY)
    }

    /// Begins this flow over these dependents. The machine adds what it knows.
    fn begin(
        &mut self,
        flow: UnderWay,
        purpose: Purpose,
        tasks: Vec<Task>,
        valid_until: Instant,
    ) -> Effect {
        self.under_way = Some(flow);
        Effect::Start(Box::new(FlowPlan {
            purpose,
            tasks,
            valid_until,
            patience: None,
            urgent: flow.removes_marks.is_none() && self.is_urgent(flow.aim),
            why: String::new(),
            nodes_back: true,
        }))
    }

    fn is_due(&self, purpose: Purpose, now: Instant) -> bool {
        let aim = purpose.aim;
        let wanted = match aim {
            Aim::Protect | Aim::Release | Aim::Look => true,
            Aim::Restore => {
                let believed = self.restored.is_some_and(|until| now < until);
                let drops_marks = !purpose.keep_marks && self.debts.keeps_marks();
                !believed || drops_marks || self.debts.owes()
            }
        };
        wanted
            && self
                .look_again
                .is_none_or(|(of, _, again)| of != aim || now >= again)
    }

    fn conclude(&mut self, flow: UnderWay, ending: Ending, now: Instant) {
        let (owes, aim) = (self.debts.owes(), flow.aim);
        let removes = flow.removes_marks.is_some();
        if let Some(due) = flow.removes_marks {
            self.debts.keep_marks(due, now + MARKED_LOOK);
        }
        match (aim, ending) {
            (Aim::Restore, _) if owes && removes && self.protection != Protection::None => {}
            (Aim::Protect, Ending::Complete) if owes => {
                self.protection = Protection::Active;
                self.is_found = false;
            }
            // A flow that did not complete is retried.
            (Aim::Protect, Ending::Stuck | Ending::Refused) => {}
            (Aim::Look, _) if owes && self.protection == Protection::None => {
                self.protection = Protection::Active;
                self.is_found = true;
            }
            // A restored dependent is at zero again.
            (Aim::Restore, _) if owes => self.protection = Protection::Restoring,
            _ if owes => {}
            _ => {
                // Dependents with problems are read again: they may be fixed. A flow that removes marks has
                // read no others.
                let good = aim == Aim::Restore
                    && (!removes || self.restored.is_some())
                    && ending == Ending::Complete
                    && self.debts.problems().next().is_none();
                let believed = if self.debts.keeps_marks() {
                    MARKED_LOOK
                } else {
                    BELIEVED
                };
                let believed = self.debts.doubt().unwrap_or(now + believed);
                self.restored = good.then_some(believed);
                self.protection = Protection::None;
                self.is_found = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
