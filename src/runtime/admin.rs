//! The endpoints for those who look after the process: `/metrics`, `/healthz`, `/readyz`.
//!
//! They serve the cluster's own network, and nothing secret. Each connection has one request and a few seconds. Their
//! number is bounded: while all are held, others wait.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use futures::future::join_all;
use http::{Request, Response, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{health::Health, metrics};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The time for the head of a request, and that for all of a connection.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
/// Most connections at the same time on each address.
const CONNECTIONS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Pause after a connection could not be accepted, for instance since there is no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Paths of one listener, or of the other, or of one that is both.
const OF_METRICS: &[&str] = &["/metrics"];
const OF_HEALTH: &[&str] = &["/healthz", "/readyz"];
const OF_BOTH: &[&str] = &["/metrics", "/healthz", "/readyz"];

/// The server of the endpoints.
pub struct Admin {
    /// Listeners, each with the paths that it serves.
    listeners: Vec<(TcpListener, &'static [&'static str])>,
    shown: Arc<Shown>,
}

/// All metrics, and the health of the process.
type Shown = (Registry, Health);

impl Admin {
    /// Listens on both addresses; on one, if they are the same; on none that is `0`.
    ///
    /// # Errors
    ///
    /// If one of them cannot be listened on.
    pub async fn bind(metrics: &str, health: &str, shown: Shown) -> Result<Self, String> {
        let wanted = match metrics == health {
            true => vec![("--metrics-bind-addr", metrics, OF_BOTH)],
            false => vec![
                ("--metrics-bind-addr", metrics, OF_METRICS),
                ("--health-bind-addr", health, OF_HEALTH),
            ],
        };
        let mut listeners = Vec::new();
        for (flag, address, paths) in wanted {
            if address == "0" {
                continue;
            }
            let listener = listen(address).await.map_err(|error| {
                format!(
                    "{flag} {address} cannot be listened on: {error}; choose another HOST:PORT, or :PORT for all \
                     addresses, or 0 for none"
                )
            })?;
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, ?paths, "serving");
            }
            listeners.push((listener, paths));
        }
        let shown = Arc::new(shown);
        Ok(Self { listeners, shown })
    }

    /// The addresses that are listened on: of the metrics first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.listeners.iter();
        bound.filter_map(|(it, _)| it.local_addr().ok()).collect()
    }

    /// Serves for ever.
    pub async fn run(self) {
        let Self { listeners, shown } = self;
        let accepting = listeners
            .into_iter()
            .map(|(listener, paths)| accept(listener, paths, shown.clone()));
        join_all(accepting).await;
    }
}

async fn listen(address: &str) -> io::Result<TcpListener> {
    let Some(port) = address.strip_prefix(':') else {
        return TcpListener::bind(address).await;
    };
    // It takes IPv4 as well, where there is IPv6 at all.
    match TcpListener::bind(format!("[::]:{port}")).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await,
    }
}

async fn accept(listener: TcpListener, paths: &'static [&'static str], shown: Arc<Shown>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // They are never closed.
        let place = places.clone().acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream, paths, shown.clone());
                tokio::spawn(async move {
                    // One that is too slow is closed.
                    let _ = timeout(CONNECTION_LIMIT, served).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the endpoints could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, paths: &'static [&'static str], shown: Arc<Shown>) {
    let service = service_fn(async |request: Request<Incoming>| {
        let (registry, health) = &*shown;
        let (kind, (code, body)) = match request.uri().path() {
            path if !paths.contains(&path) => (PLAIN, (404, "not served here\n".to_owned())),
            "/metrics" => (OPEN_METRICS, (200, metrics::text(registry))),
            "/healthz" => (PLAIN, healthz(health)),
            _ => (PLAIN, readyz(health)),
        };
        Response::builder()
            .status(code)
            .header(header::CONTENT_TYPE, kind)
            .body(body)
    });
    // An error is the client's: it went away, or sent something else than HTTP.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn healthz(health: &Health) -> (u16, String) {
    let stale = health.stale().into_iter().map(|(name, age)| {
        let seconds = age.as_secs();
        format!("[-]{name} failed: its loop has not turned for {seconds} s\n")
    });
    let lines: String = stale.collect();
    match lines.is_empty() {
        true => (200, "ok\n".to_owned()),
        false => (503, lines),
    }
}

fn readyz(health: &Health) -> (u16, String) {
    let results = health.results();
    let lines = results.iter().map(|(name, result)| match result {
        Ok(()) => format!("[+]{name} ok\n"),
        Err(why) => format!("[-]{name} failed: {why}\n"),
    });
    let lines: String = lines.collect();
    match results.iter().all(|(_, result)| result.is_ok()) {
        true => (200, lines + "ok\n"),
        false => (503, lines + "not ready\n"),
    }
}
