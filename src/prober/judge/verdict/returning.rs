//! How many nodes are back after an outage.

use super::{
    LeaseRules,
    seen::{Pulse, Seen},
};
use crate::{
    prober::{leases::Leases, nodes::Exclusion},
    util::mono_time::MonoTime,
};

/// The nodes that a restore waits for: those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returning {
    /// Nodes whose lease is fresh again, and that say they are Ready.
    pub back: usize,
    /// All of them.
    pub all: usize,
}

impl Returning {
    /// Counts as of `at`, those that are not silent since before `onset`. Readiness counts only if Nodes were read
    /// since the restore was allowed: `current`.
    pub(crate) fn new(
        leases: &Leases,
        rules: &LeaseRules,
        onset: Option<MonoTime>,
        current: bool,
        at: MonoTime,
    ) -> Self {
        let mut returning = Self::default();
        for beat in leases.iter() {
            let seen = Seen::new(beat, rules, leases.cut, false, at);
            let counts = matches!(seen.excluded, None | Some(Exclusion::NotReadYet));
            let is_awaited = counts && !seen.silent_before(onset);
            let is_back = current && beat.place.ready && seen.pulse == Pulse::Fresh;
            returning.all += usize::from(is_awaited);
            returning.back += usize::from(is_awaited && is_back);
        }
        returning
    }

    /// Returns whether there is none to wait for.
    pub fn is_complete(self) -> bool {
        self.back >= self.all
    }
}
