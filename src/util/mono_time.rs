//! Points on this process's monotonic clock, as plain values.

use std::{
    num::NonZeroU64,
    ops::{Add, Sub},
    time::{Duration, Instant},
};

/// A point on this process's monotonic clock, in nanoseconds from an origin of its choosing.
///
/// [`Instant`] cannot express a point before the machine booted, where a lease may well have been
/// renewed. Arithmetic saturates at ±292 years.
///
/// `Option<MonoTime>` must be no larger than `MonoTime`: there are several for each of 100,000 leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(NonZeroU64);

/// The origin is in the middle, so that the order is that of the numbers.
const MIDDLE: u64 = 1 << 63;

impl MonoTime {
    /// Where the nanoseconds are counted from.
    const ORIGIN: Self = Self::at(0);

    /// The moment `nanos` nanoseconds from the origin, held within ±292 years.
    pub fn from_nanos(nanos: i128) -> Self {
        let bounded = nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Self::at(i64::try_from(bounded).unwrap_or(i64::MAX))
    }

    /// Nanoseconds from the origin.
    pub fn nanos(self) -> i128 {
        i128::from(self.signed())
    }

    const fn at(nanos: i64) -> Self {
        match NonZeroU64::new(nanos.cast_unsigned() ^ MIDDLE) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MIN),
        }
    }

    const fn signed(self) -> i64 {
        (self.0.get() ^ MIDDLE).cast_signed()
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: MonoTime) -> Duration {
        let nanos = self.nanos() - earlier.nanos();
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

impl Default for MonoTime {
    fn default() -> Self {
        Self::ORIGIN
    }
}

impl Add<Duration> for MonoTime {
    type Output = MonoTime;

    fn add(self, duration: Duration) -> MonoTime {
        MonoTime::at(self.signed().saturating_add(signed(duration)))
    }
}

impl Sub<Duration> for MonoTime {
    type Output = MonoTime;

    fn sub(self, duration: Duration) -> MonoTime {
        MonoTime::at(self.signed().saturating_sub(signed(duration)))
    }
}

/// The bounds within which something happened, on our monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before this; unknown if nothing bounds it.
    pub earliest: Option<MonoTime>,
    /// Not after this.
    pub latest: MonoTime,
}

impl Window {
    /// Whether both can be true.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.earliest.max(other.earliest) <= Some(self.latest.min(other.latest))
    }

    /// The common part of both, or this one alone where they contradict each other.
    pub(crate) fn narrowed_by(self, other: Option<Window>) -> Window {
        let Some(other) = other else { return self };
        if !self.meets(other) {
            return self;
        }
        Window {
            earliest: self.earliest.max(other.earliest),
            latest: self.latest.min(other.latest),
        }
    }
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Ties [`MonoTime`]s to the process's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Instant);

impl Origin {
    /// An origin at the given instant.
    pub(crate) fn new(instant: Instant) -> Self {
        Self(instant)
    }

    /// The moment of an instant.
    pub(crate) fn moment(self, instant: Instant) -> MonoTime {
        match instant.checked_duration_since(self.0) {
            Some(after) => MonoTime::ORIGIN + after,
            None => MonoTime::ORIGIN - self.0.duration_since(instant),
        }
    }

    /// The instant of a moment; one before the machine booted is held at the origin.
    pub(crate) fn instant(self, moment: MonoTime) -> Instant {
        self.0
            .checked_add(moment.since(MonoTime::ORIGIN))
            .unwrap_or(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let end = MonoTime::from_nanos(i128::MAX);
        assert_eq!(end + Duration::MAX, end);
        let start = MonoTime::from_nanos(i128::MIN);
        assert_eq!(start - Duration::MAX, start);
        assert_eq!(start.since(end), Duration::ZERO);
    }

    #[test]
    fn an_instant_and_its_moment_are_the_same_point() {
        let now = Instant::now();
        let origin = Origin::new(now);
        let later = now + Duration::from_millis(1500);
        assert_eq!(origin.moment(later).nanos(), 1_500_000_000);
        assert_eq!(origin.instant(origin.moment(later)), later);
        let earlier = MonoTime::from_nanos(-5);
        assert_eq!(origin.instant(earlier), now);
    }
}
