//! Waiting for a moment that may never come.

use tokio::time::{Instant, sleep_until};

/// Waits for the moment; for ever without one.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
