//! The connections to the seed: kept from one request to the next, and replaced when they may be dead.
//!
//! A connection whose way is lost (a node, a zone or a NAT gateway failed) is not closed: requests sent
//! over it are never answered. The kernel gives such a connection up after seconds, unless a load balancer
//! acknowledges what leads nowhere. So an urgent read, or a watch, that is not answered soon is sent a second
//! time, over a new connection. Any other request is waited for. After either, later requests go over new
//! connections, unless the seed has answered others meanwhile: then it is only slow.
//!
//! Only reads are sent twice. A write that is sent twice may be carried out by either copy: the other one
//! is then refused by its precondition, and that refusal is no word about the first. A write follows a
//! read of the same object, so it goes over connections that have just answered, or over new ones.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    FutureExt as _, TryFutureExt as _,
    future::{BoxFuture, Either, select},
};
use http::{Method, Request, Response, header::UPGRADE};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service, ServiceExt as _, util::BoxCloneSyncService};

use crate::runtime::answers::is_watch;

/// What is sent has to be acknowledged within this: the same as for a shoot.
#[cfg(target_os = "linux")]
const LOST: Duration = Duration::from_secs(3);
/// A connection on which nothing is received for this long is probed, by the kernel ...
const KEEPALIVE: Duration = Duration::from_secs(5);
/// ... again after this ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// ... and is lost after so many probes without an answer. On Linux the time of [`LOST`] ends it first.
const KEEPALIVE_PROBES: u32 = 3;
/// An urgent read, or a watch, that is not answered within this is sent again. It is less than [`LOST`], and an API
/// server that is not overloaded answers in milliseconds.
const SECOND_TRY: Duration = Duration::from_millis(2_500);
/// For any other request it is this: less than [`REQUEST_LIMIT`](super::REQUEST_LIMIT), so that one request fails
/// when all connections are dead, and not one after another.
const UNANSWERED: Duration = Duration::from_secs(5);

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

/// Sends requests over connections that are kept. Clones share them.
pub(super) type Pool = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Makes pools of connections, which share how they connect.
pub(super) type Pools = Arc<dyn Fn() -> Pool + Send + Sync>;

/// Pools of connections to the API server of this configuration.
///
/// # Errors
///
/// If its certificates cannot be used.
pub(super) fn pools(config: &Config) -> kube::Result<Pools> {
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(Arc::new(move || {
        let client = legacy::Builder::new(TokioExecutor::new()).build(connector.clone());
        Pool::new(client.map_err(BoxError::from))
    }))
}

/// Kept connections, which are replaced when they may be dead. Clones share them.
pub struct Connections<S> {
    make: Arc<dyn Fn() -> S + Send + Sync>,
    newest: Arc<Mutex<Newest<S>>>,
    urgent: bool,
}

/// What new requests are sent over.
struct Newest<S> {
    pool: S,
    /// How many there have been before.
    number: u64,
    /// When the seed last answered, over whichever connection.
    answered: Option<Instant>,
    /// It has not since this was last logged.
    is_logged: bool,
}

impl<S> Clone for Connections<S> {
    fn clone(&self) -> Self {
        Self {
            make: self.make.clone(),
            newest: self.newest.clone(),
            urgent: self.urgent,
        }
    }
}

impl<S: Clone> Connections<S> {
    /// Connections that this makes; what it returns keeps them.
    pub fn new(make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let newest = Newest {
            pool: make(),
            number: 0,
            answered: None,
            is_logged: false,
        };
        Self {
            make: Arc::new(make),
            newest: Arc::new(Mutex::new(newest)),
            urgent: false,
        }
    }

    /// The same connections, for urgent requests.
    #[must_use]
    pub fn urgent(&self) -> Self {
        Self {
            urgent: true,
            ..self.clone()
        }
    }

    fn newest(&self) -> (S, u64) {
        let newest = self.lock();
        (newest.pool.clone(), newest.number)
    }

