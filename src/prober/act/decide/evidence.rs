//! Evidence: the leases and the Gates as they are known by now; whether the Cluster and its policy are as their watches
//! show them; and a protection that has lasted for as long as its policy lets it be.
//!
//! A watch may lag. So the Cluster and its policy are read past every cache before something is scaled to zero, and
//! before what was restored is restored again: while an outage is being proven, so that the scale-down does not wait.

use std::{
    hash::{Hash, Hasher},
    mem,
    time::Duration,
};

use tokio::time::Instant;

use super::{Confirmation, Decider, Effect};
use crate::{
    api::{ClusterHealthStatus, Protection},
    cluster::Settings,
    prober::{
        finding::{Finding, HeldBack},
        lease_judge::Conclusion,
        proof::Proof,
        step::Aim,
        verdict::{Doubt, Verdict},
    },
    shoot::Unread,
    util::{now::Now, since::Since},
};

/// Leases and Gates of the shoot, as they are known by now.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// The policy's thresholds let the verdict on the leases that were read last be acted on.
    pub(super) decides: bool,
    /// Until when it counts, if it does: nothing begins after that without newer evidence.
    pub(super) until: Option<Instant>,
    /// Why the first Gate that does not pass does not.
    pub(super) gate: Option<String>,
    /// Since when the leases have been fresh, and each check has passed, as far as is known: doubt does not
    /// end it.
    pub(super) fresh_since: Option<Instant>,
}

/// The last confirmation asked for, and the last answer. A change of what they are about discards both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// The reads are under way.
    asked: bool,
    /// Nothing new has been learnt since the answer, so that it is not asked again.
    is_latest: bool,
    /// The last answer, and when it came.
    answer: Option<(Confirmation, Instant)>,
}

impl Confirmed {
    /// Asks, unless an answer is due, or has just come.
    fn ask(&mut self) -> Option<Effect> {
        let asks = !self.asked && !self.is_latest;
        self.asked |= asks;
        asks.then_some(Effect::Confirm)
    }

    /// The leases were read again.
    pub(super) fn renew(&mut self) {
        self.is_latest = false;
    }

    /// Stores an answer, unless the objects have changed since the question.
    pub(super) fn answered(&mut self, confirmation: Confirmation, now: Instant) {
        if mem::take(&mut self.asked) {
            (self.is_latest, self.answer) = (true, Some((confirmation, now)));
        }
    }

    /// Tells whether something may begin at that moment by an answer that is no older than this.
    fn allows(&self, at: Instant, within: Duration) -> bool {
        let answer = self.answer.filter(|(_, came)| at <= *came + within);
        answer.is_some_and(|(confirmation, _)| confirmation == Confirmation::AsKnown)
    }

    /// Hashes what decides.
    pub(super) fn digest(&self, within: Duration, now: Instant, state: &mut impl Hasher) {
        let allows = self.allows(now, within);
        (self.asked, allows, self.is_latest && !allows).hash(state);
        self.answer.map(|(answer, _)| answer).hash(state);
    }

    /// Why by the last answer nothing is to be scaled.
    pub(super) fn objection(&self) -> Option<HeldBack> {
        let why = match self.answer?.0 {
            Confirmation::AsKnown => return None,
            Confirmation::Unknown => {
                "nothing is scaled, since the Cluster or its policy could not be read from the seed \
                 within 5 seconds, and its watch is broken: look at the seed's API server"
            }
            Confirmation::Otherwise => {
                "nothing is scaled, since the Cluster or its policy has changed: as read from the seed \
                 it is not what its watch shows, which is waited for"
            }
        };
        Some(HeldBack::new("Unconfirmed", why))
    }
}

impl Decider {
    /// The verdict that counts, and the renewal period P of the leases that were read last.
    pub(super) fn verdict(&self) -> (Option<Verdict>, Duration) {
        match &self.told.finding {
            Finding::Judged(verdict, seen) => {
                let counts = self.evidence.until.is_some();
                (counts.then_some(*verdict), seen.period)
            }
            _ => (None, Duration::ZERO),
        }
    }

