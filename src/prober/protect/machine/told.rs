//! What people are told of a cluster.

use std::time::Duration;

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

/// What people are told. It decides nothing here, but whether a Trigger was acted on.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) finding: Finding,
    pub(super) held_back: Option<HeldBack>,
    pub(super) probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub(super) protected_since: Option<Since>,
    /// When the last protections began.
    pub(super) protections: Vec<Since>,
    /// The protection at hand is among them.
    pub(super) is_counted: bool,
    /// When the outage began that the leases show, or have shown; whoever reads them anew begins with it.
    pub(super) silent_since: Option<Timestamp>,
    /// The nodes that were silent, as of the last verdict that allows a restore.
    pub(super) returning: Returning,
}

/// Protections are counted over so long.
const AN_HOUR: Duration = Duration::from_secs(3600);
/// For how many seconds the leases must have been fresh before the second, third ... is ended.
const FRESH: [u64; 4] = [15, 30, 60, 120];

impl ClusterMachine {
    /// Takes down when a protection begins, and when it is over.
    pub(super) fn note_protection(&mut self, now: Now) {
        let protection = self.flows.protection();
        self.cut.is_at_hand &= protection != Protection::None;
        // One in which nothing is taken is none.
        if protection == Protection::Active && !self.told.is_counted {
            self.told.note_another_protection(now);
        }
        self.told.is_counted = match protection {
            Protection::None => false,
            Protection::Active => true,
            Protection::ScalingDown | Protection::Restoring => self.told.is_counted,
        };
        self.told.protected_since = match protection {
            Protection::None => None,
            _ => self.told.protected_since.or(Some(now.into())),
        };
    }
}

impl Told {
    /// Takes up that a protection begins.
    pub(super) fn note_another_protection(&mut self, now: Now) {
        self.protections
            .retain(|since| since.elapsed(now) < AN_HOUR);
        let surplus = (self.protections.len() + 1).saturating_sub(MAX_RECENT_PROTECTIONS);
        self.protections.drain(..surplus);
        self.protections.push(now.into());
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
