//! When is a cluster read next, how, and within which time?

use std::time::Duration;

use super::{
    moment::Moment,
    proof::{Proof, READS_PER_PERIOD},
    verdict::Assessment,
};
use crate::shoot::{MAX_RETRY_AFTER, MIN_RETRY_AFTER};

/// After a failed read of a suspect cluster the proof starts anew this much later; twice as late
/// after each further failure, up to the interval, so that a dead server is not hammered.
const RETRY: Duration = Duration::from_secs(1);
/// Enough doublings to reach any interval.
const MOST_DOUBLINGS: u32 = 12;
/// Verdicts that are counted towards the failure threshold are this far apart, and so are reads
/// that wait for a sign of writes before the proof can begin.
const COUNTING: Duration = Duration::from_secs(1);
/// What a server that asks for less load without saying for how long gets.
const THROTTLED: Duration = Duration::from_secs(10);

/// A policy's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// From the start of a run to the start of the next, at the least.
    pub interval: Duration,
    /// The share of the interval by which it is lengthened at random, 0 to 1.
    pub jitter_factor: f64,
    /// The time that one read may take.
    pub timeout: Duration,
}

/// How the last read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; `counting` if more verdicts like it are needed before anything is done.
    Read {
        /// Whether no cache stood between.
        consistent: bool,
        /// Towards the failure threshold.
        counting: bool,
    },
    /// It failed.
    Failed {
        /// How many reads in a row have failed, this one included.
        in_a_row: u32,
    },
    /// The server asked for less load, perhaps for how long.
    Throttled(Option<Duration>),
}

/// Why a cluster is read at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The policy's interval.
    Interval,
    /// The fraction can have been silent for long enough to be looked at.
    Suspicion,
    /// The silence is being watched.
    Watch,
    /// The silence can be certain, and proven.
    Deadline,
    /// One more verdict of those that the failure threshold asks for, or a first sign of writes.
    Count,
    /// A read failed.
    Retry,
}

/// The next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// When it starts.
    pub at: Moment,
    /// Why then.
    pub occasion: Occasion,
}

/// The state of one cluster's reads.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// When the last read started.
    pub started: Moment,
    /// When it ended.
    pub finished: Moment,
    /// How it ended.
    pub outcome: Outcome,
    /// What the last successful read showed, if there was one.
    pub assessment: Option<&'a Assessment>,
    /// The proof so far.
    pub proof: &'a Proof,
}

impl Pace {
    /// Plans the read after the one described; `draw`, uniform in [0, 1), places the jitter.
    pub fn next(&self, progress: &Progress<'_>, draw: f64) -> Next {
        let stretch = 1.0 + self.jitter_factor * draw;
        let regular = Next {
            at: (progress.started + self.interval.mul_f64(stretch)).max(progress.finished),
            occasion: Occasion::Interval,
        };
        let retry = |after: Duration| Next {
            at: progress.finished + after,
            occasion: Occasion::Retry,
        };
        let suspect_at = progress.assessment.and_then(|seen| seen.suspect_at);
        match progress.outcome {
            Outcome::Throttled(wait) => {
                let wait = wait.unwrap_or(THROTTLED);
                retry(wait.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
            }
            Outcome::Failed { in_a_row } => match suspect_at {
                Some(moment) if moment <= progress.finished => {
                    let doublings = in_a_row.saturating_sub(1).min(MOST_DOUBLINGS);
                    regular.or_sooner(retry(RETRY * 2_u32.pow(doublings)), progress.finished)
                }
                Some(moment) => regular.or_sooner(suspicion(moment), progress.finished),
                None => regular,
            },
            Outcome::Read {
                consistent,
                counting,
            } => {
                let next = match progress.assessment {
                    // The proof starts with the first consistent read.
                    Some(seen) if seen.suspect() && !consistent => Next {
                        at: progress.finished,
                        occasion: Occasion::Watch,
                    },
                    Some(seen) if seen.suspect() => self.watch(regular, progress, seen, counting),
                    _ => regular,
                };
                match suspect_at {
                    Some(moment) if moment > progress.started => {
                        next.or_sooner(suspicion(moment), progress.finished)
                    }
                    _ => next,
                }
            }
        }
    }

    /// The reads of a suspect cluster.
    fn watch(
        &self,
        regular: Next,
        progress: &Progress<'_>,
        seen: &Assessment,
        counting: bool,
    ) -> Next {
        let mut next = regular.or_sooner(
            Next {
                at: progress.started + self.spacing(seen),
                occasion: Occasion::Watch,
            },
            progress.finished,
        );
        if let (Some(expires), Some(complete)) =
            (seen.expires_at, progress.proof.complete_at(seen.period))
        {
            let deadline = expires.max(complete);
            if deadline > progress.started {
                let deadline = Next {
                    at: deadline,
                    occasion: Occasion::Deadline,
                };
                next = next.or_sooner(deadline, progress.finished);
            }
        }
        if counting || progress.proof.awaits_write() {
            let once_more = Next {
                at: progress.started + COUNTING,
                occasion: Occasion::Count,
            };
            next = next.or_sooner(once_more, progress.finished);
        }
        next
    }

    /// How far apart the reads of a suspect cluster are at the most.
    pub fn spacing(&self, seen: &Assessment) -> Duration {
        seen.period / READS_PER_PERIOD
    }

    /// The time that a read over a kept connection may take before another is tried. What kept it may
    /// have died without a word, in the very event in which the nodes fall silent: that is known in time
    /// if it takes no longer than a read of a suspect.
    pub fn kept(&self, assessment: Option<&Assessment>) -> Duration {
        match assessment.map(|seen| self.spacing(seen)) {
            Some(spacing) if !spacing.is_zero() => self.timeout.min(spacing),
            _ => self.timeout,
        }
    }

    /// The time that one read of this cluster may take.
    pub fn limit(&self, assessment: Option<&Assessment>) -> Duration {
        match assessment {
            Some(seen) if seen.suspect() => self.timeout.min(self.spacing(seen)),
            _ => self.timeout,
        }
    }
}

impl Next {
    fn or_sooner(self, other: Next, not_before: Moment) -> Next {
        let other = Next {
            at: other.at.max(not_before),
            ..other
        };
        if other.at < self.at { other } else { self }
    }
}

fn suspicion(at: Moment) -> Next {
    Next {
        at,
        occasion: Occasion::Suspicion,
    }
}

#[cfg(test)]
mod tests;
