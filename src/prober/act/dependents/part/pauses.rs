//! When a dependent is read again: as it waits, as it is where it is wanted, and after a failure.

use std::time::Duration;

use tokio::time::Instant;

use super::{Part, Sure, Way};
use crate::prober::{
    dependents::{Event, Problem, What},
    scale_error::ScaleError,
    step::{Aim, Memory},
};

/// First pause before the effect of a write is read …
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(50);
/// … and the longest; each is 1.5 times the one before.
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// Pause after a request that failed, where something is owed or to be taken …
const RETRY: Duration = Duration::from_secs(3);
/// … and the longest after one that was refused: a person has to mend that.
const REFUSED: Duration = Duration::from_secs(10);
/// Pause between two reads of a dependent that keeps its mark: a zero under the mark is undone.
const MARKED_LOOK: Duration = Duration::from_secs(15);
/// Pause between two reads of a dependent that others may mend, or restore.
pub(super) const SELDOM: Duration = Duration::from_secs(60);
/// Pause between two reads of a dependent that is owed nothing: etcd may have been rolled back to a state from an
/// outage.
const BELIEVED: Duration = Duration::from_secs(3600);

impl Part {
    /// Waits for earlier writes to take effect, for as long as its timeout says.
    pub(super) fn wait(&mut self, aim: Aim, way: &Way, now: Instant, events: &mut Vec<Event>) {
        let timeout = self.timeout(aim, way);
        let since = self.waits.filter(|(of, _)| *of == aim);
        let since = since.map_or(now, |(_, since)| since);
        self.waits = Some((aim, since));
        let deadline = since + timeout;
        if now < deadline {
            self.look_at = Some(deadline.min(self.look(now)));
            return;
        }
        // No other waits for it any longer.
        self.passed = true;
        self.problem = Some(Problem::late(&self.dependent.reference, timeout));
        self.look_at = Some(now + way.order.interval.min(REFUSED));
        events.push(self.event(aim, What::Late));
    }

    fn timeout(&self, aim: Aim, way: &Way) -> Duration {
        let scale = self.scale(aim);
        let is_last = way.last == Some(self.level(aim));
        let patience = way.order.patience.filter(|_| !is_last);
        patience.map_or(scale.timeout, |patience| patience.min(scale.timeout))
    }

    /// When the effect of a write is looked at next.
    pub(super) fn look(&mut self, now: Instant) -> Instant {
        let at = now + self.pause;
        // Also if another client undoes each write: they become as rare as the looks.
        self.pause = (self.pause * 3 / 2).min(LONGEST_LOOK);
        at
    }

    /// It is as it is wanted, or left as it is.
    pub(super) fn rest(&mut self, aim: Aim, way: &Way, now: Instant) {
        if aim != Aim::Leave {
            (self.passed, self.waits, self.conflicts) = (true, None, 0);
        }
        if self.found.is_none() {
            // What is gone is owed nothing.
            self.memory = Memory::default();
        }
        // Marked, and left at zero, it is still to be scaled up.
        if aim != Aim::Leave || !self.memory.owed {
            self.problem = self.left.clone();
        }
        let mut pause = self.pause_of(aim, way, None);
        let falls_at = self.memory.unmark_at.filter(|_| way.order.may_unmark);
        if let Some(at) = falls_at.filter(|at| now < *at) {
            pause = pause.min(at - now);
        }
        self.look_after(pause, now);
    }

    /// Pause before it is read again: it is as it is wanted, or failed, and `may_soon` succeed.
    fn pause_of(&self, aim: Aim, way: &Way, may_soon: Option<bool>) -> Duration {
        let (interval, has_failed) = (way.order.interval, may_soon.is_some());
        let is_wanted = has_failed && (aim == Aim::Down || way.owes);
        match aim {
            // Others may scale up what is down.
            Aim::Down if !has_failed => interval,
            Aim::Leave if has_failed && self.sure != Sure::Yes => REFUSED,
            Aim::Leave if has_failed => SELDOM,
            _ if is_wanted && may_soon == Some(true) => RETRY,
            _ if is_wanted => REFUSED.min(interval),
            _ if self.memory.owed => SELDOM,
            _ if self.memory.unmark_at.is_some() => MARKED_LOOK,
            _ if has_failed || self.problem.is_some() => SELDOM.max(interval),
            _ => BELIEVED,
        }
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

    /// It could not be scaled, or read.
    pub(super) fn fail(
        &mut self,
        error: &ScaleError,
        way: &Way,
        now: Instant,
        events: &mut Vec<Event>,
    ) {
        let aim = self.aim(way);
        let is_nowhere = error.is_about_the_kind();
        let is_refused = matches!(error, ScaleError::Missing | ScaleError::Forbidden { .. });
        if is_nowhere && !self.asked {
            // There is no mark to be found; what is known to be owed stays so.
            self.sure = Sure::Yes;
            if !self.memory.owed {
                self.memory = Memory::default();
            }
        }
        // What was never scaled down, and cannot soon be found or read, must not keep others at zero.
        let owes = self.memory.owed;
        let passes = aim == Aim::Up && !owes && (is_refused || is_nowhere);
        let is_read_again = self.passed && error.is_about_the_attempt();
        self.passed = passes || is_nowhere && !self.asked || is_read_again;
        self.problem =
            (self.asked || owes).then(|| Problem::failed(&self.dependent.reference, error));
        self.conflicts = 0;
        let pause = self.pause_of(aim, way, Some(error.is_about_the_attempt()));
        self.look_after(pause, now);
        events.push(self.event(aim, What::Failed(error.clone())));
    }
}
