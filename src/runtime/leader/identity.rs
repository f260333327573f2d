//! The name under which a replica holds a Lease.

use crate::util::text::clean;

/// The longest name of a host, in characters.
pub(super) const MAX_HOST: usize = 253;

/// Unlike any other, also of a process of the same pod. It is shown and logged wherever the Lease is, so
/// of the name of the host no more is taken than a host can have.
pub(super) fn identity(host: Option<&str>) -> String {
    let host = clean(host.unwrap_or_default(), MAX_HOST);
    let host = match host.is_empty() {
        true => "dependency-watchdog",
        false => &host,
    };
    format!("{host}_{:016x}", fastrand::u64(..))
}
