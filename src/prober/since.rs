//! When something began, and how long ago that is.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A beginning: the clock on the wall tells when, and may be set; the monotonic one tells how long
/// ago.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// When.
    pub stamp: Timestamp,
    age: Duration,
    at: Instant,
}

impl Since {
    /// It begins now.
    pub fn now() -> Self {
        Self::of(Timestamp::now())
    }

    /// As of a stamp that an earlier run has left; one in the future is of now.
    pub fn of(stamp: Timestamp) -> Self {
        Self {
            stamp,
            age: Duration::try_from(Timestamp::now().duration_since(stamp)).unwrap_or_default(),
            at: Instant::now(),
        }
    }

    /// How long ago.
    pub fn elapsed(&self) -> Duration {
        self.age.saturating_add(self.at.elapsed())
    }
}
