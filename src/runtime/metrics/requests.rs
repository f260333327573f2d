//! Requests to the seed: how many, how they end, how long they take and how long they wait.

use std::{
    fmt,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, Uri};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::time::Instant;
use tower::{Layer, Service};

use super::Registry;
use crate::runtime::answers::is_watch;

const SECONDS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// To wait for a turn takes no time, or as long as the queue is.
const WAIT_SECONDS: [f64; 12] = [
    0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Requests to the seed's API server, by what they ask for and how they end: a layer around its
/// client.
#[derive(Clone, Debug)]
pub struct RequestMetrics {
    requests: Family<Ended, Counter>,
    duration: Family<Verb, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    verb: &'static str,
    code: Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Code {
    Status(u16),
    /// No answer came, or nobody waited for it any more.
    Error,
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => code.encode(encoder),
            Self::Error => "error".encode(encoder),
        }
    }
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
        registry.register(
            "api_requests",
            &["verb", "code"],
            "Requests to the seed's API server, watches included, by verb and HTTP status; the code \
             is error where no answer came",
            self.requests.clone(),
        );
        registry.register(
            "api_request_duration_seconds",
            &["verb"],
            "Time from a request to the seed's API server to the head of its answer",
            self.duration.clone(),
        );
    }

    fn begin<B>(&self, request: &Request<B>) -> Pending {
        Pending {
            metrics: self.clone(),
            verb: verb(request.method(), request.uri()),
            began: Instant::now(),
            code: Code::Error,
        }
    }
}

/// A request whose answer is awaited. It is counted when it is dropped: whoever gives a request up
/// drops it.
#[must_use]
struct Pending {
    metrics: RequestMetrics,
    verb: &'static str,
    began: Instant,
    code: Code,
}

impl Pending {
    fn answered(mut self, status: StatusCode) {
        self.code = Code::Status(status.as_u16());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let (verb, code) = (self.verb, self.code);
        let metrics = &self.metrics;
        metrics.requests.get_or_create(&Ended { verb, code }).inc();
        let took = self.began.elapsed().as_secs_f64();
        metrics.duration.get_or_create(&Verb { verb }).observe(took);
    }
}

impl<S> Layer<S> for RequestMetrics {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        let metrics = self.clone();
        Counted { inner, metrics }
    }
}

/// A client's service whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    metrics: RequestMetrics,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let pending = self.metrics.begin(&request);
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            pending.answered(answer.status());
            Ok(answer)
        }
        .boxed()
    }
}

/// What a request asks for, in the words of RBAC.
fn verb(method: &Method, uri: &Uri) -> &'static str {
    match *method {
        Method::GET if is_watch(uri.query()) => "watch",
        Method::GET if is_collection(uri.path()) => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Whether a path names all objects of a resource, in one namespace or in all: `/api/v1/…` or
/// `/apis/GROUP/VERSION/…`, then perhaps `namespaces/NAME`, then the resource alone.
fn is_collection(path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let before = match segments.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return false,
    };
    let rest: Vec<&str> = segments.skip(before).take(4).collect();
    matches!(rest.as_slice(), [_] | ["namespaces", _, _])
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
            &["budget"],
            "Requests to the seed's API server that wait for their turn within a budget",
            waiting.clone(),
        );
        registry.register(
            "api_request_wait_seconds",
            &["budget"],
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

    use kube::client::Body;
    use tokio::time::{sleep, timeout};
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[test]
    fn a_request_has_the_verb_that_rbac_knows() {
        let apis = "/apis/apps/v1";
        for (method, path, expected) in [
            ("GET", "/api/v1/secrets", "list"),
            ("GET", "/api/v1/secrets?watch=true&limit=5", "watch"),
            ("GET", "/api/v1/secrets?labelSelector=watch%3Dtrue", "list"),
            ("GET", &format!("{apis}/namespaces/a/deployments"), "list"),
            ("GET", &format!("{apis}/namespaces/a/deployments/b"), "get"),
            (
                "GET",
                &format!("{apis}/namespaces/a/deployments/b/scale"),
                "get",
            ),
            ("GET", "/apis/g/v1/clusters", "list"),
            ("GET", "/apis/g/v1/clusters/a", "get"),
            ("GET", "/apis/g/v1", "get"),
            ("GET", "/version", "get"),
            ("PATCH", "/apis/g/v1/clusterhealths/a/status", "patch"),
            ("DELETE", "/apis/g/v1/clusterhealths/a", "delete"),
            ("POST", "/apis/g/v1/clusterhealths", "create"),
            ("PUT", "/apis/g/v1/clusterhealths/a", "update"),
            ("OPTIONS", "/", "other"),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(verb(&method, &path.parse().unwrap()), expected, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_end_of_a_request_is_counted() {
        let metrics = RequestMetrics::default();
        let service = service_fn(|request: Request<Body>| async move {
            match request.uri().path() {
                "/late" => sleep(Duration::MAX).await,
                "/slow" => sleep(Duration::from_secs(3)).await,
                "/broken" => return Err("connection reset"),
                _ => {}
            }
            let answer = Response::builder().status(418).body(());
            Ok::<_, &str>(answer.unwrap())
        });
        for path in ["/slow", "/broken", "/late"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let asked = metrics.layer(service).oneshot(request);
            let _ = timeout(Duration::from_secs(20), asked).await;
        }
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let text = registry.render().unwrap();
        for line in [
            r#"api_requests_total{verb="get",code="418"} 1"#,
            r#"api_requests_total{verb="get",code="error"} 2"#,
            r#"api_request_duration_seconds_sum{verb="get"} 23.0"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_seen_while_it_lasts_and_measured_when_it_is_over() {
        let mut registry = Registry::default();
        let (metrics, []) = BudgetMetrics::register(&mut registry, "scale", []);
        let waiting = metrics.wait();
        sleep(Duration::from_secs(2)).await;
        let text = registry.render().unwrap();
        assert!(
            text.contains(r#"api_requests_waiting{budget="scale"} 1"#),
            "{text}"
        );
        drop(waiting);
        let text = registry.render().unwrap();
        assert!(
            text.contains(r#"api_requests_waiting{budget="scale"} 0"#),
            "{text}"
        );
        assert!(text.contains(r#"api_request_wait_seconds_sum{budget="scale"} 2.0"#));
    }
}
