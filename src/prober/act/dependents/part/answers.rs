//! Changes that an answer about a dependent brings, and the time of its next read: while it waits, once it is where it
//! is wanted, and after a failure.

use std::time::Duration;

use tokio::time::Instant;

use super::{Doing, Part, Sure, Way};
use crate::{
    prober::{
        dependents::{Problem, What, Written},
        scale_error::{CONFLICTS, ScaleError},
        step::{Aim, Memory, Observed, PROBATION, Record, Step},
    },
    runtime::seed::REQUEST_LIMIT,
};

/// Time for which a write that was given up, by this process or an earlier one, may still take effect after the seed
/// answers again. An API server drops it within [`REQUEST_LIMIT`]; an etcd that hung, and answers again, has executed
/// it long before.
const DOUBT: Duration = Duration::from_secs(2 * REQUEST_LIMIT.as_secs());
/// First pause before the effect of a write is read …
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// … and the longest; each is 1.5 times the one before.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// Pause after a request that failed, where something is owed or to be taken …
const RETRY: Duration = Duration::from_secs(3);
/// … and after one that was refused: a person has to mend that. So is what is down, or late, read again.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two reads of a dependent that keeps its mark: a zero under the mark is undone.
const MARKED_LOOK: Duration = Duration::from_secs(15);
/// Pause between two reads of a dependent that others may mend, or restore.
const SELDOM: Duration = Duration::from_secs(60);
/// Pause between two reads of a dependent that is owed nothing: etcd may have been rolled back to a state from an
/// outage.
const BELIEVED: Duration = Duration::from_secs(3600);

impl Part {
    pub(super) fn written(&mut self, step: Step, written: Written, way: &mut Way, now: Instant) {
        match written {
            Written::Done => {
                self.did(step, way, now);
                // What is only marked is scaled next.
                if !matches!(step, Step::Mark { .. }) {
                    self.look_soon(now);
                }
            }
            Written::Overtaken(_) if self.conflicts < CONFLICTS => self.conflicts += 1,
            Written::Overtaken(error) | Written::Failed(error) => {
                self.fail(&error, way, now);
            }
            Written::Unanswered(error) => {
                self.sure = Sure::No;
                // It is owed before it is known whether it was taken; what may be back is, until that is seen.
                if let Step::ScaleDown { from: replicas } | Step::ScaleUp { to: replicas } = step {
                    (self.memory.owed, self.passed) = (true, false);
                    self.memory.replicas = Some(replicas);
                }
                self.lost = Some((step, error));
            }
        }
    }

    /// A step was carried out.
    fn did(&mut self, step: Step, way: &mut Way, now: Instant) {
        let (memory, falls_at) = (&mut self.memory, now + PROBATION);
        match step {
            Step::Mark { from } => {
                memory.replicas = Some(from);
                memory.unmark_at.get_or_insert(falls_at);
            }
            Step::ScaleDown { from } => {
                (memory.owed, memory.replicas, memory.unmark_at) = (true, Some(from), None);
                self.waits = Some((Aim::Down, now));
                // From here on the zero is ours.
                self.again = 0;
            }
            Step::ScaleUp { to } => {
                (memory.owed, memory.replicas) = (true, Some(to));
                memory.unmark_at = Some(falls_at);
                (self.waits, self.begun) = (Some((Aim::Up, now)), None);
                if self.nodes_by(way).is_some_and(|by| by <= now) {
                    self.tell(What::Unready(self.dependent.up.await_nodes), way);
                }
            }
            Step::Record { replicas } => memory.replicas = Some(replicas),
            Step::Unmark { with_record: true } => memory.unmark_at = None,
            Step::Unmark { with_record: false } => *memory = Memory::default(),
        }
        (self.problem, self.conflicts) = (None, 0);
        self.passed &= !self.memory.owed;
        if let Some(found) = self.found.clone() {
            self.tell(What::Did(step, found), way);
        }
    }

    /// Takes in what a read has shown.
    pub(super) fn seen(
        &mut self,
        found: Option<Observed>,
        since: Instant,
        way: &mut Way,
        now: Instant,
    ) {
        self.doing = Doing::Seen;
        self.sure = match self.sure {
            Sure::No => Sure::From(now + DOUBT),
            Sure::From(at) if since < at => Sure::From(at),
            _ => Sure::Yes,
        };
        let mut lost = self.lost.take();
        let is_done = |(step, _): &mut (Step, _)| is_written(*step, found.as_ref());
        if let Some((step, _)) = lost.take_if(is_done) {
            self.did(step, way, now);
        }
        let before = self.memory;
        self.left = Problem::left_behind(found.as_ref(), before, &self.dependent);
        if let Some(found) = &found {
            self.remember(found, way, now);
        }
        self.found = found;
        if !self.is_marked() {
            self.again = 0;
        } else if self.is_at_zero() && before.unmark_at.is_some() {
            self.again += 1;
        }
        if let Some((_, error)) = lost {
            self.doing = Doing::Idle;
            self.fail(&error, way, now);
        }
    }

