//! Whether the Cluster and its policy are as their watches show them: both are read past every cache before
//! something is scaled to zero, and before a possibly intended zero is undone.
//!
//! A watch may lag. Both are read while an outage is being proven, so that the scale-down does not wait for
//! them.

use std::time::Duration;

use tokio::time::Instant;

use super::{ClusterMachine, Confirmation, Effect, evidence::restore_within, flows::Wanted};
use crate::{
    cluster::Settings,
    prober::{
        finding::HeldBack,
        plan::Aim,
        proof::Proof,
        treatment::Treatment,
        verdict::{Doubt, Verdict},
        watch::Conclusion,
    },
    util::mono_time::MonoTime,
};

/// How long a confirmation allows a restore, unless a healthy verdict counts for longer: a later verdict
/// begins the restore.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// The last confirmation asked for, and the last answer. A change of what they are about discards both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Confirmed {
    /// The reads are under way.
    asked: bool,
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
    /// Asks, unless an answer is due.
    pub(super) fn ask(&mut self) -> Option<Effect> {
        let asked = std::mem::replace(&mut self.asked, true);
        (!asked).then_some(Effect::Confirm)
    }

    /// Stores an answer, by which a scale-down may begin for `valid`. Returns whether it counts: the
    /// objects may have changed since the question.
    pub(super) fn answered(
        &mut self,
        confirmation: Confirmation,
        (at, valid): (Instant, Duration),
    ) -> bool {
        let counts = std::mem::take(&mut self.asked);
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
        let suffices = |it: &Answer| it.confirmation == Confirmation::AsKnown && at <= it.until;
        self.answer.as_ref().is_some_and(suffices)
    }

    /// Whether a possibly intended zero may be undone.
    fn lets_restore(&self, settings: &Settings, now: Instant) -> bool {
        let valid = RESTORED_WITHIN.max(restore_within(settings));
        let suffices =
            |it: &Answer| it.confirmation == Confirmation::AsKnown && now <= it.at + valid;
        self.answer.as_ref().is_some_and(suffices)
    }

    /// Why the last answer forbids a scale-down.
    pub(super) fn objection(&self) -> Option<HeldBack> {
        let why = match self.answer?.confirmation {
            Confirmation::AsKnown => return None,
            Confirmation::Unknown => {
                "nothing is scaled to zero, since the Cluster or its policy could not be read from the seed \
                 within 5 seconds, and its watch is broken: look at the seed's API server"
            }
            Confirmation::Otherwise => {
                "nothing is scaled to zero, since the Cluster or its policy has changed: as read from the seed \
                 it is not what its watch shows, which is waited for"
            }
        };
        Some(HeldBack::Unconfirmed(why))
    }

    /// Why a possibly intended zero is not undone yet.
    pub(super) fn dispute(&self) -> HeldBack {
        HeldBack::By(match self.answer.map(|it| it.confirmation) {
            None | Some(Confirmation::AsKnown) => {
                "somebody scaled a dependent to zero just after it was restored, so the Cluster is read anew first"
            }
            Some(Confirmation::Unknown) => {
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
    /// Takes in an answer.
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

    /// Asks while an outage is being proven, at most two thirds of a renewal period before the proof can be
    /// complete: the leases are read in each third.
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
            Verdict::Undetermined(Doubt::FactsOutdated | Doubt::UnknownLeases)
            | Verdict::Outage => proven_at(seen.at),
            Verdict::Undetermined(_) | Verdict::Healthy => None,
        };
        let acts = self.acts(settings, now);
        let Some(proven_at) = proven_at.filter(|_| acts && seen.suspect()) else {
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

    /// Whether a restored dependent was scaled to zero again, possibly on purpose, and a read has yet to
    /// confirm that the Cluster is probed. If so, asks for the read and notes why nothing is restored.
    pub(super) fn may_be_meant(&mut self, now: Instant) -> bool {
        // As the flow that this decides about will see it.
        self.flows.debts.forget_contention(now);
        if !self.flows.debts.is_disputed() {
            return false;
        }
        // For a cluster that is not probed, a read tells nothing.
        let Treatment::Probe(settings) = &self.treatment else {
            return false;
        };
        if self.flows.confirmed.lets_restore(settings, now) {
            return false;
        }
        let asks = self.flows.confirmed.ask();
        self.effects.extend(asks);
        self.told.held_back = Some(self.flows.confirmed.dispute());
        true
    }
}
