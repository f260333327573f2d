//! The endpoints for those who look after the process: `/metrics`, `/healthz`, `/readyz`.
//!
//! They are for the cluster's own network and carry nothing secret. Whoever connects can neither
//! keep the process busy nor fill it: a connection carries one request without a body, has a few
//! seconds in all, and there are only so many at once. Nor can anybody keep others out, such as the
//! kubelet, which would then end the process: a new connection takes the place of the oldest.

mod address;

pub use self::address::BindAddress;

use std::{
    collections::VecDeque, convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration,
};

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::{AbortHandle, yield_now},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{liveness::Liveness, metrics::Registry, readiness::Checks};

/// The flags, by which errors name them.
pub const METRICS_FLAG: &str = "--metrics-bind-addr";
/// The same for the health endpoints.
pub const HEALTH_FLAG: &str = "--health-bind-addr";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The time for the head of a request, and that for all of a connection.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
/// So many are served at once on each address.
const CONNECTIONS: usize = 64;
/// So many answers with metrics are put into text at once: that goes on when its client is gone.
const RENDERINGS: usize = 4;
const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// After a connection could not be accepted, for instance since there is no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests under way at the end may still be answered within this.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {address} cannot be listened on: {source}; choose another address, or 0 for none")]
pub struct BindError {
    flag: &'static str,
    address: BindAddress,
    source: io::Error,
}

/// What the endpoints show.
#[derive(Debug, Default)]
pub struct Endpoints {
    /// `/metrics`
    pub registry: Registry,
    /// `/healthz`
    pub liveness: Liveness,
    /// `/readyz`
    pub checks: Checks,
}

/// The server of the endpoints.
#[derive(Debug)]
pub struct Admin {
    listeners: Vec<(TcpListener, Served)>,
    shown: Arc<Shown>,
}

#[derive(Debug)]
struct Shown {
    endpoints: Endpoints,
    renderings: Arc<Semaphore>,
}

/// What one listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Served {
    metrics: bool,
    health: bool,
}

impl Admin {
    /// Listens on both addresses; on one, if they are the same.
    ///
    /// # Errors
    ///
    /// If one of them cannot be listened on.
    pub async fn bind(
        metrics: &BindAddress,
        health: &BindAddress,
        endpoints: Endpoints,
    ) -> Result<Self, BindError> {
        let both = metrics == health;
        let wanted = [
            (
                METRICS_FLAG,
                metrics,
                Served {
                    metrics: true,
                    health: both,
                },
            ),
            (
                HEALTH_FLAG,
                health,
                Served {
                    metrics: false,
                    health: true,
                },
            ),
        ];
        let mut listeners = Vec::new();
        for (flag, address, served) in wanted.into_iter().take(if both { 1 } else { 2 }) {
            let listener = address.listen().await.map_err(|source| BindError {
                flag,
                address: address.clone(),
                source,
            })?;
            listeners.extend(listener.map(|listener| (listener, served)));
        }
        Ok(Self {
            listeners,
            shown: Arc::new(Shown {
                endpoints,
                renderings: Arc::new(Semaphore::new(RENDERINGS)),
            }),
        })
    }

    /// The addresses that are listened on: of the metrics first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.listeners.iter();
        bound.filter_map(|(it, _)| it.local_addr().ok()).collect()
    }

    /// Serves until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let connections = TaskTracker::new();
        for (listener, served) in self.listeners {
            if let Ok(address) = listener.local_addr() {
                let Served { metrics, health } = served;
                tracing::info!(%address, metrics, health, "serving");
            }
            let accepting = accept(listener, served, self.shown.clone(), connections.clone());
            connections.spawn(stop.clone().run_until_cancelled_owned(accepting));
        }
        stop.cancelled().await;
        connections.close();
        // Whoever has not been answered by then finds the process gone.
        let _ = timeout(LAST_ANSWERS, connections.wait()).await;
    }
}

