//! Moments on the clock that shoots and the seed's API server share.

use std::time::Duration;

/// Microseconds since the unix epoch, as precise as a lease's `renewTime`.
pub type Micros = i64;

/// A length of time.
pub fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}
