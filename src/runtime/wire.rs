//! Everything between the Kubernetes client and the seed: one service, for any number of clients.
//!
//! A connection whose way is lost (a node, a zone or a NAT gateway failed) is not closed: requests sent
//! over it are never answered. The kernel gives such a connection up after seconds, unless a load balancer
//! acknowledges what leads nowhere. So a small read that is not answered soon is sent a second time, over a
//! new connection. Any other request is waited for. After either, later requests go over new connections,
//! unless the seed has answered others meanwhile: then it is only slow.
//!
//! Only reads are sent twice. A write that is sent twice may be carried out by either copy: the other one
//! is then refused by its precondition, and that refusal is no word about the first. A write follows a
//! read of the same object, so it goes over connections that have just answered, or over new ones.

use std::{error::Error, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::{Either, select},
    stream,
};
use http::{Method, Request, Response, header::UPGRADE};
use http_body_util::{
    BodyExt as _, BodyStream, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody,
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tower::{
    BoxError, Service, ServiceBuilder, ServiceExt as _, service_fn, util::BoxCloneSyncService,
};

use super::{metrics::RequestMetrics, seed::with_causes};

/// The largest answer of the seed, in bytes: all Machines of one cluster, of which 5,000 have some
/// 20 MB, and a page of the largest objects that there can be. The client needs several times that
/// while it reads it.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The time within which an answer begins. An API server gives a request up after a minute.
pub(super) const BEGINS: Duration = Duration::from_secs(30);
/// Shortest time from the beginning of a watch to its end: a watcher asks again immediately.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// Time within which what is sent has to be acknowledged: the same as for a shoot.
#[cfg(target_os = "linux")]
const LOST: Duration = Duration::from_secs(3);
/// Time after which the kernel probes a connection on which nothing is received.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Time from one such probe to the next.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Probes without an answer after which the connection is lost. On Linux the time of [`LOST`] ends it first.
const KEEPALIVE_PROBES: u32 = 3;
/// A small read that is not answered within this is sent again. It is less than [`LOST`], and an API
/// server that is not overloaded answers in milliseconds.
const SECOND_TRY: Duration = Duration::from_millis(2_500);
/// The same time for any other request: less than [`REQUEST_LIMIT`](super::seed::REQUEST_LIMIT), so that one request
/// fails when all connections are dead, and not one after another.
const UNANSWERED: Duration = Duration::from_secs(5);
/// Most connections that are kept and that no request uses, each with buffers as large as its largest answer.
const IDLE: usize = 32;

/// Requests that a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any request.
    All,
    /// Reads alone, for a replica that does not lead.
    Reads,
}

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
/// Sends requests over connections that are kept.
type Pool = BoxCloneSyncService<Request<Body>, Answer, BoxError>;

/// The way to the seed. Clones share its connections.
#[derive(Clone)]
pub struct Wire {
    make: Arc<dyn Fn() -> Pool + Send + Sync>,
    newest: Arc<Mutex<Newest>>,
    metrics: RequestMetrics,
}

/// The pool of connections that new requests are sent over.
struct Newest {
    pool: Pool,
    /// Number of pools before this one.
    number: u64,
    /// Time of the last answer of the seed, over whichever connection; `None` if there is none since connections were
    /// replaced.
    answered: Option<Instant>,
}

impl Wire {
    /// The way by a configuration. Runs its login plugin if it has one: once for a token, twice for a
    /// certificate.
    ///
    /// # Errors
    ///
    /// If no client can be made of the configuration.
    pub fn new(mut config: Config, metrics: &RequestMetrics) -> kube::Result<Self> {
        if let Some(proxy) = &config.proxy_url {
            let proxy_url = Box::new(proxy.clone());
            return Err(kube::Error::ProxyProtocolUnsupported { proxy_url });
        }
        let auth = config.auth_layer()?;
        if auth.is_some() {
            // The plugin gave this token, or is not asked. For a certificate it would run once more.
            config.auth_info.exec = None;
        }
        let (base_uri, headers) = (config.base_uri_layer(), config.extra_headers_layer()?);
        let mut connector =
            TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        let make = move || {
            let mut pool = legacy::Builder::new(TokioExecutor::new());
            let pool = pool.pool_max_idle_per_host(IDLE);
            let pool = pool.build::<_, Body>(connector.clone());
            ServiceBuilder::new()
                .layer(base_uri.clone())
                .option_layer(auth.as_ref())
                .layer(headers.clone())
                .service(pool.map_err(BoxError::from))
        };
        Ok(Self::over(make, metrics))
    }

    /// The way over pools of connections that `make` makes, each of which keeps its own.
    pub fn over<S, B>(
        make: impl Fn() -> S + Send + Sync + 'static,
        metrics: &RequestMetrics,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let make = move || {
            let pool = make().map_err(Into::into);
            Pool::new(
                pool.map_response(|it| it.map(|body| body.map_err(Into::into).boxed_unsync())),
            )
        };
        let newest = Newest {
            pool: make(),
            number: 0,
            answered: None,
        };
        Self {
            make: Arc::new(make),
            newest: Arc::new(Mutex::new(newest)),
            metrics: metrics.clone(),
        }
    }

