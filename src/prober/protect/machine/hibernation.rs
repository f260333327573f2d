//! A cluster that is being hibernated: it is restored as long as its API server answers.

use std::time::Duration;

use tokio::time::Instant;

use super::{ClusterMachine, Leases, evidence::restore_within, flows::Wanted};
use crate::{
    cluster::Settings,
    prober::{
        finding::HeldBack,
        plan::{Aim, Purpose},
    },
};

/// An API server being hibernated counts as gone after this many unanswered reads in a row, over this time:
/// one that restarts is back by then.
const SILENCES: u32 = 3;
const SILENCE: Duration = Duration::from_secs(30);

const NOT_ASKED: HeldBack = HeldBack::By("its API server cannot be asked whether it still answers");
const NOT_ANSWERED: HeldBack = HeldBack::By("its API server does not answer");

impl ClusterMachine {
    /// While the API server of a cluster being hibernated answers, the dependents are needed to remove its
    /// nodes.
    pub(super) fn read_of_a_hibernating(
        &mut self,
        leases: Leases<'_>,
        settings: &Settings,
        now: Instant,
    ) {
        let answered = match leases {
            Leases::Judged(_) => Some(true),
            Leases::Unread { answered, .. } => answered,
        };
        if answered != Some(false) {
            self.evidence.unanswered = None;
        }
        let (wanted, held_back) = match answered {
            Some(true) => (
                Wanted::Verdict {
                    purpose: Purpose::of(Aim::Restore),
                    valid_until: now + restore_within(settings),
                    paced: false,
                },
                None,
            ),
            None => (Wanted::Nothing, Some(NOT_ASKED)),
            Some(false) => {
                let (before, since) = self.evidence.unanswered.unwrap_or((0, now));
                let unanswered = SILENCES.min(before + 1);
                self.evidence.unanswered = Some((unanswered, since));
                if unanswered < SILENCES || now.duration_since(since) < SILENCE {
                    (Wanted::Nothing, Some(NOT_ANSWERED))
                } else {
                    (Wanted::Complete(Aim::Release, now), None)
                }
            }
        };
        self.told.held_back = held_back;
        self.want(wanted, now);
    }
}
