//! A cluster that is being hibernated: what was taken is given back as long as its API server answers.

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

/// So many reads in a row, over so long a time, must stay unanswered before an API server that is
/// being hibernated is taken to be gone: one that restarts is back by then.
const SILENCES: u32 = 3;
const SILENCE: Duration = Duration::from_secs(30);

const NOT_ASKED: HeldBack = HeldBack::By("its API server cannot be asked whether it still answers");
const NOT_ANSWERED: HeldBack = HeldBack::By("its API server does not answer");

impl ClusterMachine {
    /// As long as the API server of a cluster that is being hibernated answers, what was taken is needed
    /// to take its nodes down.
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
                    purpose: Purpose {
                        // gardenlet decides about it, be the zero its own or not, once the mark is gone.
                        disputed: Aim::Release,
                        ..Purpose::of(Aim::Restore)
                    },
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
