//! Durations as Kubernetes writes them (`1m30s`), with checked arithmetic.

use serde::{Deserialize, Serialize};

/// A duration in the form in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration {
    written: String,
    value: std::time::Duration,
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration")]
pub struct DurationError {
    text: String,
}

impl Duration {
    /// The length of time.
    pub fn get(&self) -> std::time::Duration {
        self.value
    }
}
