//! One step on one dependent, as a sequence of requests: no client, no task.
//!
//! The dependent is read, a step is decided from what is there, and the step's writes are sent one
//! after the other. Each is refused if anything has changed since, but by the writes before it; then
//! all begins again. If no answer to a write comes, it is looked whether it was carried out.

use crate::prober::{
    plan::{Observed, Step, Write},
    scale_error::CONFLICTS,
};

/// How far a step has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    /// Of one who overrules the operator.
    pub(super) overruling: bool,
    conflicts_left: u32,
    begun: Option<Begun>,
    decided: Option<Decided>,
    /// The write that is next may have been carried out already.
    in_doubt: bool,
}

/// A step that may have been written, in part or in full, and was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Begun {
    /// The step.
    pub step: Step,
    /// A write of it was given up, and may yet come about. If none was, what is written is so by now.
    pub in_flight: bool,
}

/// A step, and how many of its writes have been accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Decided {
    step: Step,
    /// What was found, with the resourceVersion that it has by what was accepted.
    found: Option<Observed>,
    accepted: usize,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Turn {
    /// Read the dependent, and decide.
    Read,
    /// Send this write.
    Write(Write),
    /// Read the dependent once more: the answer to the write was lost.
    LookAgain,
    /// The step was carried out on what was found.
    Done(Step, Option<Observed>),
}

impl Attempt {
    /// An attempt of the operator, or of one who overrules it.
    pub(super) fn new(overruling: bool) -> Self {
        Self {
            overruling,
            conflicts_left: CONFLICTS,
            ..Self::default()
        }
    }

    /// What is to be done next.
    pub(super) fn turn(&self) -> Turn {
        let Some(decided) = &self.decided else {
            return Turn::Read;
        };
        if self.in_doubt {
            return Turn::LookAgain;
        }
        let writes = match (&decided.found, self.overruling) {
            (None, _) => Vec::new(),
            (Some(found), false) => decided.step.writes(found),
            (Some(found), true) => decided.step.overruling_writes(found),
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

    /// Whether a part of the step is written that was decided on last.
    pub(super) fn is_half_written(&self) -> bool {
        self.decided.as_ref().is_some_and(|it| it.accepted > 0)
    }

    /// This was read, and this step decided from it.
    pub(super) fn decide(&mut self, step: Step, found: Option<Observed>) {
        self.decided = Some(Decided {
            step,
            found,
            accepted: 0,
        });
    }

    /// The write was carried out, and the object is of this resourceVersion by it.
    pub(super) fn accepted(&mut self, version: Option<&str>) {
        if let Some(decided) = &mut self.decided {
            decided.accepted += 1;
            self.begun = Some(Begun {
                step: decided.step,
                in_flight: false,
            });
            // Without one, what is left of the step is refused, and decided anew.
            if let (Some(found), Some(version)) = (&mut decided.found, version) {
                found.resource_version = version.to_owned();
            }
        }
    }

    /// The write failed, and may have been carried out all the same. One who overrules the operator
    /// is told so, and looks for himself.
    pub(super) fn unanswered(&mut self) {
        if let Some(decided) = &self.decided {
            self.begun = Some(Begun {
                step: decided.step,
                in_flight: true,
            });
            self.in_doubt = !self.overruling;
        }
    }

    /// Whether it has to be [looked](Turn::LookAgain) what has become of a write.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The dependent was read once more: whether the write in doubt is seen to have been carried out,
    /// so that the step goes on. If not, it has failed; it is not sent again, since it may yet arrive.
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

    /// What the write was decided from is not so any more. Whether all may begin again: so it may
    /// not for the sixth time.
    pub(super) fn overtaken(&mut self) -> bool {
        self.decided = None;
        let again = self.conflicts_left > 0;
        self.conflicts_left = self.conflicts_left.saturating_sub(1);
        again
    }
}