    /// Notes what it is owed, as it is like this.
    fn remember(&mut self, found: &Observed, way: &Way, now: Instant) {
        let before = self.memory;
        let replicas = found.record.replicas().or(before.replicas);
        let comes_up = before.owed && found.replicas > 0 && !found.running;
        self.memory = match (found.replicas, found.marked) {
            (0, true) => Memory {
                owed: true,
                replicas,
                unmark_at: None,
            },
            // Unless it is still on its way, whoever has scaled it up.
            (_, true) => Memory {
                owed: comes_up,
                replicas,
                unmark_at: before.unmark_at.or(Some(now + PROBATION)),
            },
            (_, false) if comes_up && way.order.aim == Aim::Up && !found.ignored => before,
            // Ignored, or without a mark.
            (_, false) => Memory::default(),
        };
    }

    /// Waits for earlier writes to take effect, for as long as its timeout says.
    pub(super) fn wait(&mut self, aim: Aim, way: &mut Way, now: Instant) {
        let timeout = self.timeout(aim, way);
        let since = self.waits.filter(|(of, _)| *of == aim);
        let since = since.map_or(now, |(_, since)| since);
        self.waits = Some((aim, since));
        let deadline = since + timeout;
        if now < deadline {
            self.look_soon(now);
            self.look_at = self.look_at.min(Some(deadline));
            return;
        }
        // No other waits for it any longer.
        self.passed = true;
        self.look_at = Some(now + AGAIN);
        let late = Problem::late(&self.dependent.reference, timeout);
        self.tell(What::Late, way);
        self.set_problem(Some(late), way);
    }

    fn timeout(&self, aim: Aim, way: &Way) -> Duration {
        let timeout = self.scale(aim).timeout;
        let is_last = way.last == Some(self.level(aim));
        let patience = way.order.patience.filter(|_| !is_last);
        patience.map_or(timeout, |patience| patience.min(timeout))
    }

    /// Has the effect of a write looked at soon.
    fn look_soon(&mut self, now: Instant) {
        // Also if another client undoes each write: they become as rare as the looks.
        self.pause = (self.pause * 3 / 2).clamp(FIRST_LOOK, LONGEST_LOOK);
        self.look_at = Some(now + self.pause);
    }

    /// Notes that it is as it is wanted, or is left as it is.
    pub(super) fn rest(&mut self, aim: Aim, way: &mut Way, now: Instant) {
        if aim != Aim::Leave {
            (self.passed, self.waits, self.conflicts) = (true, None, 0);
        }
        if self.found.is_none() {
            // What is gone is owed nothing.
            self.memory = Memory::default();
        }
        // Marked, and left at zero, it is still to be scaled up.
        if aim != Aim::Leave || !self.memory.owed {
            let left = self.left.take();
            self.set_problem(left, way);
        }
        let pause = match aim {
            // Others may scale up what is down.
            Aim::Down => AGAIN,
            _ if self.memory.owed || self.problem.is_some() => SELDOM,
            _ if self.memory.unmark_at.is_some() => MARKED_LOOK,
            _ => BELIEVED,
        };
        self.look_after(pause, now);
        let falls_at = self.memory.unmark_at.filter(|_| way.order.may_unmark);
        let falls_at = falls_at.filter(|at| now < *at);
        self.look_at = self.look_at.min(falls_at.or(self.look_at));
    }

    /// Has it read after this pause, or as soon as a read counts, if none did yet.
    fn look_after(&mut self, pause: Duration, now: Instant) {
        let at = now + pause;
        self.look_at = Some(match self.sure {
            // An answer may come after that to a read that was sent before.
            Sure::From(sure_at) => at.min(sure_at.max(now)),
            _ => at,
        });
    }

    /// Notes that it could not be scaled, or read.
    pub(super) fn fail(&mut self, error: &ScaleError, way: &mut Way, now: Instant) {
        let (aim, is_asked) = (self.aim(way), self.asked);
        let is_unserved = error.is_about_the_kind() && !is_asked;
        if is_unserved {
            // There is no mark to be found; what is known to be owed stays so.
            self.sure = Sure::Yes;
            if !self.memory.owed {
                self.memory = Memory::default();
            }
        }
        let (owes, may_soon) = (self.memory.owed, error.is_about_the_attempt());
        // What was never scaled down, and cannot soon be found or read, must not keep others at zero.
        let passes = aim == Aim::Up && !owes || is_unserved;
        self.passed = if may_soon { self.passed } else { passes };
        self.conflicts = 0;
        let is_wanted = aim == Aim::Down || aim != Aim::Leave && way.owes;
        let pause = match may_soon {
            true if is_wanted => RETRY,
            false if is_wanted => AGAIN,
            _ if aim == Aim::Leave && self.sure != Sure::Yes => AGAIN,
            _ => SELDOM,
        };
        self.look_after(pause, now);
        self.tell(What::Failed(error.clone()), way);
        let failed = Problem::failed(&self.dependent.reference, error);
        self.set_problem(Some(failed).filter(|_| is_asked || owes), way);
    }
}

/// Tells whether a write whose answer was lost has taken effect, as far as this shows.
fn is_written(step: Step, found: Option<&Observed>) -> bool {
    found.is_some_and(|found| match step {
        Step::Mark { from } => found.marked && found.record == Record::Replicas(from),
        Step::ScaleDown { .. } => found.marked && found.replicas == 0,
        Step::ScaleUp { to } => found.marked && found.replicas == to,
        Step::Record { replicas } => found.record == Record::Replicas(replicas),
        Step::Unmark { .. } => !found.marked,
    })
}
