//! One step on one dependent, as a sequence of requests: no client, no task.
//!
//! The dependent is read, a step is decided, and its writes are sent one after the other. The server
//! refuses a write if anything but the earlier writes has changed the object; then the attempt starts over.
//! If a write gets no answer, a read shows whether it took effect.

use crate::prober::{
    plan::{Observed, Step, Write},
    scale_error::CONFLICTS,
};

/// How far a step has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    conflicts_left: u32,
    begun: Option<Begun>,
    decided: Option<Decided>,
    /// The next write may already have been carried out.
    in_doubt: bool,
}

/// A step that may be written in part or in full, but was not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Begun {
    /// The step.
    pub step: Step,
    /// A given-up write may still take effect. If none was given up, what is written is in effect.
    pub in_flight: bool,
}

/// A step, and how many of its writes have been accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Decided {
    step: Step,
    /// The state found, with the resourceVersion from the last accepted write.
    found: Option<Observed>,
    accepted: usize,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Turn {
    /// Read the dependent, and decide, or find out if a write whose answer was lost took effect.
    Read,
    /// Send this write.
    Write(Write),
    /// The step was carried out on this state.
    Done(Step, Option<Observed>),
}

impl Attempt {
    pub(super) fn new() -> Self {
        Self {
            conflicts_left: CONFLICTS,
            ..Self::default()
        }
    }

    /// What is to be done next.
    pub(super) fn turn(&self) -> Turn {
        let Some(decided) = self.decided.as_ref().filter(|_| !self.in_doubt) else {
            return Turn::Read;
        };
        let writes = match &decided.found {
            None => Vec::new(),
            Some(found) => decided.step.writes(found),
        };
        match writes.into_iter().nth(decided.accepted) {
            Some(write) => Turn::Write(write),
            None => Turn::Done(decided.step, decided.found.clone()),
        }
    }

    /// The step that may have been written, in part or in full.
    pub(super) fn begun(&self) -> Option<Begun> {
        self.begun
    }

    /// Whether the step that was decided last is written in part.
    pub(super) fn is_half_written(&self) -> bool {
        self.decided.as_ref().is_some_and(|it| it.accepted > 0)
    }

    /// Notes the step decided from what was read.
    pub(super) fn decide(&mut self, step: Step, found: Option<Observed>) {
        self.decided = Some(Decided {
            step,
            found,
            accepted: 0,
        });
    }

    /// The write was carried out; the object now has this resourceVersion.
    pub(super) fn accepted(&mut self, version: Option<&str>) {
        if let Some(decided) = &mut self.decided {
            decided.accepted += 1;
            self.begun = Some(Begun {
                step: decided.step,
                in_flight: false,
            });
            // Without it the rest of the step is refused, and decided anew.
            if let (Some(found), Some(version)) = (&mut decided.found, version) {
                found.resource_version = version.to_owned();
            }
        }
    }

    /// The write failed, but may have been carried out: the next read shows it.
    pub(super) fn unanswered(&mut self) {
        if let Some(decided) = &self.decided {
            self.begun = Some(Begun {
                step: decided.step,
                in_flight: true,
            });
            self.in_doubt = true;
        }
    }

    /// Whether the next read is to show if a write took effect.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether a second read shows that the write in doubt was carried out, so that the step goes on. If
    /// not, it failed; it is not sent again, since it may still arrive.
    pub(super) fn looked_again(&mut self, now: Option<&Observed>) -> bool {
        self.in_doubt = false;
        let Some((decided, now)) = self.decided.as_ref().zip(now) else {
            return false;
        };
        let written = decided.found.as_ref().is_some_and(|before| {
            let count = decided.accepted + 1;
            decided.step.is_written(count, before, now)
        });
        if written {
            self.accepted(Some(&now.resource_version));
        }
        written
    }

    /// The object has changed since the step was decided. Returns whether to start over: not the sixth
    /// time.
    pub(super) fn overtaken(&mut self) -> bool {
        self.decided = None;
        let again = self.conflicts_left > 0;
        self.conflicts_left = self.conflicts_left.saturating_sub(1);
        again
    }
}
