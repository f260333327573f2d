//! What a cluster's machine is told, and what it has done.

use std::time::Duration;

use crate::{
    checks::CheckResults,
    prober::{
        debts::Problem,
        flow::{Ending, FlowEvent, FlowInput, FlowPlan},
        treatment::ClusterObject,
        watch::Conclusion,
    },
};

/// Something that the cluster's loop has learnt.
#[derive(Debug)]
pub enum Input<'a> {
    /// What the index says of the cluster and its policy, at first and whenever it changes.
    Objects(ClusterObject),
    /// The leases were read, or could not be, by the settings that are in force; and what the checks have
    /// come to by then.
    Leases(Leases<'a>, CheckResults),
    /// The checks have come to something else, or are others.
    Checks(CheckResults),
    /// The flow has done something, or met it.
    Flow(&'a FlowEvent),
    /// The flow has ended.
    FlowEnded(Ending),
    /// What was [asked](Effect::Confirm) about the Cluster and its policy last has come to this.
    Confirmed(Confirmation),
    /// The flow has ended by a defect: nobody knows what it wrote last.
    FlowLost,
    /// It is its [turn](super::ClusterMachine::awaits_turn) to be restored.
    Turn,
    /// It is [time](super::ClusterMachine::due).
    Time,
    /// The process is to end.
    ShutDown,
}

/// What a read of the leases has come to.
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
        /// Whether the API server answered, if with nothing usable; `None` if it could not be asked.
        answered: Option<bool>,
    },
}

/// Whether the Cluster and its policy are as they are known, from the surest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confirmation {
    /// They are, as read past every cache.
    Read,
    /// One of them could not be read in time, and its watch has shown lately that it is up to date.
    Heard,
    /// One of them could not be read in time, and its watch has shown nothing for long.
    Unknown,
    /// One of them is not.
    Otherwise,
}

/// Something that is to be done about the flow, before anything else is learnt.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin this one; there is none under way.
    Start(Box<FlowPlan>),
    /// Tell the flow that is under way.
    Flow(FlowInput),
    /// Find out within so long, past every cache, if the Cluster and its policy are as they are known. What was
    /// asked before is of no use any more.
    Confirm(Duration),
    /// Tell what is known of the dependent to which the flow did something, or which it met.
    Tell {
        /// Why it is not where it should be.
        problem: Option<Problem>,
        /// How many replicas it is owed, if any and if that is known.
        owed: Option<Option<i32>>,
    },
}
