//! The clocks of an API server and of a node, in terms of ours.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    shoot::{LeaseRead, RenewTime},
    util::mono_time::{MonoTime, Window},
};

pub(super) const SECOND: i128 = 1_000_000_000;
/// Judgement: a `Date` further than this from the expected time shows a stepped clock.
const STRAY: i128 = 2 * SECOND;
/// The most that two clocks under NTP drift apart: 500 ppm, the limit of the kernel's clock
/// discipline.
const DRIFT_DIVISOR: i128 = 2_000;

/// A managedFields time, and the state of the server's clock under which it can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) seconds: i64,
    pub(super) epoch: NonZeroU32,
}

/// The API server's clock against ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    /// The server's time minus ours.
    offset: Offset,
    as_of: MonoTime,
    /// Counts the steps of the server's clock: a stamp from before a step cannot be read after it.
    pub(super) epoch: NonZeroU32,
    /// The last `Date` that strayed: an earlier stamp, shown late by a cache, may be from before
    /// that step.
    pub(super) strayed: i64,
}

impl ServerClock {
    /// The clock by a first response.
    pub(super) fn new(date: i64, read: &LeaseRead) -> Self {
        Self {
            offset: Offset::of_date(date, read),
            as_of: read.started,
            epoch: NonZeroU32::MIN,
            strayed: i64::MIN,
        }
    }

    /// Adds a response; returns whether to trust its `Date`.
    pub(super) fn advance(&mut self, date: i64, read: &LeaseRead) -> bool {
        let expected = self.offset.drifted(read.started.since(self.as_of));
        let told = Offset::of_date(date, read);
        self.as_of = read.started;
        if let Some(agreed) = expected.intersect(told) {
            self.offset = agreed;
            return true;
        }
        // The clock stepped, or another server with a clock of its own answered.
        let strayed = told.low > expected.high + STRAY || told.high < expected.low - STRAY;
        self.offset = told;
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
        let low = i128::from(stamp.seconds) * SECOND - self.offset.high;
        let high = (i128::from(stamp.seconds) + 1) * SECOND - self.offset.low;
        let drift = (self.as_of.nanos() - low).abs() / DRIFT_DIVISOR;
        Some(Window {
            earliest: Some(MonoTime::from_nanos(low - drift)),
            latest: MonoTime::from_nanos(high + drift),
        })
    }
}

/// Bounds on the distance between two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offset {
    low: i128,
    high: i128,
}

impl Offset {
    /// The server's clock minus ours: it read `date`, rounded down, some time during the request.
    pub(super) fn of_date(date: i64, read: &LeaseRead) -> Self {
        let date = i128::from(date) * SECOND;
        Self {
            low: date - read.finished.nanos(),
            high: date + SECOND - read.started.nanos(),
        }
    }

    /// Our clock minus the node's, which read `renew_time` when the lease was renewed.
    pub(super) fn of_node(renew_time: RenewTime, window: Window) -> Option<Self> {
        let node = nanos_of(renew_time);
        Some(Self {
            low: window.earliest?.nanos() - node,
            high: window.latest.nanos() - node,
        })
    }

    pub(super) fn intersect(self, other: Self) -> Option<Self> {
        let low = self.low.max(other.low);
        let high = self.high.min(other.high);
        (low <= high).then_some(Self { low, high })
    }

    pub(super) fn widened(self, by: i128) -> Self {
        Self {
            low: self.low - by,
            high: self.high + by,
        }
    }

    pub(super) fn drifted(self, elapsed: Duration) -> Self {
        let elapsed = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::from(i64::MAX));
        self.widened(elapsed / DRIFT_DIVISOR)
    }

    pub(super) fn window_from(self, nanos: i128) -> Window {
        Window {
            earliest: Some(MonoTime::from_nanos(nanos + self.low)),
            latest: MonoTime::from_nanos(nanos + self.high),
        }
    }
}

/// An [`Offset`] in half the memory, as bounds on the moment at which the node's clock is at zero:
/// there is one for each of 100,000 nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeClock {
    low: MonoTime,
    high: MonoTime,
}

impl NodeClock {
    /// `None` if the node's clock is centuries off, and useless.
    pub(super) fn new(offset: Offset) -> Option<Self> {
        let exactly = |nanos| {
            let moment = MonoTime::from_nanos(nanos);
            (moment.nanos() == nanos).then_some(moment)
        };
        Some(Self {
            low: exactly(offset.low)?,
            high: exactly(offset.high)?,
        })
    }

    pub(super) fn offset(self) -> Offset {
        Offset {
            low: self.low.nanos(),
            high: self.high.nanos(),
        }
    }
}

pub(super) fn nanos_of(renew_time: RenewTime) -> i128 {
    i128::from(renew_time.as_micros()) * 1_000
}
