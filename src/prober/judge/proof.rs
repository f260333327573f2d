//! The proof of silence: consistent reads without a gap, while other clients write.
//!
//! An API server, an etcd or an operator that was itself away leaves every lease looking old until
//! the kubelets renew. Acting on that would harm a healthy cluster, so silence counts only
//! once it has been watched for 1.5 renewal periods on a server that provably answers and accepts
//! writes.

use std::time::Duration;

use crate::util::mono_time::MonoTime;

/// Reads of a suspect cluster are at most a third of a renewal period apart.
pub(crate) const READS_PER_PERIOD: u32 = 3;
/// Judgement: the time for which the silence must have been watched, in renewal periods.
const PERIODS: f64 = 1.5;
/// An idle kube-apiserver still writes its own identity lease every 10 s.
const IDLE_WRITES: Duration = Duration::from_secs(15);

/// A consistent read this soon after a cached one counts the write that the cached one noticed.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The run of consistent reads that a verdict may rest on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    run: Option<Run>,
    /// What is known of writes; kept when a run breaks.
    revision: Option<Revision>,
    /// A read has failed since the last that succeeded.
    interrupted: bool,
    /// The start of the last read, if it came from a cache and noticed a write.
    noticed: Option<MonoTime>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The start of the first read.
    began: MonoTime,
    /// The start of the first read that counts: not before the first sign of writes.
    since: MonoTime,
    last: MonoTime,
    /// The server is known to have accepted writes by then: before, renewals could not have
    /// arrived.
    writable: bool,
}

/// The highest list resourceVersion: it rises with any write to the API server.
#[derive(Clone, Copy, Debug)]
struct Revision {
    number: u64,
    /// A lower bound of the time of the write: a list from then showed less. The first revision
    /// counts as written when it was seen, since no run began before.
    after: Option<MonoTime>,
    /// A time at which it was still the highest.
    as_of: Option<MonoTime>,
    /// Start of the last read that showed it.
    last_seen: MonoTime,
}

/// The writes that a read shows since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// No write, or nothing to compare with.
    Unseen,
    /// A write.
    Noticed,
    /// A write after a time in which there may have been none.
    Resumed,
}

/// Whether silence may be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Watched long enough, and the server accepts writes.
    Proven,
    /// Watched long enough at the given moment, if no read fails until then.
    Pending(MonoTime),
    /// Watched long enough, but no client has written for too long.
    NoWrites,
}

impl Proof {
    /// The time for which silence must be watched.
    pub(crate) fn length(period: Duration) -> Duration {
        period.mul_f64(PERIODS)
    }

    /// The time within which a client must have written.
    pub(crate) fn write_window(period: Duration) -> Duration {
        Self::length(period).max(IDLE_WRITES)
    }

