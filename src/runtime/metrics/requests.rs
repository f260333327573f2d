//! Requests to the seed: how many, how they end, how long they take and how long they wait.

use http::StatusCode;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::time::Instant;

use super::Registry;

const SECONDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// To wait for a turn takes no time, or as long as the queue is.
const WAIT_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Requests to the seed's API server, by what they ask for and how they end.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: Family<Ended, Counter>,
    duration: Family<Verb, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    verb: &'static str,
    code: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        }
    }
}

impl RequestMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let (verb, code) = ("get", "200".to_owned());
        drop(self.requests.get_or_create(&Ended { verb, code }));
        drop(self.duration.get_or_create(&Verb { verb }));
        registry.register(
            "api_requests",
            "Requests to the seed's API server, watches included, by verb and HTTP status; the code \
             is error where no answer came",
            self.requests.clone(),
        );
        registry.register(
            "api_request_duration_seconds",
            "Time from a request to the seed's API server to the head of its answer",
            self.duration.clone(),
        );
    }

    pub(crate) fn begin(&self, verb: &'static str) -> Pending {
        Pending {
            metrics: self.clone(),
            verb,
            began: Instant::now(),
            code: "error".to_owned(),
        }
    }
}

/// A request whose answer is awaited. It is counted when it is dropped: whoever gives a request up
/// drops it.
#[must_use]
pub(crate) struct Pending {
    metrics: RequestMetrics,
    verb: &'static str,
    began: Instant,
    /// The status; `error` if no answer came, or nobody waited for it any more.
    code: String,
}

impl Pending {
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.code = status.as_str().to_owned();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (verb, code) = (self.verb, std::mem::take(&mut self.code));
        let metrics = &self.metrics;
        metrics.requests.get_or_create(&Ended { verb, code }).inc();
        let duration = metrics.duration.get_or_create(&Verb { verb });
        duration.observe(self.began.elapsed().as_secs_f64());
    }
}

/// How requests wait for their turn within a budget.
#[derive(Clone, Debug)]
pub struct BudgetMetrics {
    waiting: Gauge,
    waited: Histogram,
}

/// One that waits, as long as this lives.
pub(crate) struct Waiting<'a> {
    metrics: &'a BudgetMetrics,
    began: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Budget {
    budget: &'static str,
}

impl Default for BudgetMetrics {
    fn default() -> Self {
        Self {
            waiting: Gauge::default(),
            waited: Histogram::new(WAIT_SECONDS),
        }
    }
}

impl BudgetMetrics {
    /// Those of the budget of this name and of others, shown.
    pub fn register<const N: usize>(
        registry: &mut Registry,
        budget: &'static str,
        others: [&'static str; N],
    ) -> (Self, [Self; N]) {
        let waiting: Family<Budget, Gauge> = Family::default();
        let waited: Family<Budget, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(WAIT_SECONDS));
        registry.register(
            "api_requests_waiting",
            "Requests to the seed's API server that wait for their turn within a budget",
            waiting.clone(),
        );
        registry.register(
            "api_request_wait_seconds",
            "Time for which a request to the seed's API server has waited for its turn",
            waited.clone(),
        );
        let of = |budget| Self {
            waiting: waiting.get_or_create_owned(&Budget { budget }),
            waited: waited.get_or_create_owned(&Budget { budget }),
        };
        (of(budget), others.map(of))
    }

    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.inc();
        Waiting {
            metrics: self,
            began: Instant::now(),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.metrics.waiting.dec();
        self.metrics
            .waited
            .observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_seen_while_it_lasts_and_measured_when_it_is_over() {
        let mut registry = Registry::default();
        let (metrics, []) = BudgetMetrics::register(&mut registry, "scale", []);
        let waiting = metrics.wait();
        sleep(Duration::from_secs(2)).await;
        let text = crate::runtime::metrics::text(&registry).unwrap();
        assert!(
            text.contains(r#"api_requests_waiting{budget="scale"} 1"#),
            "{text}"
        );
        drop(waiting);
        let text = crate::runtime::metrics::text(&registry).unwrap();
        assert!(
            text.contains(r#"api_requests_waiting{budget="scale"} 0"#),
            "{text}"
        );
        assert!(text.contains(r#"api_request_wait_seconds_sum{budget="scale"} 2.0"#));
    }
}