    /// A client of the seed.
    pub fn client(&self, access: Access) -> Client {
        let wire = self.clone();
        let send = move |request| wire.clone().send(access, request);
        Client::new(service_fn(send), "default")
    }

    /// Sends a request, if it is allowed: counted, bounded, and over another connection if need be.
    async fn send(self, access: Access, request: Request<Body>) -> Result<Answer, BoxError> {
        // A command in a pod is a GET that takes its connection over.
        let is_read = *request.method() == Method::GET && !takes_over(&request);
        if access == Access::Reads && !is_read {
            let (method, path) = (request.method(), request.uri().path());
            let why = "was not sent: this replica does not lead, and reads only";
            return Err(format!("{method} {path} {why}").into());
        }
        let verb = verb(&request);
        let pending = self.metrics.begin(verb);
        let silent = |_| format!("the seed did not begin to answer within {BEGINS:?}");
        let answer = timeout(BEGINS, self.race(request))
            .await
            .map_err(silent)??;
        pending.answered(answer.status());
        let is_watch = verb == "watch" && answer.status().is_success();
        let soonest = Instant::now() + SHORTEST_WATCH;
        Ok(answer.map(|body| {
            if !is_watch {
                let body = Limited::new(body, MAX_ANSWER_BYTES);
                return body.map_err(|error| broken_off(&*error)).boxed_unsync();
            }
            // It has no end, and objects that etcd takes.
            let body = body.map_err(|error| broken_off(&*error));
            let end = stream::once(sleep_until(soonest)).filter_map(async |()| None);
            StreamBody::new(BodyStream::new(body).chain(end)).boxed_unsync()
        }))
    }

    async fn race(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        let (pool, number) = {
            let newest = self.newest.lock();
            (newest.pool.clone(), newest.number)
        };
        // The answer to a command that is run in a pod takes as long as a kubelet does.
        if takes_over(&request) {
            return self.answer(pool, request).await;
        }
        let copy = is_small_read(&request).then(|| copy(&request)).flatten();
        let limit = match copy {
            Some(_) => SECOND_TRY,
            None => UNANSWERED,
        };
        let mut first = pin!(self.answer(pool, request));
        if let Ok(answer) = timeout(limit, &mut first).await {
            return answer;
        }
        let pool = self.unanswered(number, limit);
        let Some(copy) = copy else {
            return first.await;
        };
        match select(first, pin!(self.answer(pool, copy))).await {
            Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
        }
    }

    async fn answer(&self, pool: Pool, request: Request<Body>) -> Result<Answer, BoxError> {
        let answer = pool.oneshot(request).await?;
        self.newest.lock().answered = Some(Instant::now());
        Ok(answer)
    }

    /// A request over the pool of this number was not answered for so long. Returns what a second one is sent
    /// over.
    fn unanswered(&self, number: u64, waited: Duration) -> Pool {
        let mut newest = self.newest.lock();
        if newest.number == number {
            if newest.answered.is_some_and(|at| at.elapsed() < waited) {
                return (self.make)();
            }
            // Logged once until it answers.
            if newest.answered.take().is_some() {
                tracing::info!(
                    "a request was not answered by the seed within {waited:?}: from now on, requests go over \
                     new connections"
                );
            }
            newest.pool = (self.make)();
            newest.number = number + 1;
        }
        newest.pool.clone()
    }
}

/// Connects to the seed.
fn tcp() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(LOST));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    connector.set_nodelay(true);
    connector
}

/// Returns what a request is, in kube's words.
fn name(request: &Request<Body>) -> &'static str {
    let named = request.extensions().get::<&'static str>();
    named.copied().unwrap_or(match *request.method() {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "replace",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    })
}

/// Returns what a request does: `list` if it is a `list_metadata`.
pub(crate) fn verb(request: &Request<Body>) -> &'static str {
    let name = name(request);
    name.split_once('_').map_or(name, |(verb, _)| verb)
}

/// Describes why an answer broke off. The error has no source: a watcher takes one that is an end of file for the end
/// of a watch, and asks again without a pause.
fn broken_off(error: &(dyn Error + 'static)) -> BoxError {
    if error.is::<LengthLimitError>() {
        let too_large = format!(
            "the seed's answer is larger than {MAX_ANSWER_BYTES} bytes, and was not read further; check what \
             answers there, and delete objects that were made to no purpose"
        );
        return too_large.into();
    }
    // A watcher knows such an end by hyper's words, too.
    let words = with_causes(error).replace("unexpected EOF", "unexpected end of file");
    words.into()
}

fn takes_over(request: &Request<Body>) -> bool {
    request.headers().contains_key(UPGRADE)
}

/// Returns whether an answer is due soon: a watch begins immediately, but whole objects of all namespaces may take
/// longer.
fn is_small_read(request: &Request<Body>) -> bool {
    let is_large = name(request) == "list" && !request.uri().path().contains("/namespaces/");
    *request.method() == Method::GET && !is_large
}

fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    Some(copy)
}

#[cfg(test)]
mod tests;
