//! How long dependents are left alone after a flow.

use std::time::Duration;

use super::{AGAIN, Flows, MARKED_LOOK, SELDOM};
use crate::prober::{flow::Ending, plan::Aim, scale_error::RECORD_UNREADABLE};

impl Flows {
    fn is_record_unreadable(&self) -> bool {
        let mut problems = self.debts.problems();
        problems.any(|problem| problem.reason == RECORD_UNREADABLE)
    }

    /// How long a flow like the one that has ended is put off if nothing is known to be left to do, or
    /// to be feasible.
    pub(super) fn pause(&self, aim: Aim, ending: Ending, interval: Duration) -> Option<Duration> {
        match (aim, ending) {
            // Somebody may scale up what is down.
            (Aim::Protect, Ending::Complete) => Some(interval),
            // Verdicts come every few seconds, and somebody has to mend this first. What comes after
            // it is not down yet, whatever the interval.
            (Aim::Protect, Ending::Refused) => Some(interval.min(AGAIN)),
            // A record that cannot be read stands beside a mark: something is owed, and whoever corrects
            // it waits for that.
            (Aim::Restore, Ending::Refused) if self.is_record_unreadable() => None,
            // It was left alone.
            (Aim::Restore, Ending::Complete) if self.debts.owes_disputed_alone() => Some(SELDOM),
            // Somebody may scale down what a policy with `restore: Any` wants up, or mend what kept
            // a healthy cluster's dependents from being looked at.
            (Aim::Restore, Ending::Complete | Ending::Stuck | Ending::Refused)
                if !self.debts.owes() =>
            {
                Some(match self.debts.keeps_marks() {
                    true => MARKED_LOOK,
                    false => interval.max(SELDOM),
                })
            }
            _ => None,
        }
    }
}
