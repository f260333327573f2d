//! A protection that has lasted for as long as its policy lets it.

use super::ClusterMachine;
use crate::{
    api::{ClusterHealthStatus, Protection},
    cluster::Settings,
    prober::{verdict::Verdict, watch::Conclusion},
    util::{now::Now, since::Since},
};

/// When maxProtection last ended a protection, and whether it is the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Cut {
    at: Option<Since>,
    pub(super) is_at_hand: bool,
}

impl Cut {
    /// As an earlier run left it, for a cluster that has been down since `down`.
    pub(super) fn recall(
        known: Option<&ClusterHealthStatus>,
        down: Option<Since>,
        now: Now,
    ) -> Self {
        let at = known.and_then(|known| Some(known.max_protection_reached.as_ref()?.0));
        // A time in the future says nothing about what is silent now.
        let at = at.filter(|at| *at <= now.wall);
        let at = at.map(|at| Since::of(at, now));
        let ages = at
            .zip(down)
            .map(|(at, since)| (at.elapsed(now), since.elapsed(now)));
        Self {
            at,
            is_at_hand: ages.is_some_and(|(cut, protection)| cut <= protection),
        }
    }
}

impl ClusterMachine {
    /// When maxProtection last ended a protection: leases that have been silent since before count neither
    /// way.
    pub fn cut(&self) -> Option<Since> {
        self.cut.at
    }

    /// Sets the cut once a protection has lasted too long: leases that have been silent since before count
    /// neither way from the next read on. Drops it once it makes no difference. A policy that writes nothing
    /// takes precedence.
    pub(super) fn note_max_protection(
        &mut self,
        conclusion: &Conclusion,
        settings: &Settings,
        now: Now,
    ) {
        let lasts = |since: Option<Since>| since.map(|since| since.elapsed(now));
        let protection = self.flows.protection();
        if protection == Protection::None {
            // Each lease has been renewed since, so the cut makes no difference.
            let is_past = lasts(self.cut.at) > Some(settings.rules.grace);
            self.cut.at = self
                .cut
                .at
                .filter(|_| !is_past || conclusion.assessment.silent > 0);
            return;
        }
        let Some(after) = settings.max_protection else {
            return;
        };
        let acts = self.acts(settings, now.mono);
        let is_down = match protection {
            // A restore may be stuck for good: too few nodes are back, and the others are dead. An outage
            // within one is another protection.
            Protection::Restoring => matches!(conclusion.verdict, Verdict::Undetermined(_)),
            _ => true,
        };
        let is_over = lasts(self.told.down_since) >= Some(after);
        // What fell silent after that keeps it protected for as long again.
        let is_cut = lasts(self.cut.at).is_some_and(|age| age < after);
        // One that may be restored waits for its turn, which comes soon.
        if acts && is_down && is_over && !is_cut && !self.flows.awaits_turn() {
            self.cut = Cut {
                at: Some(now.into()),
                is_at_hand: true,
            };
        }
    }
}
