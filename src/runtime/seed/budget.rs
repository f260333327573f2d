//! A budget of requests, spent in the order in which they ask.

use std::{num::NonZeroU32, time::Duration};

use prometheus_client::metrics::histogram::Histogram;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{LEAST_QPS, MOST_QPS};

/// Rate of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests per second in the long run, [`LEAST_QPS`] to [`MOST_QPS`].
    pub qps: f64,
    /// Requests at once.
    pub burst: NonZeroU32,
}

impl Rate {
    /// Rate of requests to dependents, deletions of pods, and what these wait for. It is enough for a thousand
    /// outages at the same time: each takes some five requests.
    pub(super) const ACTING: Self = Self {
        qps: 500.0,
        burst: NonZeroU32::new(1_000).unwrap(),
    };
}

/// Budget of requests: each turn takes a period, and a burst of them may be ahead. A caller that drops its wait is out
/// of the queue.
pub(super) struct Budget {
    period: Duration,
    burst: Duration,
    /// Time at which all turns that were given out are paid for. The lock is the queue, which is fair.
    paid: Mutex<Instant>,
    waits: Histogram,
}

impl Budget {
    /// The budget of this rate. `waits` measures for how long turns are waited for.
    pub(super) fn new(rate: Rate, waits: Histogram) -> Self {
        let period = Duration::from_secs_f64(1.0 / rate.qps.clamp(LEAST_QPS, MOST_QPS));
        Self {
            period,
            burst: period.saturating_mul(rate.burst.get()),
            paid: Mutex::new(Instant::now()),
            waits,
        }
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) {
        let asked = Instant::now();
        let mut paid = self.paid.lock().await;
        let after = (*paid).max(Instant::now()) + self.period;
        if let Some(due) = after.checked_sub(self.burst) {
            sleep_until(due).await;
        }
        *paid = after;
        self.waits.observe(asked.elapsed().as_secs_f64());
    }
}
