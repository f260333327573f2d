//! What is remembered of the outage under way: when it began, and which leases were silent in it.

use std::{mem, time::Duration};

use super::Watch;
use crate::{
    prober::leases::Beat,
    prober::verdict::{Returning, Verdict, mark_silent},
    util::mono_time::MonoTime,
};

impl Watch {
    /// The cluster was protected before this watch began; another process may have left the outage's start.
    pub fn recall(&mut self, onset: Option<MonoTime>) {
        self.recalled = onset;
        self.is_late = true;
    }

    /// Leases that had expired by then count neither way until they are renewed. One that was fresh then, or
    /// about to expire, may belong to an outage that begins.
    pub(crate) fn set_cut(&mut self, cut: Option<MonoTime>) {
        let expiry = self.rules.expiry(Duration::ZERO);
        let expired = cut.map(|cut| cut - expiry.unwrap_or_default());
        self.leases.set_cut(expired);
    }

    /// Since when a restore has been allowed that waits for the nodes that were silent, if one does.
    pub(crate) fn set_awaits(&mut self, since: Option<MonoTime>) {
        self.awaits = since;
    }

    /// Clocks may be wrong, so it counts only if a lease was last renewed at about that time.
    pub(super) fn adopt_recalled(&mut self) {
        let Some(recalled) = self.recalled.take().filter(|_| self.protected) else {
            return;
        };
        let renewed = self.leases.iter().filter_map(Beat::renewed);
        let grace = self.rules.grace;
        let onset = renewed
            .map(|window| window.latest)
            .filter(|at| at.since(recalled).max(recalled.since(*at)) <= grace)
            .min();
        self.onset = self.onset.or(onset);
    }

    /// Records which leases are silent in the outage under way, if there is one.
    pub(super) fn note_silent(&mut self, verdict: Verdict, at: MonoTime) {
        if verdict != Verdict::Outage && !self.protected {
            return;
        }
        let onset = self.onset.map(|onset| onset - self.rules.grace);
        let watched = !mem::take(&mut self.is_late);
        mark_silent(&mut self.leases, &self.rules, (onset, watched), at);
    }

    /// How many of the nodes that were silent in it are back.
    pub(super) fn returning(&self, at: MonoTime) -> Returning {
        let current = self
            .awaits
            .is_some_and(|since| self.facts.read >= Some(since));
        Returning::new(&self.leases, &self.rules, current, at)
    }
}
