//! When one object is written: news at once, a refresh now and then, after a failure ever more
//! seldom; never twice at the same time.

use std::time::Duration;

use tokio::time::Instant;

/// A record is written again after this long even if it says the same, at the latest ...
pub const REFRESH: Duration = Duration::from_secs(15 * 60);
/// ... and after this share of it at the earliest, so that a thousand are spread out.
const REFRESH_SPREAD: f64 = 0.5;
/// After a write that failed; twice as long after each further one, up to the limit.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// When one object is written next.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// When there is something to say; never, without.
    due: Option<Instant>,
    /// When it is written although it says the same; never, without.
    refresh: Option<Instant>,
    not_before: Instant,
    failures: u32,
    /// A write is under way.
    writing: bool,
    /// There may be something newer than what is being written.
    outdated: bool,
    /// A write failed, and may have been carried out all the same; or one meant for a predecessor of the
    /// same name may have been.
    unsure: bool,
}

impl Schedule {
    /// Something that is written only when there is something to say.
    pub(crate) fn idle() -> Self {
        Self {
            due: None,
            refresh: None,
            not_before: Instant::now(),
            failures: 0,
            writing: false,
            outdated: false,
            unsure: false,
        }
    }

    /// Something that is also refreshed now and then.
    pub(crate) fn refreshed() -> Self {
        let mut schedule = Self::idle();
        schedule.refresh();
        schedule
    }

    /// When it is written next; `None` while it is being written, or if nothing is to be said.
    pub(crate) fn due(&self) -> Option<Instant> {
        let soonest = [self.due, self.refresh].into_iter().flatten().min();
        soonest.filter(|_| !self.writing)
    }

    /// Whether it is to be written even if it says the same: it is not known what is there, or it is
    /// time to show that somebody keeps it.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.unsure || self.refresh.is_some_and(|by| by <= Instant::now())
    }

    /// What is there is not known.
    pub(crate) fn doubt(&mut self) {
        self.unsure = true;
        self.hurry(Instant::now());
    }

    /// What is there is known after all.
    pub(crate) fn trust(&mut self) {
        self.unsure = false;
    }

    /// Has it written by then, unless writes have been failing.
    pub(crate) fn hurry(&mut self, by: Instant) {
        if self.writing {
            self.outdated = true;
        } else if self.failures == 0 {
            let by = by.max(self.not_before);
            self.due = Some(self.due.map_or(by, |due| due.min(by)));
        }
    }

    /// There is nothing to say any more, unless a write failed, which may have said something all the
    /// same.
    pub(crate) fn relax(&mut self) {
        if self.failures == 0 {
            self.due = None;
        }
    }

    /// Whatever is to be said is said now, unless writes have been failing.
    pub(crate) fn close(&mut self) {
        if self.failures == 0 {
            self.due = self.due.map(|due| due.min(Instant::now()));
        }
    }

    /// A write of what is known now begins.
    pub(crate) fn begin(&mut self) {
        self.writing = true;
        self.outdated = false;
        self.unsure = false;
    }

    /// It is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// The last write of it failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// It was written, or there was nothing to say. Nothing is due within the pause; tells whether
    /// there may be something newer.
    pub(crate) fn settle(&mut self, pause: Duration) -> bool {
        self.writing = false;
        self.failures = 0;
        self.due = None;
        self.not_before = Instant::now() + pause;
        std::mem::take(&mut self.outdated)
    }

    /// There is none any more, so there is nothing to refresh.
    pub(crate) fn removed(&mut self) {
        self.settle(Duration::ZERO);
        self.refresh = None;
    }

    /// When it was written last.
    pub(crate) fn written_at(&self) -> Instant {
        self.not_before
    }

    /// As it says the same, it is written again now and then.
    pub(crate) fn refresh(&mut self) {
        let pause = REFRESH.mul_f64(1.0 - REFRESH_SPREAD * fastrand::f64());
        self.refresh = Some(Instant::now() + pause);
    }

    /// It could not be written, and is tried again.
    pub(crate) fn failed(&mut self) {
        self.writing = false;
        self.unsure = true;
        let pause = RETRY * 2_u32.saturating_pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.due = Some(Instant::now() + pause.min(RETRY_LIMIT));
        // What is tried again is as good.
        self.refresh = None;
    }
}
