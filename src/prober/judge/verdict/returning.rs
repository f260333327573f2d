//! Which leases fell silent in an outage, and how many of their nodes are back.

use super::{
    LeaseRules,
    seen::{Pulse, Seen},
};
use crate::{
    prober::{leases::Leases, nodes::Exclusion},
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
        leases: &Leases,
        thresholds: &LeaseRules,
        current: bool,
        at: MonoTime,
    ) -> Self {
        let mut returning = Self::default();
        for beat in leases.iter().filter(|beat| beat.silenced) {
            let seen = Seen::new(beat, thresholds, false, at);
            let is_awaited = matches!(seen.excluded, None | Some(Exclusion::NotReadYet));
            let is_back = current && beat.place.ready && seen.pulse == Pulse::Fresh;
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

/// Marks each lease that is silent in an outage that began at `onset`; or, if that was not watched, that may
/// have been.
pub(crate) fn mark_silent(
    leases: &mut Leases,
    thresholds: &LeaseRules,
    (onset, watched): (Option<MonoTime>, bool),
    at: MonoTime,
) {
    for beat in leases.iter_mut() {
        let seen = Seen::new(beat, thresholds, true, at);
        let silent = seen.excluded.is_none()
            && (seen.pulse == Pulse::Expired || !watched)
            && !seen.silent_before(onset);
        beat.silenced |= silent;
    }
}
