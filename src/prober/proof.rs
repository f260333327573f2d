//! Is the silence proven? Consistent reads without a gap, while somebody writes.
//!
//! An API server, an etcd or an operator that was itself away leaves every lease looking old until
//! the kubelets renew. Whoever acted on that would harm a healthy cluster, so silence counts only
//! once it has been watched for 1.5 renewal periods on a server that provably answers and accepts
//! writes.

use std::time::Duration;

use super::moment::Moment;

/// How long the silence must have been watched, in renewal periods.
const PERIODS: f64 = 1.5;
/// An idle API server still writes its own identity lease every 10 s.
const IDLE_WRITES: Duration = Duration::from_secs(15);

/// The run of consistent reads that a verdict may rest on.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    run: Option<Run>,
    /// Kept over a broken run: what is known of writes.
    revision: Option<Revision>,
    /// A read has failed since the last that succeeded.
    interrupted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    since: Moment,
    last: Moment,
    /// Whether the server is known to have accepted writes by then: before, kubelets could not
    /// have been heard.
    writable: bool,
}

/// The highest list resourceVersion: it rises with any write to the API server.
#[derive(Clone, Copy, Debug)]
struct Revision {
    number: u64,
    /// Start of the first read that showed it.
    first_seen: Moment,
    /// Start of the last read that showed it.
    last_seen: Moment,
    /// Start of the last consistent read that showed it.
    confirmed: Option<Moment>,
    /// Not later than the last write that consistent reads noticed.
    rose: Option<Moment>,
}

/// What a read tells of writes since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// There was none, or nothing to compare with.
    Unseen,
    /// There was one.
    Noticed,
    /// There was one, after a time in which there may have been none.
    Resumed,
}

/// Whether silence may be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Watched long enough, and the server accepts writes.
    Proven,
    /// Not watched long enough; so it is at the given moment if no read fails until then.
    Pending(Moment),
    /// Watched long enough, but nobody has written for too long.
    NoWrites,
}

impl Proof {
    /// How long silence must be watched.
    pub fn length(period: Duration) -> Duration {
        period.mul_f64(PERIODS)
    }

    /// Within this, somebody must have written.
    pub fn write_window(period: Duration) -> Duration {
        Self::length(period).max(IDLE_WRITES)
    }

    /// A read of the leases that was started then has succeeded, with this list resourceVersion.
    pub fn succeeded(&mut self, started: Moment, consistent: bool, number: u64, period: Duration) {
        let writes = self.note_revision(started, consistent, number, period);
        let interrupted = std::mem::take(&mut self.interrupted);
        let anew = Run {
            since: started,
            last: started,
            writable: writes == Writes::Noticed && !interrupted,
        };
        self.run = match self.run {
            _ if !consistent => None,
            // Reads are due every third of a period; a whole one without any is a gap, whoever was
            // away, the server or we.
            Some(run) if started.since(run.last) > period => Some(anew),
            Some(run)
                if writes == Writes::Resumed || (writes == Writes::Noticed && !run.writable) =>
            {
                Some(Run {
                    writable: true,
                    ..anew
                })
            }
            Some(run) => Some(Run {
                last: started,
                ..run
            }),
            None => Some(anew),
        };
    }

    /// A read failed.
    pub fn interrupted(&mut self) {
        self.run = None;
        self.interrupted = true;
    }

    /// Whether a run of reads is under way in which no write has been noticed yet.
    pub fn awaits_write(&self) -> bool {
        self.run.is_some_and(|run| !run.writable)
    }

    /// When silence will have been watched for long enough, if a run of reads is under way.
    pub fn complete_at(&self, period: Duration) -> Option<Moment> {
        let run = self.run.filter(|run| run.writable)?;
        Some(run.since + Self::length(period))
    }

    /// Whether silence that a read started `at` still showed may be acted on.
    pub fn standing(&self, at: Moment, period: Duration) -> Standing {
        let complete = self.complete_at(period);
        let wrote = match self.run {
            Some(run) if !run.writable => Some(run.since),
            _ => self.revision.and_then(|revision| revision.rose),
        };
        let wrote_lately = wrote.is_some_and(|wrote| at.since(wrote) <= Self::write_window(period));
        match complete {
            Some(complete) if complete > at => Standing::Pending(complete),
            Some(_) if wrote_lately => Standing::Proven,
            None if wrote_lately || self.run.is_none() => {
                Standing::Pending(at + Self::length(period))
            }
            _ => Standing::NoWrites,
        }
    }

    fn note_revision(
        &mut self,
        started: Moment,
        consistent: bool,
        number: u64,
        period: Duration,
    ) -> Writes {
        let confirmed = consistent.then_some(started);
        match &mut self.revision {
            Some(revision) if number <= revision.number => {
                revision.last_seen = started;
                revision.confirmed = confirmed.or(revision.confirmed);
                Writes::Unseen
            }
            known => {
                let before = known.replace(Revision {
                    number,
                    first_seen: started,
                    last_seen: started,
                    confirmed,
                    rose: known.and_then(|before| before.confirmed),
                });
                let Some(before) = before else {
                    return Writes::Unseen;
                };
                let quiet = before.last_seen.since(before.first_seen);
                if quiet > Self::write_window(period) {
                    Writes::Resumed
                } else {
                    Writes::Noticed
                }
            }
        }
    }
}