    /// A request over those of this number was not answered for so long. Returns what a second one is sent over.
    fn unanswered(&self, number: u64, waited: Duration) -> S {
        let mut newest = self.lock();
        if newest.number == number {
            if newest.answered.is_some_and(|at| at.elapsed() < waited) {
                return (self.make)();
            }
            if !newest.is_logged {
                tracing::info!(
                    "a request was not answered by the seed within {waited:?}: from now on, requests go over \
                     new connections"
                );
            }
            newest.pool = (self.make)();
            newest.number = number + 1;
            newest.is_logged = true;
        }
        newest.pool.clone()
    }

    fn note_answer(&self) {
        let mut newest = self.lock();
        newest.answered = Some(Instant::now());
        newest.is_logged = false;
    }

    fn lock(&self) -> MutexGuard<'_, Newest<S>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Connections<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    fn send(
        &self,
        pool: S,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<S::Response, S::Error>> {
        let connections = self.clone();
        let answer = pool.oneshot(request);
        answer
            .inspect_ok(move |_| connections.note_answer())
            .boxed()
    }
}

impl<S> Service<Request<Body>> for Connections<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (pool, number) = self.newest();
        // The answer to a command that is run in a pod takes as long as a kubelet does.
        if request.headers().contains_key(UPGRADE) {
            return self.send(pool, request);
        }
        // The answer to a watch begins immediately.
        let again = self.urgent || is_watch(request.uri().query());
        let copy = again.then(|| copy(&request)).flatten();
        let limit = match copy {
            Some(_) => SECOND_TRY,
            None => UNANSWERED,
        };
        let connections = self.clone();
        let mut first = connections.send(pool, request);
        async move {
            if let Ok(answer) = timeout(limit, &mut first).await {
                return answer;
            }
            let pool = connections.unanswered(number, limit);
            let Some(copy) = copy else {
                return first.await;
            };
            match select(first, connections.send(pool, copy)).await {
                Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
                Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
            }
        }
        .boxed()
    }
}

