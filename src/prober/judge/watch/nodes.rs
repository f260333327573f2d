//! When Nodes and Machines were read, and when they have to be read again.

use std::time::Duration;

use crate::{
    prober::{leases::Leases, proof::Proof, verdict::Assessment},
    util::mono_time::MonoTime,
};

/// Judgement: nothing is acted on by Nodes and Machines that are older: a read may fail once, or be put off for 30 s.
const OLD: Duration = Duration::from_secs(90);
/// They are read again after this at the latest, however long renewal periods are.
const AGAIN: Duration = Duration::from_secs(60);

/// When the facts by which leases count were read.
#[derive(Clone, Debug, Default)]
pub(in crate::prober) struct NodeFacts {
    /// Start of the reads that they are from; `None` if they say nothing.
    pub(super) read: Option<MonoTime>,
    /// When they were to be read again: ones from before say nothing.
    pub(super) forgot: MonoTime,
}

impl NodeFacts {
    /// Whether they are to be read for what the leases show: a verdict depends on them, or is about to. While the
    /// cluster is suspect or protected they are read again and again.
    pub(super) fn are_wanted(&self, seen: &Assessment, proof: &Proof, leases: &Leases) -> bool {
        let Some(read) = self.read else {
            return seen.protected || seen.suspect() && proof.counts_since().is_some();
        };
        let is_old = seen.at.since(read) >= leases.look_again().min(AGAIN);
        match (seen.protected, seen.suspect()) {
            (true, _) if is_old || !leases.are_placed() => true,
            (_, true) => is_old || is_before(read, seen, proof),
            _ => false,
        }
    }

    /// Whether silence must not be acted on by these facts, however late they came.
    pub(super) fn are_outdated(&self, seen: &Assessment, proof: &Proof) -> bool {
        self.are_old(seen) || self.read.is_none_or(|read| is_before(read, seen, proof))
    }

    /// Whether they are too old to act on.
    pub(super) fn are_old(&self, seen: &Assessment) -> bool {
        self.read.is_none_or(|read| seen.at.since(read) >= OLD)
    }
}

/// Whether facts that were read then are older, by more than a renewal period, than the reads that watch the silence:
/// a node that was taken down since is silent for a good reason. A lease that makes a cluster suspect has been silent
/// for more than a period.
fn is_before(read: MonoTime, seen: &Assessment, proof: &Proof) -> bool {
    let since = proof.counts_since();
    since.is_some_and(|since| read + seen.period < since)
}