    /// A read of the leases that was started then has succeeded, with this list resourceVersion. A list that
    /// is not consistent came from a cache of unknown age: it is no older than the last renewal that it shows,
    /// if a lower bound of that is known.
    pub(crate) fn succeeded(
        &mut self,
        started: MonoTime,
        consistent: bool,
        renewed: Option<MonoTime>,
        number: u64,
        period: Duration,
    ) {
        let as_of = match consistent {
            true => Some(started),
            false => renewed.map(|renewed| renewed.min(started)),
        };
        let writes = self.note_revision(started, as_of, number, period);
        let interrupted = std::mem::take(&mut self.interrupted);
        let noticed = writes == Writes::Noticed && !interrupted;
        let before = std::mem::replace(
            &mut self.noticed,
            (noticed && !consistent).then_some(started),
        );
        let just_before = before.is_some_and(|at| started.since(at) <= AT_ONCE) && !interrupted;
        let anew = Run {
            began: started,
            since: started,
            last: started,
            writable: noticed || just_before,
        };
        self.run = match self.run {
            _ if !consistent => None,
            // Reads are due every third of a period; a whole one without any is a gap, whether the
            // server or this process was away.
            Some(run) if started.since(run.last) > period => Some(anew),
            Some(run)
                if writes == Writes::Resumed || (writes == Writes::Noticed && !run.writable) =>
            {
                Some(Run {
                    began: run.began,
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
    pub(crate) fn interrupted(&mut self) {
        self.run = None;
        self.interrupted = true;
    }

    /// When the run of reads that is under way began, whether or not it counts since then.
    pub(crate) fn watched_since(&self) -> Option<MonoTime> {
        self.run.map(|run| run.began)
    }

    /// Since when the run of reads that is under way counts, if no read fails: not before its first
    /// sign of writes.
    pub(crate) fn counts_since(&self) -> Option<MonoTime> {
        self.run.map(|run| run.since)
    }

    /// Whether a run of reads is under way in which no write has been noticed yet.
    pub(crate) fn awaits_write(&self) -> bool {
        self.run.is_some_and(|run| !run.writable)
    }

    /// When silence will have been watched for long enough, if a run of reads is under way.
    pub(crate) fn complete_at(&self, period: Duration) -> Option<MonoTime> {
        let run = self.run.filter(|run| run.writable)?;
        Some(run.since + Self::length(period))
    }

    /// Whether silence that a read started `at` still showed may be acted on.
    pub(crate) fn standing(&self, at: MonoTime, period: Duration) -> Standing {
        let complete = self.complete_at(period);
        let wrote = match self.run {
            Some(run) if !run.writable => Some(run.since),
            _ => self.revision.and_then(|revision| revision.after),
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
        started: MonoTime,
        as_of: Option<MonoTime>,
        number: u64,
        period: Duration,
    ) -> Writes {
        let before = self.revision;
        if let Some(known) = &mut self.revision
            && number <= known.number
        {
            known.last_seen = started;
            known.as_of = known.as_of.max(as_of);
            return Writes::Unseen;
        }
        self.revision = Some(Revision {
            number,
            after: before.map_or(Some(started), |before| before.as_of),
            as_of,
            last_seen: started,
        });
        let Some(before) = before else {
            return Writes::Unseen;
        };
        // Reads may have been an interval apart: the write may be from any time of it.
        let pause = Self::write_window(period) + period / READS_PER_PERIOD;
        let short = |since: Option<MonoTime>, until: MonoTime| {
            since.is_some_and(|since| until.since(since) <= pause)
        };
        if short(before.after, before.last_seen) && short(before.as_of, started) {
            Writes::Noticed
        } else {
            Writes::Resumed
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The proof takes 15 s, and somebody must have written within 15 s.
    const PERIOD: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> MonoTime {
        MonoTime::from_nanos(i128::from(seconds) * 1_000_000_000)
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// A consistent read at that second shows that revision.
        Read(i64, u64),
        /// So does a cached list, with a renewal of that very second.
        Cached(i64, u64),
        /// And one that was last renewed at the second named last, if at any that is known.
        Behind(i64, u64, Option<i64>),
        Failed,
    }
    use Event::{Behind, Cached, Failed, Read};

    fn proof(events: &[Event]) -> Proof {
        let mut proof = Proof::default();
        for event in events {
            let (second, consistent, renewed, number) = match *event {
                Read(second, number) => (second, true, None, number),
                Cached(second, number) => (second, false, Some(second), number),
                Behind(second, number, renewed) => (second, false, renewed, number),
                Failed => {
                    proof.interrupted();
                    continue;
                }
            };
            proof.succeeded(at(second), consistent, renewed.map(at), number, PERIOD);
        }
        proof
    }

    /// Reads every 3 s, the last of them not after `to`, that all show the same.
    fn idle(from: i64, to: i64, number: u64) -> impl Iterator<Item = Event> {
        (from..=to)
            .step_by(3)
            .map(move |second| Read(second, number))
    }

    fn busy(from: i64, to: i64) -> impl Iterator<Item = Event> {
        (from..=to)
            .step_by(3)
            .map(|second| Read(second, 1_000 + second as u64))
    }

    const fn pending(second: i64) -> Option<i64> {
        Some(second)
    }

    #[rstest]
    #[case::begins_with_the_first_write(busy(0, 15), 15, pending(18))]
    #[case::complete(busy(0, 18), 18, None)]
    #[case::a_period_is_no_gap([Read(0, 1), Read(3, 2), Read(13, 3), Read(23, 4)], 23, None)]
    #[case::gap([Read(0, 1), Read(3, 2), Read(6, 3), Read(17, 4), Read(20, 5)], 20, pending(32))]
    #[case::failure_waits_for_a_write(busy(0, 18).chain([Failed, Read(20, 2_000)]), 20, pending(35))]
    #[case::failure(busy(0, 18).chain([Failed, Read(20, 2_000), Read(23, 2_001)]), 23, pending(38))]
    #[case::failed_last(busy(0, 18).chain([Failed]), 20, pending(35))]
    #[case::cached_list(busy(0, 18).chain([Cached(20, 2_000)]), 20, pending(35))]
    #[case::after_a_cached_list([Cached(0, 1), Read(3, 2), Read(6, 3)], 6, pending(18))]
    #[case::noticed_by_a_cached_list_just_before([Cached(0, 1), Cached(9, 2), Read(10, 2), Read(13, 3)], 13, pending(25))]
    #[case::noticed_by_a_cached_list_long_before([Cached(0, 1), Cached(9, 2), Read(11, 2), Read(14, 3)], 14, pending(29))]
    #[case::noticed_by_the_one_before_that([Cached(0, 1), Cached(8, 2), Cached(9, 2), Read(10, 2), Read(13, 3)], 13, pending(28))]
    #[case::noticed_before_a_failure([Cached(0, 1), Cached(9, 2), Failed, Read(10, 2), Read(13, 3)], 13, pending(28))]
    #[case::noticed_after_a_failure([Cached(0, 1), Failed, Cached(9, 2), Read(10, 2), Read(13, 3)], 13, pending(28))]
    #[case::resumed_by_a_cached_list([Cached(0, 1), Cached(20, 1), Cached(29, 2), Read(30, 2), Read(33, 3)], 33, pending(48))]
    #[case::written_long_before_a_cached_list([Cached(-1, 1), Cached(10, 2), Read(10, 2)].into_iter().chain(idle(13, 22, 2)).chain([Read(26, 3)]), 26, pending(41))]
    #[case::written_long_before_the_first_read([Cached(-1, 1)].into_iter().chain(idle(10, 22, 2)).chain([Read(26, 3)]), 26, pending(41))]
    #[case::behind_by_little([Behind(8, 1, Some(-4)), Cached(10, 2), Read(10, 2), Read(13, 2), Read(16, 3)], 16, pending(25))]
    #[case::behind_by_much([Behind(8, 1, Some(-6)), Cached(10, 2), Read(10, 2), Read(13, 2), Read(16, 3)], 16, pending(31))]
    #[case::behind_by_too_much([Behind(8, 1, Some(-9)), Cached(10, 2), Read(10, 2), Read(11, 2), Read(12, 3)], 12, pending(27))]
    #[case::behind_by_no_one_knows_how_much([Behind(8, 1, None), Cached(10, 2), Read(10, 2), Read(11, 3)], 11, pending(26))]
    #[case::noticed_after_a_long_interval([Cached(0, 1), Cached(30, 2), Read(30, 2), Read(31, 3)], 31, pending(46))]
    #[case::first_sign_may_still_come(idle(0, 15, 1), 15, pending(30))]
    #[case::an_older_revision_is_no_write([Read(0, 5), Read(3, 4), Read(6, 5)], 6, pending(21))]
    #[case::a_short_pause_of_writes(busy(0, 3).chain(idle(6, 18, 1_003)).chain([Read(21, 1_004)]), 21, None)]
    #[case::writes_resumed(busy(0, 3).chain(idle(6, 21, 1_003)).chain([Read(24, 1_004)]), 24, pending(39))]
    fn watching(
        #[case] events: impl IntoIterator<Item = Event>,
        #[case] now: i64,
        #[case] until: Option<i64>,
    ) {
        let proof = proof(&events.into_iter().collect::<Vec<_>>());
        let expected = until.map_or(Standing::Proven, |second| Standing::Pending(at(second)));
        assert_eq!(proof.standing(at(now), PERIOD), expected);
    }

    #[rstest]
    #[case::never(idle(0, 18, 1), 18)]
    #[case::never_since_a_failure([Failed].into_iter().chain(idle(0, 18, 1)), 18)]
    #[case::not_lately(busy(0, 6).chain(idle(9, 21, 1_006)), 21)]
    fn silence_says_nothing_where_nobody_writes(
        #[case] events: impl IntoIterator<Item = Event>,
        #[case] now: i64,
    ) {
        let proof = proof(&events.into_iter().collect::<Vec<_>>());
        assert_eq!(proof.standing(at(now), PERIOD), Standing::NoWrites);
    }

    #[test]
    fn writes_count_for_as_long_as_an_idle_server_pauses() {
        // The last write came after the read at 3 s.
        let events: Vec<_> = busy(0, 6).chain(idle(9, 18, 1_006)).collect();
        assert_eq!(proof(&events).standing(at(18), PERIOD), Standing::Proven);
        assert_eq!(Proof::write_window(PERIOD), Duration::from_secs(15));
        let slow = Duration::from_secs(20);
        assert_eq!(Proof::write_window(slow), Duration::from_secs(30));
    }

    #[test]
    fn what_is_watched_is_watched_since_the_first_read() {
        assert_eq!(proof(&[Failed]).watched_since(), None);
        let written = proof(&[Read(0, 1), Read(3, 1), Read(6, 2)]);
        assert_eq!(written.watched_since(), Some(at(0)));
        assert_eq!(written.counts_since(), Some(at(6)));
        let gap = proof(&[Read(0, 1), Read(3, 2), Read(14, 3), Read(17, 4)]);
        assert_eq!(gap.watched_since(), Some(at(14)));
        let failed = proof(&[Read(0, 1), Read(3, 2), Failed, Read(4, 3), Read(5, 4)]);
        assert_eq!(failed.watched_since(), Some(at(4)));
    }

    #[test]
    fn a_run_waits_for_a_sign_of_writes() {
        assert!(!Proof::default().awaits_write());
        let silent = proof(&[Read(0, 1), Read(3, 1)]);
        assert!(silent.awaits_write());
        assert_eq!(silent.complete_at(PERIOD), None);
        let seldom = proof(&[Cached(0, 1), Cached(30, 2), Read(30, 2)]);
        assert!(seldom.awaits_write(), "it is read again soon");
        let written = proof(&[Read(0, 1), Read(3, 1), Read(6, 2)]);
        assert!(!written.awaits_write());
        assert_eq!(written.complete_at(PERIOD), Some(at(21)));
        let interrupted = proof(&[Read(0, 1), Read(3, 2), Failed, Read(4, 3)]);
        assert!(interrupted.awaits_write());
    }
}
