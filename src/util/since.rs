//! When something began, and how long ago that is.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{mono_time::MonoTime, now::Now};

/// A beginning: the clock on the wall tells when, and may be set; the monotonic one tells how long
/// ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Since {
    /// When.
    pub stamp: Timestamp,
    pub(crate) began: MonoTime,
}

impl Since {
    /// Begins at a stamp that an earlier run has left; one in the future is of now.
    pub fn of(stamp: Timestamp, now: Now) -> Self {
        let age = Duration::try_from(now.wall.duration_since(stamp)).unwrap_or_default();
        let began = MonoTime::from(now.mono) - age;
        Self { stamp, began }
    }

    /// Returns how long ago it is.
    pub fn elapsed(&self, now: Now) -> Duration {
        MonoTime::from(now.mono).since(self.began)
    }
}

impl From<Now> for Since {
    fn from(now: Now) -> Self {
        Self::of(now.wall, now)
    }
}
