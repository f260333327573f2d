//! How long dependents are left alone after a flow.

use std::time::Duration;

use super::{AGAIN, Flows, MARKED_LOOK, SELDOM};
use crate::prober::{flow::Ending, plan::Aim, scale_error::RECORD_UNREADABLE};

impl Flows {
    fn is_record_unreadable(&self) -> bool {
        let mut problems = self.debts.problems();
        problems.any(|problem| problem.reason == RECORD_UNREADABLE)
    }

    /// How long to put off a flow like the ended one if nothing is known to be left or possible to do.
    pub(super) fn pause(&self, aim: Aim, ending: Ending, interval: Duration) -> Option<Duration> {
        match (aim, ending) {
            // Others may scale up what is down.
            (Aim::Protect, Ending::Complete) => Some(interval),
            // Verdicts come every few seconds, but a person has to fix this. Later levels are not down yet,
            // so the interval may be too long.
            (Aim::Protect, Ending::Refused) => Some(interval.min(AGAIN)),
            // An unreadable record comes with a mark: replicas are owed, and must return soon after the
            // record is corrected.
            (Aim::Restore, Ending::Refused) if self.is_record_unreadable() => None,
            // Others may fix what kept a healthy cluster's dependents from being read.
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
