//! What waits although a verdict asks for it: a restore for its turn among other clusters, a scale-down for
//! its confirmation.

use tokio::time::Instant;

use super::{Flows, Wanted};
use crate::{
    api::Protection,
    prober::{machine::Effect, plan::Aim},
};

impl Flows {
    /// Begins what a verdict asks for, unless a flow is under way. A scale-down waits for its confirmation,
    /// unless all is already down, and only read. So does a restore of what was restored before.
    #[must_use]
    pub(in crate::prober::protect::machine) fn go_on(&mut self, now: Instant) -> Option<Effect> {
        let Wanted::Verdict {
            mut purpose,
            valid_until,
            paced,
        } = self.next
        else {
            return None;
        };
        if self.under_way.is_some() || self.awaits_turn() && self.turn.is_none_or(|turn| now < turn)
        {
            return None;
        }
        if self.awaits_turn() && valid_until < now {
            self.next = Wanted::Nothing;
            return None;
        }
        if paced {
            purpose.awaits = self.debts.await_nodes(now);
            self.next = Wanted::Verdict {
                purpose,
                valid_until,
                paced: false,
            };
        }
        let is_confirmed = match purpose.aim {
            Aim::Protect => self.is_complete() || self.confirmed.lets_take(now),
            Aim::Restore => !self.debts.owes_again() || self.confirmed.lets_give_back(now),
            Aim::Release | Aim::Look => true,
        };
        if !is_confirmed {
            return self.confirmed.ask();
        }
        self.next = Wanted::Nothing;
        Some(self.start(purpose, valid_until, true, now))
    }

    /// Whether a restore waits for its turn among those of other clusters. One that has begun goes on.
    pub(in crate::prober::protect::machine) fn awaits_turn(&self) -> bool {
        let is_paced = matches!(self.next, Wanted::Verdict { paced: true, .. });
        is_paced && self.under_way.is_none() && self.is_down() && self.debts.owes()
    }

    /// Whether what a verdict asks for waits to be confirmed.
    pub(in crate::prober::protect::machine) fn awaits_confirmation(&self) -> bool {
        let waits = self.under_way.is_none() && matches!(self.next, Wanted::Verdict { .. });
        waits && !self.awaits_turn()
    }

    /// Whether the dependents are scaled down, and none is being restored.
    pub(in crate::prober::protect::machine) fn is_down(&self) -> bool {
        matches!(
            self.protection,
            Protection::Active | Protection::ScalingDown
        )
    }
}
