//! The proof of silence: consistent reads without a gap, while other clients write.
//!
//! An API server, an etcd or an operator that was itself away leaves every lease looking old until
//! the kubelets renew. Acting on that would harm a healthy cluster, so silence counts only
//! once it has been watched for 1.5 renewal periods on a server that provably answers and accepts
//! writes.

use std::time::Duration;

use crate::{prober::verdict::Doubt, util::mono_time::MonoTime};

/// Reads of a suspect cluster are at most a third of a renewal period apart.
pub(crate) const READS_PER_PERIOD: u32 = 3;
/// Judgement: the time for which the silence must have been watched, in renewal periods.
const PERIODS: f64 = 1.5;
/// An idle kube-apiserver still writes its own identity lease every 10 s.
const IDLE_WRITES: Duration = Duration::from_secs(15);

/// The run of consistent reads that a verdict may rest on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    run: Option<Run>,
}

/// Consistent reads without a gap.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The start of the read since which no write has been missing for too long: the first that showed one. Before
    /// it, renewals could not have arrived. The first of all while none has shown one.
    since: MonoTime,
    /// The start of the last one, and the list's resourceVersion, which rises with any write to the API server.
    last: MonoTime,
    revision: u64,
    /// A lower bound of the time of the last write: a read that was started then showed less.
    wrote: MonoTime,
    /// A read has shown a write.
    has_written: bool,
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

    /// A read of the leases that was started then has succeeded, with this list resourceVersion. One that is not
    /// consistent came from a cache of unknown age, and proves nothing.
    pub(crate) fn read(
        &mut self,
        started: MonoTime,
        consistent: bool,
        revision: u64,
        period: Duration,
    ) {
        // Reads are due every third of a period; a whole one without any is a gap, whether the
        // server or this process was away.
        let before = self.run.filter(|run| started.since(run.last) <= period);
        let Some(before) = before.filter(|_| consistent) else {
            self.run = consistent.then_some(Run {
                since: started,
                last: started,
                revision,
                wrote: started,
                has_written: false,
            });
            return;
        };
        let mut run = Run {
            last: started,
            revision: revision.max(before.revision),
            ..before
        };
        if revision > before.revision {
            // The write may be from any time since the read before.
            let pause = Self::write_window(period) + period / READS_PER_PERIOD;
            if !before.has_written || before.last.since(before.wrote) > pause {
                run.since = started;
            }
            (run.wrote, run.has_written) = (before.last, true);
        }
        self.run = Some(run);
    }

    /// A read failed.
    pub(crate) fn failed(&mut self) {
        self.run = None;
    }

    /// Since when the run of reads that is under way counts, if no read fails: not before its first
    /// sign of writes.
    pub(crate) fn counts_since(&self) -> Option<MonoTime> {
        Some(self.run?.since)
    }

    /// Returns whether a run of reads is under way in which no write has been noticed yet.
    pub(crate) fn awaits_write(&self) -> bool {
        self.run.is_some_and(|run| !run.has_written)
    }

    /// When silence will have been watched for long enough, if a run of reads is under way.
    pub(crate) fn complete_at(&self, period: Duration) -> Option<MonoTime> {
        let run = self.run.filter(|run| run.has_written)?;
        Some(run.since + Self::length(period))
    }

    /// Why silence that a read started `at` still showed may not be acted on; `None` if it is proven.
    pub(crate) fn doubt(&self, at: MonoTime, period: Duration) -> Option<Doubt> {
        let is_idle = |run: Run| at.since(run.wrote) > Self::write_window(period);
        match self.complete_at(period) {
            Some(complete) if complete > at => Some(Doubt::Unproven(complete)),
            _ if self.run.is_some_and(is_idle) => Some(Doubt::NoWrites),
            Some(_) => None,
            None => Some(Doubt::Unproven(at + Self::length(period))),
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
        /// So does a cached list.
        Cached(i64, u64),
        Failed,
    }
    use Event::{Cached, Failed, Read};

    fn proof(events: &[Event]) -> Proof {
        let mut proof = Proof::default();
        for event in events {
            match *event {
                Read(second, number) => proof.read(at(second), true, number, PERIOD),
                Cached(second, number) => proof.read(at(second), false, number, PERIOD),
                Failed => proof.failed(),
            }
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
    #[case::gap([Read(0, 1), Read(3, 2), Read(6, 3), Read(17, 4), Read(20, 5)], 20, pending(35))]
    #[case::failure_waits_for_a_write(busy(0, 18).chain([Failed, Read(20, 2_000)]), 20, pending(35))]
    #[case::failure(busy(0, 18).chain([Failed, Read(20, 2_000), Read(23, 2_001)]), 23, pending(38))]
    #[case::failed_last(busy(0, 18).chain([Failed]), 20, pending(35))]
    #[case::cached_list(busy(0, 18).chain([Cached(20, 2_000)]), 20, pending(35))]
    #[case::after_a_cached_list([Cached(0, 1), Read(3, 2), Read(6, 3)], 6, pending(21))]
    #[case::noticed_between_a_cached_and_a_consistent_read([Cached(30, 1), Read(30, 2), Read(31, 2), Read(32, 3)], 32, pending(47))]
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
        let expected = until.map(|second| Doubt::Unproven(at(second)));
        assert_eq!(proof.doubt(at(now), PERIOD), expected);
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
        assert_eq!(proof.doubt(at(now), PERIOD), Some(Doubt::NoWrites));
    }

    #[test]
    fn writes_count_for_as_long_as_an_idle_server_pauses() {
        // The last write came after the read at 3 s.
        let events: Vec<_> = busy(0, 6).chain(idle(9, 18, 1_006)).collect();
        assert_eq!(proof(&events).doubt(at(18), PERIOD), None);
        assert_eq!(Proof::write_window(2 * PERIOD), 3 * PERIOD);
    }
}
