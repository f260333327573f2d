//! Requests to the seed: how many, how they end, how long they take and how long they wait.

use http::StatusCode;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
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
    waited: Family<Budget, Histogram, fn() -> Histogram>,
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
            waited: Family::new_with_constructor(|| Histogram::new(WAIT_SECONDS)),
        }
    }
}

impl RequestMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let (verb, code) = ("get", "200".to_owned());
        drop(self.requests.get_or_create(&Ended { verb, code }));
        drop(self.duration.get_or_create(&Verb { verb }));
        let budget = "reporting";
        drop(self.waited.get_or_create(&Budget { budget }));
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
        registry.register(
            "api_request_wait_seconds",
            "Time for which a request to the seed's API server has waited for its turn within a budget",
            self.waited.clone(),
        );
    }

    /// Times for which requests have waited within this budget.
    pub(crate) fn waits(&self, budget: &'static str) -> Histogram {
        self.waited.get_or_create_owned(&Budget { budget })
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Budget {
    budget: &'static str,
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
