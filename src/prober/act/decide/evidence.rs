//! Evidence: the leases and the Gates as they are known by now.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use super::Decider;
use crate::{
    api::Protection,
    cluster::Settings,
    prober::{
        finding::Finding,
        lease_judge::Conclusion,
        proof::Proof,
        verdict::{Doubt, Verdict},
    },
    shoot::Unread,
    util::now::Now,
};

/// Leases and Gates of the shoot, as they are known by now.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// The verdict on the leases that were read last.
    pub(super) verdict: Option<Verdict>,
    /// The policy's thresholds let it be acted on.
    pub(super) decides: bool,
    /// Until when: nothing begins after it without newer evidence.
    pub(super) until: Option<Instant>,
    /// Why the first Gate that does not pass does not.
    pub(super) gate: Option<String>,
    /// Renewal period P as judged last.
    pub(super) period: Duration,
    /// Since when the leases have been fresh, and each check has passed, as far as is known: doubt does not
    /// end it.
    pub(super) fresh_since: Option<Instant>,
    /// Some node that counts is not ready yet.
    pub(super) nodes_missing: bool,
}

impl Evidence {
    /// Nothing is known any more of what is now.
    pub(super) fn lapse(&mut self) {
        (self.verdict, self.until) = (None, None);
    }

    /// When it does not count any more, if it does.
    pub(super) fn lapses_at(&self) -> Option<Instant> {
        Some(self.until? + Duration::from_nanos(1))
    }

    /// Hashes what decides.
    pub(super) fn digest(&self, now: Instant, state: &mut impl Hasher) {
        (self.verdict, self.decides, self.gate.is_some()).hash(state);
        self.until.map(|until| until < now).hash(state);
        (self.fresh_since.is_some(), self.nodes_missing).hash(state);
    }
}

impl Decider {
    /// Takes back a healthy verdict on a cluster that has been protected since its leases were read: less is required
    /// of an unprotected one.
    pub(super) fn review(&mut self) {
        let Finding::Judged(verdict @ Verdict::Healthy, seen) = &mut self.told.finding else {
            return;
        };
        if self.dependents.protection() != Protection::None && !seen.protected {
            *verdict = Verdict::Undetermined(Doubt::Recovering);
            (self.evidence.verdict, self.evidence.until) = (Some(*verdict), None);
        }
    }

    /// The leases were read, or could not be; `gate` is why the first Gate that does not pass does not.
    pub(super) fn read(
        &mut self,
        leases: Result<&Conclusion, &Unread>,
        gate: Option<String>,
        now: Now,
    ) {
        let Some(settings) = self.treatment.settings().cloned() else {
            return;
        };
        self.told.probed = Some(now.wall);
        self.evidence.gate = gate;
        self.confirmed.renew();
        let conclusion = match leases {
            Ok(conclusion) => conclusion,
            Err(unread) => {
                self.told.finding = Finding::Unread {
                    reason: unread.reason,
                    message: unread.message.clone(),
                };
                return self.evidence.lapse();
            }
        };
        let is_protected = self.protection() != Protection::None;
        self.evidence.period = conclusion.assessment.period;
        self.told.note_onset(conclusion, is_protected, now);
        self.note_max_protection(conclusion, &settings, now);
        let verdict = conclusion.verdict;
        let seen = Box::new(conclusion.assessment.clone());
        self.told.finding = Finding::Judged(verdict, seen);
        let evidence = &mut self.evidence;
        (evidence.verdict, evidence.decides) = (Some(verdict), conclusion.decides);
        let within = match verdict {
            Verdict::Outage => Some(Proof::length(evidence.period)),
            Verdict::Healthy => Some(restore_within(&settings)),
            Verdict::Undetermined(_) => None,
        };
        evidence.until = within.map(|within| now.mono + within);
        match verdict {
            Verdict::Outage => {
                evidence.fresh_since = None;
                self.dependents.reset_delays();
            }
            Verdict::Healthy if conclusion.decides => {
                evidence.nodes_missing = !conclusion.returning.is_complete();
                self.told.returning = conclusion.returning;
            }
            Verdict::Healthy | Verdict::Undetermined(_) => {}
        }
        if verdict != Verdict::Healthy && !(verdict == Verdict::Outage && conclusion.decides) {
            self.confirm_ahead(conclusion, &settings, now.mono);
        }
    }
}

/// A restore needs another healthy verdict within this.
fn restore_within(settings: &Settings) -> Duration {
    2 * settings.rules.interval + settings.rules.timeout
}
