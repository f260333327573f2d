//! Requests about dependents, their answers, and what is told of both.

use std::{sync::Arc, time::Duration};

use super::Problem;
use crate::{
    api::DependentRef,
    prober::{
        scale_error::ScaleError,
        step::{Aim, Observed, Step, Write},
    },
};

/// Request about one dependent, of which there is one at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read it.
    Read {
        /// Something is owed or to be taken: other reads yield to it, since 1,000 healthy clusters may be
        /// read at the same time.
        urgent: bool,
    },
    /// Wait for a turn to write it.
    Queue,
    /// Send this write now.
    Write(Write),
    /// Abandon the wait for a turn.
    Drop,
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was read; `None` if it does not exist.
    Read(Result<Option<Observed>, ScaleError>),
    /// Its write has its turn.
    Turn,
    /// It was written, or was not.
    Written(Written),
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was carried out.
    Done,
    /// The object has changed since the decision, by this answer.
    Overtaken(ScaleError),
    /// It failed, but may have been carried out.
    Unanswered(ScaleError),
    /// It failed, and was not carried out.
    Failed(ScaleError),
}

/// Something that was done to a dependent, or met there.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The dependent.
    pub dependent: DependentRef,
    /// Its UID, if it was read.
    pub uid: Option<Arc<str>>,
    /// Aim that it followed.
    pub aim: Aim,
    /// Act, or what was met.
    pub what: What,
    /// How often somebody has scaled it to zero within the minute after a restore.
    pub again: u32,
    /// Reason: what was seen that asked for it; may be empty.
    pub why: String,
}

impl Event {
    /// Tells whether the mark was removed for others to decide about the replicas, and not since they are back.
    pub fn is_release(&self) -> bool {
        match self.what {
            What::Did(Step::Unmark { with_record }, _) => !with_record || self.aim == Aim::Release,
            _ => false,
        }
    }
}

/// Act on a dependent, or something met there.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// This step was carried out on this state.
    Did(Step, Observed),
    /// It waited this long for the silent nodes. Some are still not ready, and it was scaled up.
    Unready(Duration),
    /// It missed its timeout.
    Late,
    /// It could not be scaled, or read.
    Failed(ScaleError),
    /// It is not where it should be, for another reason than before.
    Troubled(Problem),
}
