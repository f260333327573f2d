//! All that may happen.

use super::*;

/// What the leases and checks of the shoot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shoot {
    /// Enough leases are fresh, and the Gate passes.
    Healthy,
    /// An outage is proven.
    Silent,
    /// There is no verdict.
    Unreadable,
    /// The leases are fresh, and a Gate does not pass.
    Gated,
}

impl Shoot {
    /// What the leases ask for.
    pub(crate) fn leases(self) -> Option<Aim> {
        match self {
            Self::Silent => Some(Aim::Down),
            Self::Unreadable => None,
            Self::Healthy | Self::Gated => Some(Aim::Up),
        }
    }

    /// Why the Gate does not pass, if it does not.
    pub(crate) fn gate(self) -> Option<String> {
        (self == Self::Gated).then(String::new)
    }
}

/// What becomes of the Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// It is one that is probed.
    Probed,
    /// Its workers are removed.
    NoWorkers,
    /// It is to be hibernated, which gardenlet has not taken up yet.
    FallingAsleep,
    /// It is being deleted. One that is hibernated, or being so, wakes up or migrates is the same to the operator.
    Deleting,
    Gone,
}

/// What is there of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    Enforce,
    DryRun,
    Suspended,
    /// It does not select the cluster any more, or waits for its finalizer to be removed.
    Deleted,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// It is answered.
    Answered,
    /// It fails without having been carried out, which its sender cannot know.
    Fails,
    /// It is carried out, and the answer is lost.
    Unanswered,
    /// It is refused, with a status that says that nothing was done.
    Forbidden,
    /// It is refused since somebody has changed something else in the object.
    Conflict,
    /// Its sender gives it up, and it arrives later, or never.
    Late,
    /// The process ends after it was carried out and before it was answered.
    Crash,
    /// It is answered when all that it was waited for is overdue.
    AnsweredLate,
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The shoot becomes like this.
    Turn(Shoot),
    /// Somebody sets the replicas of a dependent.
    Scale(usize, i32),
    /// Somebody removes the mark.
    Unmark(usize),
    /// Somebody sets or removes `ignore-scaling`.
    Ignore(usize),
    Delete(usize),
    Create(usize),
    /// gardenlet reads a dependent, to deploy it later with the replicas that it finds right now.
    Decide(usize),
    /// It writes them, whatever has happened since.
    Deploy,
    /// The controller of a dependent brings about what is wanted.
    Follow(usize),
    SetPolicy(Policy),
    SetCluster(Life),
    /// A backup of etcd is made.
    Save,
    /// etcd is restored from it.
    RollBack,
    /// The API server of the seed is away, or back.
    Away(bool),
    /// A late write arrives, or never does.
    Arrive(usize, bool),
    Start,
    /// The process of the operator ends immediately.
    Crash,
    /// It is asked to end.
    End,
    /// It could not renew its Lease.
    Depose,
    /// It was frozen for so long that its evidence does not count any more.
    Freeze,
    /// It sees what has become of the policy and the Cluster.
    See,
    /// It reads the leases; if so, so long after what was there before that all is due that waits,
    /// though no longer than a write may take to arrive.
    Probe(bool),
    /// It learns between two reads of the leases what the checks have come to.
    Check,
    /// The time has come for which it waits.
    Resume,
    /// It reads the Cluster and its policy past every cache.
    Confirm,
    /// It writes the ClusterHealth.
    Report,
    /// Its next request for a dependent, and what becomes of that.
    Request(usize, Fate),
}
