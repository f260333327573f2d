//! The present, as a plain value.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The present, on both clocks: the monotonic one counts, the one on the wall dates what is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// On the monotonic clock.
    pub instant: Instant,
    /// On the wall.
    pub time: Timestamp,
}
