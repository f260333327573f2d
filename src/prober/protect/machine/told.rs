//! What is reported about a cluster.

use std::{mem, time::Duration};

use k8s_openapi::jiff::Timestamp;

use super::ClusterMachine;
use crate::{
    api::{MAX_RECENT_PROTECTIONS, Protection},
    prober::{
        finding::{Finding, HeldBack},
        verdict::Returning,
        watch::Conclusion,
    },
    util::{now::Now, since::Since},
};

/// What is reported. `protections` also decide.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub(super) protected_since: Option<Since>,
    /// When the last protections began.
    pub(super) protections: Vec<Since>,
    /// As `protected_since`, but it starts anew if an outage interrupts a restore.
    pub(super) down_since: Option<Since>,
    /// The protection as of the last input.
    pub(super) protection: Protection,
    /// Start of the outage that the leases show, or showed; a new reader of the leases begins with it.
    pub(super) silent_since: Option<Timestamp>,
    /// The nodes that are waited for, as of the last verdict that allows a restore.
    pub(super) returning: Returning,
}

/// Time over which protections count.
const AN_HOUR: Duration = Duration::from_secs(3600);
/// Seconds for which the leases must be fresh before the second, third ... protection ends.
const FRESH: [u64; 4] = [15, 30, 60, 120];

impl ClusterMachine {
    /// Records when a protection begins, and when it is over.
    pub(super) fn note_protection(&mut self, now: Now) {
        let protection = self.flows.protection();
        let before = mem::replace(&mut self.told.protection, protection);
        let is_down = self.flows.is_down();
        let interrupts = before == Protection::Restoring && is_down;
        // Only a restore that is to begin uses it.
        self.evidence.fresh_since.take_if(|_| !is_down);
        self.cut.is_at_hand &= protection != Protection::None && !interrupts;
        // A protection needs a scale-down: it counts when that is over.
        let is_another = match (before, protection) {
            (Protection::ScalingDown, Protection::Restoring) => true,
            (before, Protection::Active) => before != Protection::Active,
            _ => false,
        };
        if is_another {
            let began = self.told.down_since.filter(|_| !interrupts);
            self.told.note_another_protection(began, now);
        }
        self.told.down_since = match protection {
            Protection::None => None,
            _ if interrupts => Some(now.into()),
            _ => self.told.down_since.or(Some(now.into())),
        };
        self.told.protected_since = match protection {
            Protection::None => None,
            _ => self.told.protected_since.or(Some(now.into())),
        };
    }
}

impl Told {
    /// Records another protection, which began then, or now if that is unknown.
    fn note_another_protection(&mut self, began: Option<Since>, now: Now) {
        // One that interrupts a restore of an earlier run began after the last one that it recorded.
        let last = self.protections.last().map(|last| last.stamp);
        let began = began.filter(|began| last < Some(began.stamp));
        self.protections
            .retain(|since| since.elapsed(now) < AN_HOUR);
        let surplus = (self.protections.len() + 1).saturating_sub(MAX_RECENT_PROTECTIONS);
        self.protections.drain(..surplus);
        self.protections.push(began.unwrap_or(now.into()));
    }

    /// How often protections began within the last hour, and for how long the leases must have been fresh
    /// before this one is ended, if at all.
    pub(super) fn flapping(&self, now: Now) -> Option<(usize, Duration)> {
        let protections = self.protections.iter();
        let times = protections
            .filter(|since| since.elapsed(now) < AN_HOUR)
            .count();
        let place = times.checked_sub(2)?.min(FRESH.len() - 1);
        FRESH
            .get(place)
            .map(|seconds| (times, Duration::from_secs(*seconds)))
    }

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
