//! Which leases fell silent in an outage, and how many of their nodes are back.

use super::{
    LeaseRules,
    seen::{Pulse, Seen},
};
use crate::{
    prober::{
        candidates::{Exclusion, Roster},
        heartbeat::Heartbeats,
    },
    util::mono_time::MonoTime,
};

/// The nodes that were silent in the outage, except those that are gone or do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returning {
    /// Nodes whose lease is fresh again, and that say they are Ready.
    pub back: usize,
    /// All of them.
    pub all: usize,
}

impl Returning {
    /// Counts as of `at`. Readiness counts only if Nodes were read since the restore was allowed: `current`.
    pub(crate) fn new(
        leases: &Heartbeats,
        roster: &Roster,
        thresholds: &LeaseRules,
        current: bool,
        at: MonoTime,
    ) -> Self {
        let places = leases.iter().zip(roster.places(leases.names()));
        let mut returning = Self::default();
        for ((_, beat), place) in places.filter(|((_, beat), _)| beat.silenced) {
            let seen = Seen::new(beat, place, thresholds, false, at);
            let is_awaited = matches!(seen.excluded, None | Some(Exclusion::NotReadYet));
            let is_back = current && place.ready && seen.pulse == Pulse::Fresh;
            returning.all += usize::from(is_awaited);
            returning.back += usize::from(is_awaited && is_back);
        }
        returning
    }

    /// Whether there is none to wait for.
    pub fn is_complete(self) -> bool {
        self.back >= self.all
    }
}

/// For each lease, in the order of their names, whether it is silent in an outage that began at `onset`;
/// or, if that was not watched, whether it may have been.
pub(crate) fn silent(
    leases: &Heartbeats,
    roster: &Roster,
    thresholds: &LeaseRules,
    (onset, watched): (Option<MonoTime>, bool),
    at: MonoTime,
) -> Vec<bool> {
    let places = leases.iter().zip(roster.places(leases.names()));
    let silent = places.map(|((_, beat), place)| {
        let seen = Seen::new(beat, place, thresholds, true, at);
        seen.excluded.is_none()
            && (seen.pulse == Pulse::Expired || !watched)
            && !seen.silent_before(onset)
    });
    silent.collect()
}