    /// Takes back a healthy verdict on a cluster that has been protected since its leases were read: less is required
    /// of an unprotected one.
    pub(super) fn review(&mut self) {
        let Finding::Judged(verdict @ Verdict::Healthy, seen) = &mut self.told.finding else {
            return;
        };
        if self.dependents.protection() != Protection::None && !seen.protected {
            *verdict = Verdict::Undetermined(Doubt::Recovering);
            self.evidence.until = None;
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
                self.evidence.until = None;
                return;
            }
        };
        let is_protected = self.protection() != Protection::None;
        self.told.note_onset(conclusion, is_protected, now);
        self.note_max_protection(conclusion, &settings, now);
        let verdict = conclusion.verdict;
        let seen = Box::new(conclusion.assessment.clone());
        self.told.finding = Finding::Judged(verdict, seen);
        self.evidence.decides = conclusion.decides;
        let within = match verdict {
            Verdict::Outage => Some(Proof::length(conclusion.assessment.period)),
            // A restore needs another healthy verdict by then.
            Verdict::Healthy => Some(2 * settings.rules.interval + settings.rules.timeout),
            Verdict::Undetermined(_) => None,
        };
        self.evidence.until = within.map(|within| now.mono + within);
        if verdict == Verdict::Outage {
            self.evidence.fresh_since = None;
            if self.dependents.aim() != Aim::Down {
                self.dependents.reset_delays();
            }
        } else if verdict == Verdict::Healthy && conclusion.decides {
            self.told.returning = conclusion.returning;
        }
        if verdict != Verdict::Outage || !conclusion.decides {
            self.confirm_ahead(conclusion, &settings, now.mono);
        }
    }

    /// Checks whether something may begin that is to be confirmed, and asks if that is not known.
    pub(super) fn confirm(
        &mut self,
        within: Duration,
        now: Instant,
    ) -> Result<(), Option<HeldBack>> {
        if self.confirmed.allows(now, within) {
            return Ok(());
        }
        self.effects.extend(self.confirmed.ask());
        Err(self.confirmed.objection())
    }

    /// Asks while an outage is being proven, at most two thirds of a renewal period before the proof can be
    /// complete: the leases are read in each third.
    fn confirm_ahead(&mut self, conclusion: &Conclusion, settings: &Settings, now: Instant) {
        let seen = &conclusion.assessment;
        let complete = match conclusion.verdict {
            Verdict::Undetermined(Doubt::Unproven(until)) => until,
            Verdict::Undetermined(Doubt::FactsOutdated | Doubt::UnknownLeases)
            | Verdict::Outage => seen.at,
            Verdict::Undetermined(_) | Verdict::Healthy => return,
        };
        let acts = seen.suspect() && self.acts(settings, now);
        let Some(expires_at) = seen.expires_at.filter(|_| acts) else {
            return;
        };
        let (rest, third) = (expires_at.max(complete).since(seen.at), seen.spacing());
        let within = Proof::length(seen.period);
        let is_known = self.confirmed.allows(now + rest + third, within);
        if rest <= 2 * third && !is_known && self.dependents.aim() != Aim::Down {
            self.effects.extend(self.confirmed.ask());
        }
    }

    /// When maxProtection last ended a protection, as an earlier run has left it. A time in the future says nothing
    /// about what is silent now.
    pub(super) fn recall_cut(known: &ClusterHealthStatus, now: Now) -> Option<Since> {
        let at = known.max_protection_reached.as_ref()?.0;
        (at <= now.wall).then(|| Since::of(at, now))
    }

    /// When maxProtection last ended a protection, and whether that is the one at hand: leases that have been silent
    /// since before count neither way.
    pub fn cut(&self) -> Option<(Since, bool)> {
        let (at, protected) = (self.cut?, self.told.protected_since);
        Some((at, protected.is_some_and(|since| at.began >= since.began)))
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
        let Some(protected) = self.told.protected_since else {
            // Once each lease has been renewed, the cut makes no difference.
            let is_renewed = conclusion.assessment.silent == 0;
            let is_past = |at: &mut Since| is_renewed && at.elapsed(now) > settings.rules.grace;
            self.cut.take_if(is_past);
            return;
        };
        // It keeps the cluster protected for as long again.
        let since = self.cut.map_or(Duration::MAX, |at| at.elapsed(now));
        let lasts = protected.elapsed(now).min(since);
        let is_too_long = settings.max_protection.is_some_and(|most| lasts >= most);
        if is_too_long && conclusion.verdict != Verdict::Healthy && self.acts(settings, now.mono) {
            self.cut = Some(now.into());
        }
    }
}
