//! Requests to the seed: how many, how they end, how long they take and how long they wait.

use std::borrow::Cow;

use http::StatusCode;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use tokio::time::Instant;

use super::{Histograms, Registry, metrics};

const SECONDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Waits for a turn take no time, or as long as the queue is.
const WAIT_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

metrics! {
    /// Requests to the seed's API server, by what they ask for and how they end.
    #[derive(Debug)]
    pub struct RequestMetrics {
        /// Requests to the seed's API server, watches included, by verb and HTTP status; the code is error where no
        /// answer came.
        requests: Family<[(&'static str, Cow<'static, str>); 2], Counter> as "api_requests",
        /// Time from a request to the seed's API server to the head of its answer.
        duration: Histograms<1> as "api_request_duration_seconds"
            = Histograms::new_with_constructor(|| Histogram::new(SECONDS)),
        /// Time for which a request to the seed's API server has waited for its turn within a budget.
        waited: Histograms<1> as "api_request_wait_seconds"
            = Histograms::new_with_constructor(|| Histogram::new(WAIT_SECONDS)),
    }
}

impl RequestMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let ended = [("verb", "get".into()), ("code", "200".into())];
        drop(self.requests.get_or_create(&ended));
        drop(self.duration.get_or_create(&[("verb", "get")]));
        drop(self.waits("reporting"));
        self.show(registry);
    }

    /// Times for which requests have waited within this budget.
    pub(crate) fn waits(&self, budget: &'static str) -> Histogram {
        self.waited.get_or_create_owned(&[("budget", budget)])
    }

    pub(crate) fn begin(&self, verb: &'static str) -> Pending {
        Pending {
            metrics: self.clone(),
            verb,
            began: Instant::now(),
            code: "error".into(),
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
    code: Cow<'static, str>,
}

impl Pending {
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.code = status.as_str().to_owned().into();
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (verb, code) = (self.verb, std::mem::take(&mut self.code));
        let metrics = &self.metrics;
        let ended = [("verb", verb.into()), ("code", code)];
        metrics.requests.get_or_create(&ended).inc();
        let duration = metrics.duration.get_or_create(&[("verb", verb)]);
        duration.observe(self.began.elapsed().as_secs_f64());
    }
}
