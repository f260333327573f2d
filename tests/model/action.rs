//! All that may happen.

use dependency_watchdog::prober::plan::Write;

/// What the leases and checks of the shoot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shoot {
    /// Enough leases are fresh, and each check passes.
    Healthy,
    /// An outage is proven.
    Silent,
    /// There is no verdict.
    Unreadable,
    /// The leases are fresh, and a Trigger fires.
    Triggered,
    /// The leases are fresh, and a Gate does not pass.
    Gated,
}

impl Shoot {
    /// Whether a Trigger fires, and whether a Gate does not pass.
    pub(crate) fn checks(self) -> (bool, bool) {
        (self == Self::Triggered, self == Self::Gated)
    }
}

/// What becomes of the Cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// It is one that is probed.
    Probed,
    /// Its workers are removed.
    NoWorkers,
    /// It is being hibernated.
    FallingAsleep,
    /// It is being deleted. One that is hibernated, wakes up or migrates is the same to the operator.
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
    /// Somebody sets `ignore-scaling`.
    Ignore(usize, bool),
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
    /// A late write arrives.
    Arrive(usize),
    /// It never does.
    Vanish(usize),
    Start,
    /// The process of that instance ends at once.
    Crash(usize),
    /// It is asked to end.
    End(usize),
    /// It could not renew its Lease.
    Depose(usize),
    /// It was frozen for so long that its evidence does not count any more.
    Freeze(usize),
    /// It sees what has become of the policy and the Cluster.
    See(usize),
    /// It reads the leases; in the second case so long after what was there before that all is due
    /// that waits, though no longer than a write may take to arrive.
    Probe(usize, bool),
    /// It learns between two reads of the leases what the checks have come to.
    Check(usize),
    /// What it insists on is due.
    Resume(usize),
    /// It reads the Cluster past every cache.
    Confirm(usize),
    /// It writes the ClusterHealth.
    Report(usize),
    /// Its next request for a dependent, and what becomes of that.
    Request(usize, usize, Fate),
    /// It reads a dependent when that has been waited for long enough.
    GiveUp(usize, usize),
}

/// A write as text, which can be hashed.
pub(crate) fn text(write: &Write) -> String {
    match write {
        Write::Object(patch) => format!("object {patch}"),
        Write::ScaleMerge(patch) => format!("merge {patch}"),
        Write::ScaleJson(patch) => format!("json {patch}"),
    }
}

/// The write that a text stands for.
pub(crate) fn write(text: &str) -> Write {
    let (kind, patch) = text.split_once(' ').expect("a kind and a patch");
    let patch = serde_json::from_str(patch).expect("a patch");
    match kind {
        "object" => Write::Object(patch),
        "merge" => Write::ScaleMerge(patch),
        _ => Write::ScaleJson(patch),
    }
}
