//! What the watch answers to its loop: how to read, the use of a list, what follows.

use std::time::Duration;

use crate::{
    prober::verdict::{Assessment, Returning, Verdict},
    util::mono_time::MonoTime,
};

/// Settings for the next read of the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Requires a list that is as new as the request.
    pub consistent: bool,
    /// Time limit of the read.
    pub limit: Duration,
    /// Time limit of the read over a connection that was kept.
    pub kept: Duration,
    /// Tries a failed read once more, on a new connection.
    pub insist: bool,
}

/// The use of a list of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The list was older than one seen before: read again, consistently, immediately.
    ReadAgain,
    /// A verdict can be reached.
    Ready,
}

/// A verdict, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The verdict.
    pub verdict: Verdict,
    /// The evidence.
    pub assessment: Assessment,
    /// The earliest moment at which the outage could be proven.
    pub provable: Option<MonoTime>,
    /// Enough verdicts in a row agree to act on it.
    pub decides: bool,
    /// Start of the outage that was seen and is not over: its first lease's last renewal.
    pub onset: Option<MonoTime>,
    /// The nodes that its restore waits for.
    pub returning: Returning,
}
