//! Defaults of fields, for `#[serde(default = "…")]`.

use super::Duration;

pub(super) fn number<const N: i32>() -> i32 {
    N
}

pub(super) fn percent<const N: u8>() -> f64 {
    f64::from(N) / 100.0
}

pub(super) fn seconds<const N: u16>() -> Duration {
    Duration::from_secs(N)
}

pub(super) fn minutes<const N: u16>() -> Duration {
    Duration::from_mins(N)
}
