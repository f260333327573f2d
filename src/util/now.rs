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
            wall: wall(),
        }
    }
}

/// Reads the clock on the wall. Where tokio's clock runs ahead of the real one, as in tests that pause it,
/// this one is ahead by as much.
pub fn wall() -> Timestamp {
    let (real, wall) = (std::time::Instant::now(), Timestamp::now());
    let ahead = Instant::now().into_std().saturating_duration_since(real);
    wall.checked_add(ahead).unwrap_or(wall)
}