async fn accept(
    listener: TcpListener,
    served: Served,
    shown: Arc<Shown>,
    connections: TaskTracker,
) {
    // Those that are open, the oldest first.
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the endpoints could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        while open.len() >= CONNECTIONS {
            // Whoever asks at once is answered at once: the oldest has had its time.
            if let Some(oldest) = open.pop_front() {
                oldest.abort();
            }
        }
        let shown = shown.clone();
        let connection = connections.spawn(async move {
            // One that is too slow is closed.
            let _ = timeout(CONNECTION_LIMIT, serve(stream, served, shown)).await;
        });
        open.push_back(connection.abort_handle());
        // However many wait to be accepted: what was asked already is answered first.
        yield_now().await;
    }
}

async fn serve(stream: TcpStream, served: Served, shown: Arc<Shown>) {
    let service = service_fn(|request: http::Request<Incoming>| {
        let shown = shown.clone();
        async move {
            let (method, path) = (request.method(), request.uri().path());
            Ok::<_, Infallible>(answer(method, path, served, shown).await)
        }
    });
    // An error is the client's: it went away, or sent something else than HTTP.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    method: &Method,
    path: &str,
    served: Served,
    shown: Arc<Shown>,
) -> Response<Full<Bytes>> {
    if method != Method::GET {
        let mut answer = text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is served\n".to_owned(),
        );
        let allowed = header::HeaderValue::from_static("GET");
        answer.headers_mut().insert(header::ALLOW, allowed);
        return answer;
    }
    match path {
        "/metrics" if served.metrics => metrics(shown).await,
        "/healthz" if served.health => healthz(&shown.endpoints.liveness),
        "/readyz" if served.health => readyz(&shown.endpoints.checks),
        _ => text(
            StatusCode::NOT_FOUND,
            format!("served here: {}\n", served.paths()),
        ),
    }
}

async fn metrics(shown: Arc<Shown>) -> Response<Full<Bytes>> {
    // It is never closed.
    let room = shown.renderings.clone().acquire_owned().await;
    // Thousands of series take milliseconds, in which a worker would do nothing else.
    let rendered = tokio::task::spawn_blocking(move || {
        let rendered = shown.endpoints.registry.render();
        drop(room);
        rendered
    });
    let rendered = rendered.await;
    match rendered {
        Ok(Ok(body)) => respond(StatusCode::OK, OPEN_METRICS, body),
        Ok(Err(_)) | Err(_) => {
            let sorry = "the metrics could not be put into text\n".to_owned();
            text(StatusCode::INTERNAL_SERVER_ERROR, sorry)
        }
    }
}

fn healthz(liveness: &Liveness) -> Response<Full<Bytes>> {
    let stale = liveness.stale();
    if stale.is_empty() {
        return text(StatusCode::OK, "ok\n".to_owned());
    }
    let lines = stale.iter().map(|(name, age)| {
        format!(
            "[-]{name} failed: its loop has not turned for {} s\n",
            age.as_secs()
        )
    });
    text(StatusCode::SERVICE_UNAVAILABLE, lines.collect())
}

fn readyz(checks: &Checks) -> Response<Full<Bytes>> {
    let results = checks.results();
    let lines = results.iter().map(|(name, result)| match result {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(why) => format!("[-]{name} failed: {why}\n"),
    });
    let mut body: String = lines.collect();
    let ready = results.iter().all(|(_, result)| result.is_ok());
    body.push_str(if ready { "ok\n" } else { "not ready\n" });
    let code = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    text(code, body)
}

impl Served {
    fn paths(self) -> &'static str {
        match (self.metrics, self.health) {
            (true, true) => "/metrics /healthz /readyz",
            (true, false) => "/metrics",
            (false, _) => "/healthz /readyz",
        }
    }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    respond(code, PLAIN, body)
}

fn respond(code: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = code;
    let content_type = header::HeaderValue::from_static(content_type);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    answer
}
