//! One dependent of a flow: read, decided, written, then read until the aim is reached.

use std::{
    hash::{Hash, Hasher},
    mem,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Ending, FlowEffect, FlowEvent, Task, What, Written,
    attempt::{Attempt, Turn},
    steps::{Next, Steps},
};
use crate::{
    cluster::Dependent,
    prober::{
        plan::{Observed, Purpose, Step, Write},
        scale_error::ScaleError,
    },
};

/// First pause before the effect of a write is read ...
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// ... and the longest; each is 1.5 times the one before.
const SELDOM: Duration = Duration::from_secs(1);

/// One dependent.
#[derive(Clone, Debug)]
pub(super) struct DependentFlow {
    steps: Steps,
    attempt: Attempt,
    doing: Doing,
    /// Why no answer came to a write that may have been carried out.
    lost: Option<ScaleError>,
    /// Its UID, as it was read last.
    uid: Option<Arc<str>>,
    /// Pause before the next read.
    pause: Duration,
    has_written: bool,
}

/// What a dependent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// To be read, at this time or now.
    Due(Option<Instant>),
    Reading,
    /// For its write to be queued.
    Decided,
    Queued,
    Writing,
    Ended(Ending),
}

impl DependentFlow {
    pub(super) fn new(task: &Task, purpose: Purpose, patience: Option<Duration>) -> Self {
        Self {
            steps: Steps::new(task.clone(), purpose, patience),
            attempt: Attempt::new(),
            doing: Doing::Due(None),
            lost: None,
            uid: None,
            pause: FIRST_LOOK,
            has_written: false,
        }
    }

    pub(super) fn dependent(&self) -> &Dependent {
        self.steps.dependent()
    }

    /// Sets whether the silent nodes are ready again.
    pub(super) fn nodes(&mut self, back: bool) {
        if self.steps.nodes(back)
            && let Doing::Due(_) = self.doing
        {
            self.doing = Doing::Due(None);
        }
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        match self.doing {
            Doing::Ended(ending) => Some(ending),
            _ => None,
        }
    }

