//! Inputs and effects of a decider.

use crate::{
    api::DependentRef,
    cluster::Assignment,
    prober::{
        dependents::{Answer, Event, Request},
        lease_judge::Conclusion,
    },
    shoot::Unread,
};

/// Something that the cluster's loop has learnt.
#[derive(Debug)]
pub enum Input<'a> {
    /// Word of the index about the cluster and its policy, at first and whenever it changes.
    Objects(Box<Assignment>),
    /// The leases were read, or could not be, by the current settings; and why the first Gate that does not
    /// pass does not.
    Leases(Result<&'a Conclusion, &'a Unread>, Option<String>),
    /// The check results, or the checks, have changed: why the first Gate that does not pass does not.
    Gate(Option<String>),
    /// Answer to a request about a dependent.
    Answer(DependentRef, Answer),
    /// The answer to the last [question](Effect::Confirm) about the Cluster and its policy.
    Confirmed(Confirmation),
    /// The [time](super::Decider::due) has come.
    Time,
    /// The process is to end.
    ShutDown,
}

/// Tells whether the Cluster and its policy match the watches, from the surest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confirmation {
    /// Match, as read past every cache; or one of them could not be read in time, and its watch works.
    AsKnown,
    /// No answer: one of them could not be read in time, and its watch is broken.
    Unknown,
    /// Difference: one of them is not as its watch shows it.
    Otherwise,
}

/// Something to do before the next input.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this request about this dependent, in place of any before.
    Request(DependentRef, Request),
    /// Find out, past every cache, if the Cluster and its policy are as known. Replaces any earlier question.
    Confirm,
    /// Report this.
    Tell(Event),
}
