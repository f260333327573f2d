//! The clocks of an API server and of a node: each is known by when, on our clock, it was at zero.

use std::time::Duration;

use crate::{shoot::LeaseRead, util::mono_time::MonoTime};

const SECOND: i128 = 1_000_000_000;
/// Judgement: a `Date` further than this from the expected time shows a stepped clock.
const STRAY: Duration = Duration::from_secs(2);
/// The most that two clocks under NTP drift apart: 500 ppm, the limit of the kernel's clock
/// discipline.
const DRIFT_DIVISOR: u32 = 2_000;

/// The bounds within which something happened, on our monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before this; unknown if nothing bounds it.
    pub earliest: Option<MonoTime>,
    /// Not after this.
    pub latest: MonoTime,
}

/// A time as a clock shows it, in nanoseconds: between these two, since it may be rounded down.
pub(super) type Shown = (i128, i128);

/// The API server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    zero: Window,
    as_of: MonoTime,
    /// The last `Date` that strayed: an earlier stamp, shown late by a cache, may be from before
    /// that step.
    pub(super) strayed: Option<i64>,
}

impl Window {
    /// Returns whether both can be true.
    pub(super) fn meets(self, other: Self) -> bool {
        self.distance(other).is_zero()
    }

    fn distance(self, other: Self) -> Duration {
        let after = |earliest: Option<MonoTime>, latest: MonoTime| {
            earliest.map_or(Duration::ZERO, |earliest| earliest.since(latest))
        };
        after(self.earliest, other.latest).max(after(other.earliest, self.latest))
    }

    /// The common part of both, or this one alone where they contradict each other.
    pub(super) fn narrowed_by(self, other: Option<Self>) -> Self {
        match other.filter(|other| self.meets(*other)) {
            Some(other) => Self {
                earliest: self.earliest.max(other.earliest),
                latest: self.latest.min(other.latest),
            },
            None => self,
        }
    }

    /// The zero of the clock that showed this within this window.
    pub(super) fn zero_by(self, (first, last): Shown) -> Self {
        self.shifted(-last, -first)
    }

    /// When the clock shows this that was at zero within this window.
    pub(super) fn shows(self, (first, last): Shown) -> Self {
        self.shifted(first, last)
    }

    fn shifted(self, first: i128, last: i128) -> Self {
        let later = |at: MonoTime, by| MonoTime::from_nanos(at.nanos() + by);
        Self {
            earliest: self.earliest.map(|at| later(at, first)),
            latest: later(self.latest, last),
        }
    }

    pub(super) fn widened(self, by: Duration) -> Self {
        Self {
            earliest: self.earliest.map(|at| at - by),
            latest: self.latest + by,
        }
    }

    /// The zero of a clock, so long after it was learnt.
    pub(super) fn drifted(self, elapsed: Duration) -> Self {
        self.widened(elapsed / DRIFT_DIVISOR)
    }
}

impl ServerClock {
    /// The clock by a response with this `Date`, by what was known before; and by how much it has stepped, unless
    /// another server with a clock of its own answered.
    pub(super) fn after(before: Option<Self>, date: i64, read: &LeaseRead) -> (Self, Duration) {
        let asked = Window {
            earliest: Some(read.started),
            latest: read.finished,
        };
        let told = asked.zero_by(second(date));
        let expected = before.map(|it| it.zero.drifted(read.started.since(it.as_of)));
        let step = expected.map_or(Duration::ZERO, |expected| told.distance(expected));
        let strayed = before.and_then(|it| it.strayed);
        let clock = Self {
            zero: told.narrowed_by(expected),
            as_of: read.started,
            strayed: if strays(step) { Some(date) } else { strayed },
        };
        (clock, step)
    }

    /// When the server wrote this stamp.
    pub(super) fn window_of(&self, stamp: i64) -> Window {
        let age = |at| self.as_of.since(at).max(at.since(self.as_of));
        let written = self.zero.shows(second(stamp)).earliest;
        let zero = self.zero.drifted(written.map_or(Duration::ZERO, age));
        zero.shows(second(stamp))
    }
}

/// Returns whether a clock has stepped, and not only another one with another rounding answered.
pub(super) fn strays(step: Duration) -> bool {
    step > STRAY
}

/// A moment as a clock shows it that is rounded down to seconds.
fn second(seconds: i64) -> Shown {
    let start = i128::from(seconds) * SECOND;
    (start, start + SECOND)
}
