//! Whether the Cluster and its policy are as their watches show them: both are read past every cache before
//! something is scaled to zero, and before what was restored is restored again.
//!
//! A watch may lag. Both are read while an outage is being proven, so that the scale-down does not wait for
//! them.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use super::{Confirmation, Decider, Effect};
use crate::{
    cluster::Settings,
    prober::{
        finding::HeldBack,
        lease_judge::Conclusion,
        verdict::{Doubt, Verdict},
    },
    util::mono_time::MonoTime,
};

/// Time for which a confirmation allows what was restored to be restored again.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// The last confirmation asked for, and the last answer. A change of what they are about discards both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Confirmed {
    /// The reads are under way.
    asked: bool,
    answer: Option<Answer>,
    /// Nothing new has been learnt since the answer, so that it is not asked again.
    is_latest: bool,
    /// A scale-down has begun by it, which goes on while it is asked again.
    pub(super) lets_go_on: bool,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    confirmation: Confirmation,
    at: Instant,
    /// Until when a scale-down may begin by it.
    until: Instant,
}

impl Confirmed {
    /// Asks, unless an answer is due, or has just come.
    pub(super) fn ask(&mut self) -> Option<Effect> {
        let asks = !self.asked && !self.is_latest;
        self.asked |= asks;
        asks.then_some(Effect::Confirm)
    }

    /// The leases were read again.
    pub(super) fn renew(&mut self) {
        self.is_latest = false;
    }

    /// Stores an answer, by which a scale-down may begin for `valid`, unless the objects have changed since the
    /// question.
    pub(super) fn answered(
        &mut self,
        confirmation: Confirmation,
        (at, valid): (Instant, Duration),
    ) {
        if std::mem::take(&mut self.asked) {
            self.is_latest = true;
            self.answer = Some(Answer {
                confirmation,
                at,
                until: at + valid,
            });
        }
    }

    /// Tells whether a scale-down may begin at that moment.
    pub(super) fn lets_take(&self, at: Instant) -> bool {
        let answer = self.answer.filter(|it| at <= it.until);
        answer.is_some() && self.objection().is_none()
    }

    /// Tells whether what was restored may be restored again at that moment.
    pub(super) fn lets_give_back(&self, at: Instant) -> bool {
        let answer = self.answer.filter(|it| at < it.at + RESTORED_WITHIN);
        answer.is_some() && self.objection().is_none()
    }

    /// Hashes what decides.
    pub(super) fn digest(&self, now: Instant, state: &mut impl Hasher) {
        let lets_take = self.lets_take(now);
        (self.asked, self.lets_go_on, lets_take).hash(state);
        (self.is_latest && !lets_take).hash(state);
        self.answer.map(|answer| answer.confirmation).hash(state);
    }

    /// Why by the last answer nothing is to be scaled.
    pub(super) fn objection(&self) -> Option<HeldBack> {
        let why = match self.answer?.confirmation {
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
        Some(HeldBack::Unconfirmed(why))
    }
}

impl Decider {
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
        if rest <= 2 * third
            && !self.confirmed.lets_take(now + rest + third)
            && self.dependents.is_takeable()
        {
            self.effects.extend(self.confirmed.ask());
        }
    }
}
