//! For how long clusters are protected.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::ProberMetrics;

/// A cluster that is protected.
#[derive(Debug)]
pub(crate) struct Protecting {
    time: Arc<ProtectedTime>,
    lengths: Histogram,
}

impl ProberMetrics {
    /// Counts a cluster as protected until the returned value is dropped.
    pub(crate) fn protect(&self) -> Protecting {
        self.protected.change(1);
        Protecting {
            time: self.protected.clone(),
            lengths: self.protections.clone(),
        }
    }
}

impl Protecting {
    /// Records the length of a protection that ends, with its time under earlier processes.
    pub(crate) fn ended(self, length: Duration) {
        self.lengths.observe(length.as_secs_f64());
    }
}

impl Drop for Protecting {
    fn drop(&mut self) {
        self.time.change(-1);
    }
}

/// The time for which clusters are protected, summed over all of them, without a look at each.
#[derive(Debug)]
pub(super) struct ProtectedTime {
    /// All times count from here.
    origin: Instant,
    spans: Mutex<Spans>,
}

#[derive(Debug, Default)]
struct Spans {
    open: i128,
    /// The ends of all spans that have ended, less the beginnings of all, in nanoseconds.
    total: i128,
}

impl Default for ProtectedTime {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            spans: Mutex::default(),
        }
    }
}

impl ProtectedTime {
    /// Opens so many spans, or closes them.
    fn change(&self, spans: i128) {
        self.with(|known, now| {
            known.open += spans;
            known.total -= spans * now;
        });
    }

    pub(super) fn seconds(&self) -> f64 {
        self.with(|spans, now| (spans.total + spans.open * now) as f64 / 1e9)
    }

    fn with<T>(&self, run: impl FnOnce(&mut Spans, i128) -> T) -> T {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the total never falls.
        let now = self.origin.elapsed().as_nanos().cast_signed();
        run(&mut spans, now)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn protected_time_is_right_at_any_moment() {
        let metrics = ProberMetrics::default();
        let total = || metrics.protected.seconds();
        assert_eq!(total(), 0.0);
        advance(SECOND * 5).await;
        let first = metrics.protect();
        advance(SECOND * 2).await;
        assert_eq!(total(), 2.0);
        let second = metrics.protect();
        advance(SECOND * 3).await;
        assert_eq!(total(), 8.0);
        first.ended(SECOND * 5);
        advance(SECOND * 10).await;
        assert_eq!(total(), 18.0);
        // Its loop has ended without letting go.
        drop(second);
        advance(SECOND * 10).await;
        assert_eq!(total(), 18.0);
    }
}