/// A second one of a request that changes nothing.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    if request.method() != Method::GET {
        return None;
    }
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU64, Ordering},
    };

    use futures::future::pending;
    use rstest::rstest;
    use tokio::{net::TcpListener, time::sleep};

    use super::*;

    /// A seed whose connections are numbered, the first of which are dead.
    #[derive(Clone, Default)]
    struct Server {
        made: Arc<AtomicU64>,
        dead: Arc<AtomicU64>,
        /// The connection of each request.
        asked: Arc<Mutex<Vec<u64>>>,
        delay: Duration,
    }

    impl Server {
        /// All connections of now die without a word.
        fn forget(&self) {
            self.dead
                .store(self.made.load(Ordering::Relaxed), Ordering::Relaxed);
        }

        fn asked(&self) -> Vec<u64> {
            self.asked.lock().unwrap().clone()
        }

        fn connections(
            &self,
        ) -> Connections<BoxCloneSyncService<Request<Body>, Response<u64>, Infallible>> {
            let server = self.clone();
            Connections::new(move || {
                let number = server.made.fetch_add(1, Ordering::Relaxed) + 1;
                let server = server.clone();
                BoxCloneSyncService::new(tower::service_fn(move |_| {
                    let server = server.clone();
                    async move {
                        server.asked.lock().unwrap().push(number);
                        sleep(server.delay).await;
                        if number <= server.dead.load(Ordering::Relaxed) {
                            pending::<()>().await;
                        }
                        Ok(Response::new(number))
                    }
                }))
            })
        }
    }

    fn request(method: Method) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        request
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_read_is_sent_again_over_a_new_connection_which_is_kept() {
        let server = Server::default();
        let connections = server.connections();
        let urgent = connections.urgent();
        let get = || request(Method::GET);
        assert_eq!(*urgent.clone().oneshot(get()).await.unwrap().body(), 1);
        server.forget();
        let began = Instant::now();
        // Several at once make new ones once.
        let (one, other) =
            tokio::join!(urgent.clone().oneshot(get()), urgent.clone().oneshot(get()));
        assert_eq!([*one.unwrap().body(), *other.unwrap().body()], [2, 2]);
        assert_eq!(began.elapsed(), SECOND_TRY);
        // What is written next, and what can wait, goes over what has answered.
        let write = connections.clone().oneshot(request(Method::PATCH));
        assert_eq!(*write.await.unwrap().body(), 2);
        assert_eq!(server.asked(), [1, 1, 1, 2, 2, 2]);
        assert_eq!(began.elapsed(), SECOND_TRY);
    }

    /// Objects that hold back what is done are watched: a policy that is suspended, a Cluster that is deleted.
    #[tokio::test(start_paused = true)]
    async fn a_watch_is_sent_again_as_well() {
        let server = Server::default();
        let connections = server.connections();
        server.forget();
        let mut watch = request(Method::GET);
        *watch.uri_mut() = "/api/v1/secrets?watch=true&timeoutSeconds=60"
            .parse()
            .unwrap();
        let began = Instant::now();
        assert_eq!(*connections.oneshot(watch).await.unwrap().body(), 2);
        assert_eq!((began.elapsed(), server.asked()), (SECOND_TRY, vec![1, 2]));
    }

    /// The first goes on meanwhile, and may be the one that is answered.
    #[tokio::test(start_paused = true)]
    async fn a_seed_that_is_slow_is_waited_for() {
        let server = Server {
            delay: SECOND_TRY * 3 / 2,
            ..Server::default()
        };
        let urgent = server.connections().urgent();
        let began = Instant::now();
        let answer = urgent.oneshot(request(Method::GET)).await.unwrap();
        assert_eq!(*answer.body(), 1);
        assert_eq!(began.elapsed(), server.delay);
        assert_eq!(server.asked(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_something_or_can_wait_is_sent_once() {
        let server = Server::default();
        let connections = server.connections();
        server.forget();
        let mut command = request(Method::GET);
        command
            .headers_mut()
            .insert(UPGRADE, "websocket".parse().unwrap());
        for (request, urgent) in [
            (request(Method::PATCH), true),
            (request(Method::PUT), true),
            (command, true),
            (request(Method::GET), false),
        ] {
            let connections = match urgent {
                true => connections.urgent(),
                false => connections.clone(),
            };
            let answer = timeout(SECOND_TRY * 10, connections.oneshot(request)).await;
            assert!(answer.is_err(), "{answer:?}");
            server.forget();
        }
        // How long a command takes says nothing about the connections.
        assert_eq!(server.asked(), [1, 2, 3, 3]);
    }

    /// A seed that takes longer for each answer loses no connection, but the first ones.
    #[rstest]
    #[case::what_can_wait(false, UNANSWERED)]
    #[case::what_is_urgent(true, SECOND_TRY)]
    #[tokio::test(start_paused = true)]
    async fn a_slow_seed_keeps_its_connections(#[case] is_urgent: bool, #[case] limit: Duration) {
        let server = Server {
            delay: limit * 6 / 5,
            ..Server::default()
        };
        let connections = server.connections();
        let mut requests = Vec::new();
        for _ in 0..60 {
            let read = match is_urgent {
                true => connections.urgent().oneshot(request(Method::GET)),
                false => connections.clone().oneshot(request(Method::GET)),
            };
            requests.push(tokio::spawn(read));
            sleep(limit / 5).await;
        }
        for request in requests {
            request.await.unwrap().unwrap();
        }
        assert_eq!(connections.newest().1, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_that_is_not_answered_suffices_for_new_connections() {
        let server = Server::default();
        let connections = server.connections();
        server.forget();
        let write = connections.clone().oneshot(request(Method::PATCH));
        assert!(timeout(UNANSWERED * 2, write).await.is_err());
        for method in [Method::PATCH, Method::GET] {
            let answer = connections.clone().oneshot(request(method));
            let answer = timeout(UNANSWERED * 2, answer).await.unwrap();
            assert_eq!(*answer.unwrap().body(), 2);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_gives_up_a_connection_whose_way_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = tcp().oneshot(format!("https://{address}").parse().unwrap());
        let stream = stream.await.unwrap().into_inner();
        let stream = socket2::SockRef::from(&stream);
        assert_eq!(stream.tcp_user_timeout().unwrap(), Some(LOST));
        assert!(stream.keepalive().unwrap());
        assert_eq!(stream.tcp_keepalive_time().unwrap(), KEEPALIVE);
        assert_eq!(stream.tcp_keepalive_interval().unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(stream.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }
}
