//! Moments on the clock that shoots and the seed's API server share.

use jiff::Timestamp;
use std::time::Duration;

/// Microseconds since the unix epoch, as precise as a lease's `renewTime`.
pub type Micros = i64;

/// A length of time.
pub fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// As `renewTime` is written.
pub(crate) fn micro_time(moment: Micros) -> String {
    format("%Y-%m-%dT%H:%M:%S%.6fZ", moment)
}

/// As the API server stamps what it writes: in whole seconds.
pub(crate) fn stamp(moment: Micros) -> String {
    format("%Y-%m-%dT%H:%M:%SZ", moment)
}

/// As the header `Date` is written.
pub(crate) fn http_date(moment: Micros) -> String {
    format("%a, %d %b %Y %H:%M:%S GMT", moment)
}

fn format(form: &str, moment: Micros) -> String {
    let moment = Timestamp::from_microsecond(moment).unwrap_or(Timestamp::MAX);
    moment.strftime(form).to_string()
}
