//! What the clocks show, as an argument of whatever decides.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock, by which time is measured.
    pub mono: Instant,
    /// The clock on the wall, which is told to people and may be set.
    pub wall: Timestamp,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        Self {
            mono: Instant::now(),
            wall: Timestamp::now(),
        }
    }
}
