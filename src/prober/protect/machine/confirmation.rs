//! Whether the Cluster and its policy are as their watches show them: both are read past every cache before
//! something is scaled to zero, and before a zero that somebody may have meant is given back.
//!
//! A watch may lag. While an outage is being proven they are read beside the proof, so that nothing waits for
//! that when it is complete.

use std::time::Duration;

use tokio::time::Instant;

use super::{ClusterMachine, Confirmation, Effect, evidence::restore_within, flows::Wanted};
use crate::{
    api::Mode,
    cluster::Settings,
    prober::{
        finding::HeldBack,
        mono_time::MonoTime,
        plan::Aim,
        proof::Proof,
        treatment::Treatment,
        verdict::{Doubt, Verdict},
        watch::Conclusion,
    },
};

/// A read takes no longer before a scale-down: an outage that is proven waits for it.
const BEFORE_SCALE_DOWN: Duration = Duration::from_secs(1);
/// Nor does it before a zero is given back, which is in no hurry: as long as any request to the seed.
const BEFORE_RESTORE: Duration = Duration::from_secs(10);
/// A restore goes by a confirmation for so long, or for as long as by a healthy verdict if that is longer: it
/// is a later verdict that begins it.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// The confirmation that was last asked for, and the last answer. A change of what it is about discards both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Confirmed {
    /// How long the reads under way may take.
    asked: Option<Duration>,
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    confirmation: Confirmation,
    at: Instant,
    /// Until when a scale-down may begin by it.
    until: Instant,
}

impl Confirmed {
    /// Asks for what a scale-down waits for, unless an answer is under way that comes as soon.
    pub(super) fn ask(&mut self) -> Option<Effect> {
        self.ask_within(BEFORE_SCALE_DOWN)
    }

    fn ask_within(&mut self, limit: Duration) -> Option<Effect> {
        if self.asked.is_some_and(|asked| asked <= limit) {
            return None;
        }
        self.asked = Some(limit);
        Some(Effect::Confirm(limit))
    }

    /// Takes up an answer by which a scale-down may begin for so long. Tells whether it counts: what it is about may
    /// have changed since it was asked for.
    pub(super) fn answered(
        &mut self,
        confirmation: Confirmation,
        (at, valid): (Instant, Duration),
    ) -> bool {
        let counts = self.asked.take().is_some();
        if counts {
            self.answer = Some(Answer {
                confirmation,
                at,
                until: at + valid,
            });
        }
        counts
    }

    /// Whether a scale-down may begin at that moment.
    pub(super) fn lets_take(&self, at: Instant) -> bool {
        use Confirmation::{Heard, Read};
        let suffices = |it: &Answer| matches!(it.confirmation, Read | Heard) && at <= it.until;
        self.answer.as_ref().is_some_and(suffices)
    }

    /// Whether a zero may be given back that somebody may have meant: only a read tells.
    fn lets_restore(&self, settings: &Settings, now: Instant) -> bool {
        let valid = RESTORED_WITHIN.max(restore_within(settings));
        let suffices = |it: &Answer| it.confirmation == Confirmation::Read && now <= it.at + valid;
        self.answer.as_ref().is_some_and(suffices)
    }

    /// Why nothing is scaled down by the last answer.
    pub(super) fn objection(&self) -> Option<HeldBack> {
        let why = match self.answer?.confirmation {
            Confirmation::Read | Confirmation::Heard => return None,
            Confirmation::Unknown => {
                "nothing is scaled to zero, since the Cluster or its policy could not be read from the seed \
                 within a second, and its watch is not known to be up to date: look at the seed's API server"
            }
            Confirmation::Otherwise => {
                "nothing is scaled to zero, since the Cluster or its policy has changed: as read from the seed \
                 it is not what its watch shows, which is waited for"
            }
        };
        Some(HeldBack::Unconfirmed(why))
    }

    /// Why a zero that somebody may have meant is not given back yet.
    pub(super) fn dispute(&self) -> HeldBack {
        HeldBack::By(match self.answer.map(|it| it.confirmation) {
            None | Some(Confirmation::Read) => {
                "somebody scaled a dependent to zero just after it was restored, so the Cluster is read anew first"
            }
            Some(Confirmation::Heard | Confirmation::Unknown) => {
                "somebody scaled a dependent to zero just after it was restored, and whether that was meant is \
                 not known: the Cluster or its policy could not be read from the seed, and is tried again at each \
                 probe: look at the seed's API server"
            }
            Some(Confirmation::Otherwise) => {
                "somebody scaled a dependent to zero just after it was restored, and the Cluster or its policy has \
                 changed: as read from the seed it is not what its watch shows, which is waited for"
            }
        })
    }
}

impl ClusterMachine {
    /// Takes up an answer.
    pub(super) fn confirmed(&mut self, confirmation: Confirmation, now: Instant) {
        let valid = Proof::length(self.evidence.period);
        let counts = self.flows.confirmed.answered(confirmation, (now, valid));
        if !counts || !self.flows.awaits_confirmation() {
            return;
        }
        self.told.held_back = self.flows.confirmed.objection();
        if self.told.held_back.is_some() {
            self.want(Wanted::Nothing, now);
        }
    }

    /// Asks beside the proof of an outage, less than two thirds of a renewal period before it can be complete:
    /// there is a read of the leases in each third.
    pub(super) fn confirm_ahead(
        &mut self,
        conclusion: &Conclusion,
        settings: &Settings,
        now: Instant,
    ) {
        let seen = &conclusion.assessment;
        let proven_at = |complete: MonoTime| Some(seen.expires_at?.max(complete));
        let proven_at = match conclusion.verdict {
            Verdict::Undetermined(Doubt::Unproven(until)) => proven_at(until),
            Verdict::Undetermined(Doubt::UnknownLeases) if seen.scattered => None,
            Verdict::Undetermined(Doubt::FactsOutdated | Doubt::UnknownLeases)
            | Verdict::Outage => proven_at(seen.at),
            Verdict::Undetermined(_) | Verdict::Healthy => None,
        };
        let may_act = matches!(self.treatment, Treatment::Probe(_))
            && settings.mode == Mode::Enforce
            && now >= self.act_from;
        let Some(proven_at) = proven_at.filter(|_| may_act && seen.suspect()) else {
            return;
        };
        let (rest, third) = (proven_at.since(seen.at), seen.spacing());
        let confirmed = &mut self.flows.confirmed;
        if rest <= 2 * third
            && !confirmed.lets_take(now + rest + third)
            && self.flows.is_urgent(Aim::Protect)
        {
            self.effects.extend(self.flows.confirmed.ask());
        }
    }

    /// Whether a dependent was scaled to zero just after it was restored, which somebody may have meant: then the
    /// Cluster has to be confirmed as one that is probed, and what keeps it from being restored is noted.
    pub(super) fn may_be_meant(&mut self, now: Instant) -> bool {
        // As the flow will see it that this decides about.
        self.flows.debts.forget_contention(now);
        if !self.flows.debts.is_disputed() {
            return false;
        }
        // Of a cluster that is not probed, a read would not tell.
        let Treatment::Probe(settings) = &self.treatment else {
            return false;
        };
        if self.flows.confirmed.lets_restore(settings, now) {
            return false;
        }
        let asks = self.flows.confirmed.ask_within(BEFORE_RESTORE);
        self.effects.extend(asks);
        self.told.held_back = Some(self.flows.confirmed.dispute());
        true
    }
}

#[cfg(test)]
mod tests;
