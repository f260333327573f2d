//! What is reported about a cluster.

use k8s_openapi::jiff::Timestamp;

use super::Decider;
use crate::{
    api::Protection,
    prober::{
        finding::{Finding, HeldBack},
        verdict::Returning,
        watch::Conclusion,
    },
    util::{now::Now, since::Since},
};

/// What is reported; `restored` also decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub(super) protected_since: Option<Since>,
    /// When something was last given back.
    pub(super) restored: Option<Since>,
    /// Start of the outage that the leases show, or showed; a new reader of the leases begins with it.
    pub(super) silent_since: Option<Timestamp>,
    /// The nodes that are waited for, as of the last verdict that allows a restore.
    pub(super) returning: Returning,
}

impl Decider {
    /// Records when a protection begins, and when it is over.
    pub(super) fn note_protection(&mut self, now: Now) {
        let is_down = self.is_down();
        // Only a restore that is to begin uses them.
        self.evidence.fresh_since.take_if(|_| !is_down);
        self.turn.take_if(|_| !is_down);
        self.told.protected_since = match self.protection() {
            Protection::None => None,
            _ => self.told.protected_since.or(Some(now.into())),
        };
    }
}

impl Told {
    /// Records the start of the outage that the leases show, if they do.
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
