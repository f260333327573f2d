//! The time of a cluster's next read, and its limits.

use std::time::Duration;

use crate::{
    prober::{
        proof::Proof,
        verdict::{Assessment, LeaseRules},
    },
    util::mono_time::MonoTime,
};

/// After a failed read of a suspect cluster the proof starts anew this much later; twice as late
/// after each further failure, up to the interval, so that a dead server is not hammered.
const RETRY: Duration = Duration::from_secs(1);
/// Enough doublings to reach any interval that a policy may have.
const MOST_DOUBLINGS: u32 = 12;
/// Verdicts that are counted towards the failure threshold are this far apart, and so are reads
/// that wait for a sign of writes before the proof can begin.
const COUNTING: Duration = Duration::from_secs(1);

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// Success.
    Read,
    /// Success, and more verdicts like its are needed before anything is done.
    Counted,
    /// Success, and Nodes and Machines for which its verdict waited have been read since.
    Outdated,
    /// Failure, as the last of so many in a row.
    Failed { in_a_row: u32 },
    /// The server asked for less load, for so long.
    Throttled(Duration),
}

/// The last read of the leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRead {
    pub(crate) started: MonoTime,
    pub(crate) finished: MonoTime,
    pub(crate) outcome: ReadOutcome,
}

impl LeaseRules {
    /// When the read after `last` starts; `seen` is what the last successful read showed, and `draw`,
    /// uniform in [0, 1), places the jitter.
    pub(crate) fn next(
        &self,
        last: &LastRead,
        seen: Option<&Assessment>,
        proof: &Proof,
        draw: f64,
    ) -> MonoTime {
        let (started, finished) = (last.started, last.finished);
        let stretch = 1.0 + self.jitter_factor * draw;
        let regular = started + self.interval.mul_f64(stretch);
        let suspect_at = seen.and_then(|seen| seen.suspect_at);
        let next = match last.outcome {
            ReadOutcome::Throttled(wait) => return finished + wait,
            ReadOutcome::Outdated => finished,
            ReadOutcome::Failed { in_a_row } => match suspect_at {
                Some(moment) if moment <= started => regular.min(finished + retry_after(in_a_row)),
                _ => regular,
            },
            ReadOutcome::Read | ReadOutcome::Counted => {
                let counting = last.outcome == ReadOutcome::Counted;
                match seen.filter(|seen| seen.suspect()) {
                    // The proof starts with the first consistent read.
                    Some(_) if proof.counts_since().is_none() => finished,
                    Some(seen) => regular.min(watched(started, seen, proof, counting)),
                    None => regular,
                }
            }
        };
        // However many reads have failed.
        let moment = suspect_at.filter(|moment| *moment > started);
        moment.map_or(next, |moment| next.min(moment)).max(finished)
    }
}

/// The pause after so many failures in a row.
pub(crate) fn retry_after(in_a_row: u32) -> Duration {
    RETRY * 2_u32.pow(in_a_row.saturating_sub(1).min(MOST_DOUBLINGS))
}

/// When a suspect is read after a read that started then: a third of a period later, or when its silence can be
/// certain and proven; soon while verdicts are counted, or no write has been seen.
fn watched(started: MonoTime, seen: &Assessment, proof: &Proof, counting: bool) -> MonoTime {
    let deadline = seen.expires_at.zip(proof.complete_at(seen.period));
    let deadline = deadline.map(|(expires, complete)| expires.max(complete));
    let soon = counting || proof.awaits_write();
    [
        deadline.filter(|deadline| *deadline > started),
        soon.then_some(started + COUNTING),
    ]
    .into_iter()
    .flatten()
    .fold(started + seen.spacing(), MonoTime::min)
}

#[cfg(test)]
mod tests;
