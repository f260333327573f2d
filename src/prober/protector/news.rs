//! What is new of a cluster, for the log and the metrics.

use super::Protector;
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

impl Protector {
    /// What is said of the machine before it decides.
    pub(super) fn before(&self) -> Before {
        let machine = &self.machine;
        Before {
            reason: reason(machine.finding()),
            held: machine.held_back().map(HeldBack::reason),
            protection: machine.protection(),
            since: machine.protected_since(),
            cut: machine.cut(),
        }
    }

    /// Says what is new of the cluster.
    pub(super) fn tell(&mut self, before: Before, now: Now) {
        let machine = &self.machine;
        let finding = machine.finding();
        if reason(finding) != before.reason {
            log::found(&self.cluster, finding, machine.last_settings());
        }
        if let Some(why @ HeldBack::Unconfirmed(_)) = machine.held_back()
            && before.held != Some(why.reason())
        {
            log::held(&self.cluster, why);
        }
        if machine.cut().is_some() && machine.cut() != before.cut {
            log::max_protection(&self.cluster);
        }
        let protection = machine.protection();
        let is_another = before.since != machine.protected_since();
        let lasted = before.since.map(|since| since.elapsed(now));
        if before.protection != protection || is_another {
            log::protection(&self.cluster, (before.protection, protection), lasted);
        }
        if is_another && let Some(lasted) = lasted {
            self.metrics.protections.observe(lasted.as_secs_f64());
        }
    }
}
