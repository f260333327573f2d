//! Points on this process's monotonic clock, as plain values.

use std::{
    ops::{Add, Sub},
    sync::LazyLock,
    time::Duration,
};

use tokio::time::Instant;

/// The instant at which the clock of this process is at zero.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A point on this process's monotonic clock, in nanoseconds from one origin for all.
///
/// [`Instant`] cannot express a point before the machine booted, where a lease may well have been
/// renewed. Arithmetic saturates at ±292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(i64);

impl MonoTime {
    /// Reads the clock.
    pub fn now() -> Self {
        Instant::now().into()
    }

    /// The instant of this moment; of one that no instant can express, the origin.
    pub(crate) fn instant(self) -> Instant {
        let (origin, distance) = (*ORIGIN, Duration::from_nanos(self.0.unsigned_abs()));
        let instant = match self.0 < 0 {
            true => origin.checked_sub(distance),
            false => origin.checked_add(distance),
        };
        instant.unwrap_or(origin)
    }

    /// The moment `nanos` nanoseconds from the origin, held within ±292 years.
    pub fn from_nanos(nanos: i128) -> Self {
        let end = if nanos < 0 { i64::MIN } else { i64::MAX };
        Self(i64::try_from(nanos).unwrap_or(end))
    }

    /// Nanoseconds from the origin.
    pub fn nanos(self) -> i128 {
        self.0.into()
    }

    /// Returns how long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: MonoTime) -> Duration {
        let nanos = self.nanos() - earlier.nanos();
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

impl From<Instant> for MonoTime {
    fn from(instant: Instant) -> Self {
        let origin = *ORIGIN;
        match instant.checked_duration_since(origin) {
            Some(after) => Self::default() + after,
            None => Self::default() - origin.duration_since(instant),
        }
    }
}

impl Add<Duration> for MonoTime {
    type Output = MonoTime;

    fn add(self, duration: Duration) -> MonoTime {
        MonoTime(self.0.saturating_add(signed(duration)))
    }
}

impl Sub<Duration> for MonoTime {
    type Output = MonoTime;

    fn sub(self, duration: Duration) -> MonoTime {
        MonoTime(self.0.saturating_sub(signed(duration)))
    }
}

fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
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
        let far = Duration::from_millis(1500);
        for instant in [*ORIGIN - far, *ORIGIN, *ORIGIN + far] {
            assert_eq!(MonoTime::from(instant).instant(), instant);
        }
        let later = MonoTime::from(*ORIGIN + far);
        assert_eq!(later.nanos(), 1_500_000_000);
    }
}
