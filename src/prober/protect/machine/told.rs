//! What people are told of a cluster.

use k8s_openapi::jiff::Timestamp;

use crate::{
    prober::{
        finding::{Finding, HeldBack},
        verdict::Assessment,
    },
    util::{now::Now, since::Since},
};

/// What people are told, which decides nothing but whether a Trigger was acted on.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub(super) protected_since: Option<Since>,
    /// When the outage began that the leases show, or have shown.
    pub(super) silent_since: Option<Timestamp>,
}

impl Told {
    /// Takes up when the outage began that the leases show, if they show one.
    pub(super) fn note_onset(&mut self, seen: &Assessment, is_protected: bool, now: Now) {
        let known = self.silent_since;
        self.silent_since = match seen.onset.map(|onset| seen.at.since(onset)) {
            Some(age) => known.or_else(|| now.wall.checked_sub(age).ok()),
            // Another leader may have seen it begin.
            None => known.filter(|_| is_protected),
        };
    }
}
