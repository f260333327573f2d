//! What is new of a cluster, for the log and the metrics.

use super::Acting;
use crate::{
    api::Protection,
    prober::{
        log,
        report::{HeldBack, reason},
    },
    util::{now::Now, since::Since},
};

/// What was last said of a cluster.
pub(super) struct Before {
    reason: &'static str,
    held: Option<&'static str>,
    protection: Protection,
    since: Option<Since>,
    cut: Option<Since>,
}

impl Acting {
    /// What is said of the cluster before something is decided.
    pub(super) fn before(&self) -> Before {
        let decider = &self.decider;
        Before {
            reason: reason(decider.finding()),
            held: decider.held_back().map(HeldBack::reason),
            protection: decider.protection(),
            since: decider.protected_since(),
            cut: decider.cut(),
        }
    }

    /// Says what is new of the cluster.
    pub(super) fn say(&mut self, before: Before, now: Now) {
        let decider = &self.decider;
        let finding = decider.finding();
        if reason(finding) != before.reason {
            log::found(&self.cluster, finding, decider.last_settings());
        }
        if let Some(why @ HeldBack::Unconfirmed(_)) = decider.held_back()
            && before.held != Some(why.reason())
        {
            log::held(&self.cluster, why);
        }
        if decider.cut().is_some() && decider.cut() != before.cut {
            log::max_protection(&self.cluster);
        }
        let protection = decider.protection();
        let is_another = before.since != decider.protected_since();
        let lasted = before.since.map(|since| since.elapsed(now));
        if before.protection != protection || is_another {
            log::protection(&self.cluster, (before.protection, protection), lasted);
        }
        if is_another && let Some(lasted) = lasted {
            self.means.metrics.protections.observe(lasted.as_secs_f64());
        }
    }
}
