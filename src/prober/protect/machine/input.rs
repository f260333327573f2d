//! Inputs and effects of a cluster's machine.

use crate::prober::{
    debts::Problem,
    flow::{Ending, FlowEvent, FlowInput, FlowPlan},
    treatment::ClusterObject,
    watch::Conclusion,
};

/// Something that the cluster's loop has learnt.
#[derive(Debug)]
pub enum Input<'a> {
    /// What the index says of the cluster and its policy, at first and whenever it changes.
    Objects(ClusterObject),
    /// The leases were read, or could not be, by the current settings; and why the first Gate that does not
    /// pass does not.
    Leases(Leases<'a>, Option<String>),
    /// The check results, or the checks, have changed: why the first Gate that does not pass does not.
    Gate(Option<String>),
    /// The flow has done or met something.
    Flow(&'a FlowEvent),
    /// The flow has ended.
    FlowEnded(Ending),
    /// The answer to the last [question](Effect::Confirm) about the Cluster and its policy.
    Confirmed(Confirmation),
    /// The flow has ended by a defect: its last writes are unknown.
    FlowLost,
    /// It is [time](super::ClusterMachine::due).
    Time,
    /// The process is to end.
    ShutDown,
}

/// The result of a read of the leases.
#[derive(Clone, Copy, Debug)]
pub enum Leases<'a> {
    /// They were judged.
    Judged(&'a Conclusion),
    /// They were not.
    Unread {
        /// Why, in CamelCase.
        reason: &'static str,
        /// Why: names the object and the remedy.
        message: &'a str,
    },
}

/// Whether the Cluster and its policy match the watches, from the surest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confirmation {
    /// They do, as read past every cache; or one of them could not be read in time, and its watch works.
    AsKnown,
    /// One of them could not be read in time, and its watch is broken.
    Unknown,
    /// One of them does not.
    Otherwise,
}

/// Something to do before the next input.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin this flow; none is under way.
    Start(Box<FlowPlan>),
    /// Pass this to the flow under way.
    Flow(FlowInput),
    /// Find out, past every cache, if the Cluster and its policy are as known. Replaces any earlier question.
    Confirm,
    /// Report what is known of the dependent that a flow event is about.
    Tell {
        /// Why it is not where it should be.
        problem: Option<Problem>,
        /// How many replicas it is owed, if any and if that is known.
        owed: Option<Option<i32>>,
    },
}
