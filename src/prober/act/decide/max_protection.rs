//! A protection that has lasted for as long as its policy lets it be.

use std::time::Duration;

use super::Decider;
use crate::{
    api::ClusterHealthStatus,
    cluster::Settings,
    prober::{lease_judge::Conclusion, verdict::Verdict},
    util::{now::Now, since::Since},
};

/// When maxProtection last ended a protection, and whether it is the one at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Cut {
    at: Option<Since>,
    pub(super) is_at_hand: bool,
}

impl Cut {
    /// Takes it up as an earlier run left it, for a cluster that has been protected since then.
    pub(super) fn recall(
        known: Option<&ClusterHealthStatus>,
        protected: Option<Since>,
        now: Now,
    ) -> Self {
        let at = known.and_then(|known| Some(known.max_protection_reached.as_ref()?.0));
        // A time in the future says nothing about what is silent now.
        let at = at.filter(|at| *at <= now.wall);
        Self {
            at: at.map(|at| Since::of(at, now)),
            is_at_hand: at
                .zip(protected)
                .is_some_and(|(at, since)| at >= since.stamp),
        }
    }
}

impl Decider {
    /// When maxProtection last ended a protection, and whether that is the one at hand: leases that have been silent
    /// since before count neither way.
    pub fn cut(&self) -> Option<(Since, bool)> {
        Some((self.cut.at?, self.cut.is_at_hand))
    }

    /// Sets the cut once a protection has lasted too long and is not healthy: leases that have been silent since
    /// before count neither way from the next read on. Drops it once it makes no difference. A policy that writes
    /// nothing takes precedence.
    pub(super) fn note_max_protection(
        &mut self,
        conclusion: &Conclusion,
        settings: &Settings,
        now: Now,
    ) {
        let (verdict, seen) = (conclusion.verdict, &conclusion.assessment);
        let Some(protected) = self.told.protected_since else {
            // Once each lease has been renewed, the cut makes no difference.
            let is_past = |at: &Since| at.elapsed(now) > settings.rules.grace && seen.silent == 0;
            self.cut = Cut {
                at: self.cut.at.filter(|at| !is_past(at)),
                is_at_hand: false,
            };
            return;
        };
        // What fell silent since is another outage.
        self.cut.is_at_hand &= !(verdict == Verdict::Outage && seen.ended);
        // It keeps the cluster protected for as long again.
        let since = self.cut.at.map_or(Duration::MAX, |at| at.elapsed(now));
        let lasts = protected.elapsed(now).min(since);
        let is_too_long = settings.max_protection.is_some_and(|most| lasts >= most);
        if is_too_long && verdict != Verdict::Healthy && self.acts(settings, now.mono) {
            self.cut = Cut {
                at: Some(now.into()),
                is_at_hand: true,
            };
        }
    }
}