    /// When it is to be read.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.doing {
            Doing::Due(at) => at,
            _ => None,
        }
    }

    /// Whether it can stop immediately. The answer to a sent write is awaited.
    pub(super) fn can_stop(&self) -> bool {
        !matches!(self.doing, Doing::Writing | Doing::Ended(_))
    }

    pub(super) fn is_half_written(&self) -> bool {
        self.attempt.is_half_written()
    }

    /// Goes on, if it may begin anything, or finish what is half written.
    pub(super) fn go_on(
        &mut self,
        place: usize,
        (may_begin, may_finish): (bool, bool),
        now: Instant,
        effects: &mut Vec<FlowEffect>,
    ) {
        let may_send = may_begin || may_finish && self.is_half_written();
        match self.doing {
            Doing::Due(_) | Doing::Reading if !may_begin => self.stop(place, now, effects),
            Doing::Decided | Doing::Queued if !may_send => self.stop(place, now, effects),
            Doing::Due(at) if at.is_none_or(|at| at <= now) => {
                self.doing = Doing::Reading;
                effects.push(FlowEffect::Read(place));
            }
            Doing::Decided => {
                self.doing = Doing::Queued;
                effects.push(FlowEffect::Queue(place));
            }
            _ => {}
        }
    }

    fn stop(&mut self, place: usize, now: Instant, effects: &mut Vec<FlowEffect>) {
        if let Doing::Reading | Doing::Queued = self.doing {
            effects.push(FlowEffect::Drop(place));
        }
        if let Some(begun) = self.attempt.begun() {
            self.tell(What::Interrupted(begun), now, effects);
        }
        self.doing = Doing::Ended(Ending::Stopped);
    }

    /// Takes in the result of a read.
    pub(super) fn read(
        &mut self,
        found: Result<Option<Observed>, ScaleError>,
        now: Instant,
        effects: &mut Vec<FlowEffect>,
    ) {
        let lost = self.lost.take();
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.fail(lost.unwrap_or(error), now, effects),
        };
        if self.attempt.is_in_doubt() {
            return match (self.attempt.looked_again(found.as_ref()), lost) {
                (false, Some(error)) => self.fail(error, now, effects),
                _ => self.proceed(now, effects),
            };
        }
        self.uid = found.as_ref().and_then(|found| found.uid.clone());
        match self.steps.decide(found.as_ref()) {
            Ok(step) if self.steps.only_looks(now) => self.carried_out(step, found, now, effects),
            Ok(step) => {
                self.attempt.decide(step, found);
                self.proceed(now, effects);
            }
            Err(error) => self.fail(error, now, effects),
        }
    }

    /// Its turn has come: returns the write to send.
    pub(super) fn send(&mut self) -> Option<Write> {
        match self.attempt.turn() {
            Turn::Write(write) if self.doing == Doing::Queued => {
                self.doing = Doing::Writing;
                Some(write)
            }
            _ => None,
        }
    }

    /// Takes in the result of a write.
    pub(super) fn written(
        &mut self,
        written: Written,
        now: Instant,
        effects: &mut Vec<FlowEffect>,
    ) {
        match written {
            Written::Done(version) => self.attempt.accepted(version.as_deref()),
            Written::Overtaken(error) => {
                if !self.attempt.overtaken() {
                    return self.fail(error, now, effects);
                }
            }
            Written::Unanswered(error) => {
                self.attempt.unanswered();
                self.lost = Some(error);
            }
            Written::Failed(error) => return self.fail(error, now, effects),
        }
        self.proceed(now, effects);
    }

    /// Does what the attempt needs next.
    fn proceed(&mut self, now: Instant, effects: &mut Vec<FlowEffect>) {
        match self.attempt.turn() {
            Turn::Read => self.doing = Doing::Due(None),
            Turn::Write(_) => self.doing = Doing::Decided,
            Turn::Done(step, found) => self.carried_out(step, found, now, effects),
        }
    }

    fn carried_out(
        &mut self,
        step: Step,
        found: Option<Observed>,
        now: Instant,
        effects: &mut Vec<FlowEffect>,
    ) {
        self.attempt = Attempt::new();
        let (whats, next) = self.steps.carried_out(step, found, now);
        for what in whats {
            self.tell(what, now, effects);
        }
        self.doing = match next {
            Next::After(delay) => Doing::Due(Some(now + delay)),
            Next::Look { written, deadline } => {
                // Only once: if another client undoes each write, writes become as rare as reads.
                if written && !self.has_written {
                    self.pause = FIRST_LOOK;
                }
                self.has_written |= written;
                let left = deadline.saturating_duration_since(now);
                let pause = self.pause.min(left);
                self.pause = (self.pause * 3 / 2).min(SELDOM);
                Doing::Due(Some(now + pause))
            }
            Next::Ended(ending) => Doing::Ended(ending),
        };
    }

    fn fail(&mut self, error: ScaleError, now: Instant, effects: &mut Vec<FlowEffect>) {
        let begun = self.attempt.begun();
        self.doing = Doing::Ended(self.steps.failed(&error, begun));
        self.tell(What::Failed(error, begun), now, effects);
    }

    fn tell(&self, what: What, now: Instant, effects: &mut Vec<FlowEffect>) {
        effects.push(FlowEffect::Tell(Box::new(FlowEvent {
            at: now,
            dependent: self.dependent().clone(),
            uid: self.uid.clone(),
            what,
        })));
    }
}

/// The time and urgency of the next read decide nothing.
impl Hash for DependentFlow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            steps,
            attempt,
            doing,
            lost: _,
            uid: _,
            pause: _,
            has_written: _,
        } = self;
        mem::discriminant(doing).hash(state);
        (steps, attempt, self.ending()).hash(state);
    }
}
