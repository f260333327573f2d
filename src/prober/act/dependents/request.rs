//! Requests about dependents, their answers, what is told of both, and what is amiss.

use std::{sync::Arc, time::Duration};

use crate::{
    api::DependentRef,
    cluster::Dependent,
    prober::{
        scale_error::ScaleError,
        step::{Aim, Memory, Observed, Step, Write},
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

/// Why a dependent is not where it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// CamelCase, for conditions.
    pub reason: &'static str,
    /// For people: names the dependent and the remedy.
    pub message: String,
}

impl Problem {
    pub(super) fn failed(reference: &DependentRef, error: &ScaleError) -> Self {
        let (reason, message) = (error.reason(), format!("{reference}: {error}"));
        Self { reason, message }
    }

    pub(super) fn late(reference: &DependentRef, timeout: Duration) -> Self {
        let message = format!("{reference} was not scaled within {timeout:?}");
        let reason = "ScalingLate";
        Self { reason, message }
    }

    /// The problem of a dependent that was found so and stays unrestored; `memory` is of before.
    pub(super) fn left_behind(
        found: Option<&Observed>,
        memory: Memory,
        dependent: &Dependent,
    ) -> Option<Self> {
        let reference = &dependent.reference;
        let Some(found) = found else {
            let reason = ScaleError::Missing.reason();
            let message = format!(
                "{reference} was scaled to zero, and has been deleted since, so that it cannot be restored: {}",
                ScaleError::Missing
            );
            return (memory.owed && !dependent.optional).then_some(Self { reason, message });
        };
        let recorded = found.record.replicas().or(memory.replicas);
        let (reason, why) = match found.ignored {
            _ if found.replicas > 0 || found.marked => return None,
            true if memory.owed || recorded.is_some() => {
                ("IgnoredAtZero", "it says ignore-scaling")
            }
            false if memory.owed => ("MarkRemoved", "its mark was removed by somebody else"),
            _ => return None,
        };
        let (replicas, name) = (recorded.unwrap_or(1), reference.kubectl_name());
        let message = format!(
            "{reference} is at 0 replicas and is not restored, since {why}; to have it back: kubectl scale \
             {name} --replicas={replicas} in the cluster's namespace"
        );
        Some(Self { reason, message })
    }
}
