//! The clocks of an API server and of a node, in terms of ours.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    shoot::LeaseRead,
    util::mono_time::{MonoTime, Window},
};

const SECOND: i128 = 1_000_000_000;
/// Judgement: a `Date` further than this from the expected time shows a stepped clock.
const STRAY: Duration = Duration::from_secs(2);
/// The most that two clocks under NTP drift apart: 500 ppm, the limit of the kernel's clock
/// discipline.
const DRIFT_DIVISOR: u32 = 2_000;

/// A managedFields time, and the state of the server's clock under which it can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) seconds: i64,
    pub(super) epoch: NonZeroU32,
}

/// The API server's clock against ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    clock: OtherClock,
    as_of: MonoTime,
    /// Counts the steps of the server's clock: a stamp from before a step cannot be read after it.
    pub(super) epoch: NonZeroU32,
    /// The last `Date` that strayed: an earlier stamp, shown late by a cache, may be from before
    /// that step.
    pub(super) strayed: i64,
}

impl ServerClock {
    /// The clock by a first response; `None` if its `Date` says nothing.
    pub(super) fn new(date: i64, read: &LeaseRead) -> Option<Self> {
        Some(Self {
            clock: clock_of(date, read)?,
            as_of: read.started,
            epoch: NonZeroU32::MIN,
            strayed: i64::MIN,
        })
    }

    /// Adds a response; returns whether to trust its `Date`.
    pub(super) fn advance(&mut self, date: i64, read: &LeaseRead) -> bool {
        let Some(told) = clock_of(date, read) else {
            return false;
        };
        let expected = self.clock.drifted(read.started.since(self.as_of));
        self.as_of = read.started;
        if let Some(agreed) = expected.intersect(told) {
            self.clock = agreed;
            return true;
        }
        // The clock stepped, or another server with a clock of its own answered.
        let strayed = told.low > expected.high + STRAY || told.high < expected.low - STRAY;
        self.clock = told;
        self.epoch = self.epoch.checked_add(1).unwrap_or(NonZeroU32::MIN);
        if strayed {
            self.strayed = date;
        }
        !strayed
    }

    /// When, on our clock, the server wrote this stamp; `None` if its clock has stepped since.
    pub(super) fn window_of(&self, stamp: Stamp) -> Option<Window> {
        if stamp.epoch != self.epoch {
            return None;
        }
        let written = second(stamp.seconds);
        let earliest = self.clock.window_of(written).earliest?;
        let age = self.as_of.since(earliest).max(earliest.since(self.as_of));
        Some(self.clock.drifted(age).window_of(written))
    }
}

/// The clock of the server that answered so, with this `Date`.
fn clock_of(date: i64, read: &LeaseRead) -> Option<OtherClock> {
    let asked = Window {
        earliest: Some(read.started),
        latest: read.finished,
    };
    OtherClock::new(second(date), asked)
}

/// Bounds on the moment at which another clock is at zero. There is one for each of 100,000 nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherClock {
    low: MonoTime,
    high: MonoTime,
}

impl OtherClock {
    /// The clock that showed something between these two, in nanoseconds, within this window; `None` if it is
    /// centuries off, and useless.
    pub(super) fn new((first, last): (i128, i128), window: Window) -> Option<Self> {
        let exactly = |nanos| {
            let moment = MonoTime::from_nanos(nanos);
            (moment.nanos() == nanos).then_some(moment)
        };
        Some(Self {
            low: exactly(window.earliest?.nanos() - last)?,
            high: exactly(window.latest.nanos() - first)?,
        })
    }

    pub(super) fn intersect(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { low, high })
    }

    pub(super) fn widened(self, by: Duration) -> Self {
        Self {
            low: self.low - by,
            high: self.high + by,
        }
    }

    pub(super) fn drifted(self, elapsed: Duration) -> Self {
        self.widened(elapsed / DRIFT_DIVISOR)
    }

    /// When it shows something between these two, in nanoseconds.
    pub(super) fn window_of(self, (first, last): (i128, i128)) -> Window {
        Window {
            earliest: Some(MonoTime::from_nanos(self.low.nanos() + first)),
            latest: MonoTime::from_nanos(self.high.nanos() + last),
        }
    }
}

/// A moment as a clock shows it that is rounded down to seconds, in nanoseconds.
fn second(seconds: i64) -> (i128, i128) {
    let start = i128::from(seconds) * SECOND;
    (start, start + SECOND)
}
