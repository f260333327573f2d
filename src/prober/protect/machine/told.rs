//! What people are told of a cluster.

use k8s_openapi::jiff::Timestamp;

use crate::{
    prober::{
        finding::{Finding, HeldBack},
        watch::Conclusion,
    },
    util::{now::Now, since::Since},
};

/// What people are told. It decides nothing here, but whether a Trigger was acted on.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub(super) protected_since: Option<Since>,
    /// When the outage began that the leases show, or have shown; whoever reads them anew begins with it.
    pub(super) silent_since: Option<Timestamp>,
}

impl Told {
    /// Takes up when the outage began that the leases show, if they show one.
    pub(super) fn note_onset(&mut self, conclusion: &Conclusion, is_protected: bool, now: Now) {
        let known = self.silent_since;
        let age = |onset| conclusion.assessment.at.since(onset);
        self.silent_since = match conclusion.onset.map(age) {
            Some(age) => known.or_else(|| now.wall.checked_sub(age).ok()),
            // Another leader may have seen it begin.
            None => known.filter(|_| is_protected),
        };
    }
}
