//! What waits although a verdict asks for it: a restore for its turn among other clusters, a scale-down for
//! its confirmation.

use tokio::time::Instant;

use super::{Flows, Wanted};
use crate::{
    api::Protection,
    prober::{
        machine::{ClusterMachine, Effect},
        plan::Aim,
    },
};

impl ClusterMachine {
    /// Since when the leases have been fresh, if a restore waits for its turn among other clusters. Doubt
    /// ends the wait, but keeps this time.
    pub fn awaits_turn(&self) -> Option<Instant> {
        let since = self.evidence.fresh_since;
        since.filter(|_| self.flows.awaits_turn())
    }

    /// It is its turn.
    pub(in crate::prober::protect::machine) fn take_turn(&mut self, now: Instant) {
        if self.may_be_meant(now) {
            return self.want(Wanted::Nothing, now);
        }
        let next = self.flows.take_turn(now);
        self.follow(next);
    }
}

impl Flows {
    /// Whether what a verdict asks for waits to be confirmed.
    pub(in crate::prober::protect::machine) fn awaits_confirmation(&self) -> bool {
        let waits = self.under_way.is_none() && matches!(self.next, Wanted::Verdict { .. });
        waits && !self.awaits_turn()
    }

    /// Whether a restore waits for its turn among those of other clusters. One that has begun goes on.
    pub(in crate::prober::protect::machine) fn awaits_turn(&self) -> bool {
        let is_paced = match self.next {
            Wanted::Verdict { purpose, paced, .. } => paced && purpose.aim == Aim::Restore,
            _ => false,
        };
        is_paced && self.under_way.is_none() && self.is_down() && self.debts.owes()
    }

    /// Whether the dependents are scaled down, and none is being restored.
    pub(in crate::prober::protect::machine) fn is_down(&self) -> bool {
        matches!(
            self.protection,
            Protection::Active | Protection::ScalingDown
        )
    }

    /// Starts a restore that still waits for its turn; its delays count from now.
    #[must_use]
    pub(in crate::prober::protect::machine) fn take_turn(
        &mut self,
        now: Instant,
    ) -> Option<Effect> {
        if !self.awaits_turn() {
            return None;
        }
        if let Wanted::Verdict {
            purpose,
            valid_until,
            paced,
        } = &mut self.next
        {
            if *valid_until < now {
                self.next = Wanted::Nothing;
                return None;
            }
            *paced = false;
            if purpose.awaits.is_some() {
                self.debts.reset_delays();
                purpose.awaits = self.debts.await_nodes(now);
            }
        }
        self.go_on(now)
    }
}
