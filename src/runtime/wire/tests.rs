use std::{
    convert::Infallible,
    io,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
};

use fake::server;
use futures::{StreamExt as _, future::pending};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ListParams, WatchParams},
    core::PartialObjectMeta,
    runtime::watcher,
};
use rstest::rstest;
use tokio::{net::TcpListener, time::sleep};

use super::*;
use crate::{runtime::metrics::Registry, util::now::wall};

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
        self.asked.lock().clone()
    }

    fn wire(&self) -> Wire {
        let server = self.clone();
        let make = move || {
            let number = server.made.fetch_add(1, Ordering::Relaxed) + 1;
            let server = server.clone();
            service_fn(move |_: Request<Body>| {
                let server = server.clone();
                async move {
                    server.asked.lock().push(number);
                    sleep(server.delay).await;
                    if number <= server.dead.load(Ordering::Relaxed) {
                        pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
                }
            })
        };
        Wire::over(make, &RequestMetrics::default())
    }
}

fn request(method: Method, path: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap();
    request
}

fn get() -> Request<Body> {
    request(Method::GET, "/apis/g/v1/namespaces/n/things/a")
}

fn patch() -> Request<Body> {
    request(Method::PATCH, "/apis/g/v1/namespaces/n/things/a")
}

#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_over_a_new_connection_which_is_kept() {
    let server = Server::default();
    let client = server.wire().client(Access::All);
    client.send(get()).await.unwrap();
    server.forget();
    let began = Instant::now();
    // Several at once make new ones once.
    let (one, other) = tokio::join!(client.send(get()), client.send(get()));
    assert!(one.is_ok() && other.is_ok());
    // What is written next goes over what has answered.
    client.send(patch()).await.unwrap();
    assert_eq!(server.asked(), [1, 1, 1, 2, 2, 2]);
    assert_eq!(began.elapsed(), SECOND_TRY);
}

/// The first goes on meanwhile, and may be the one that is answered.
#[tokio::test(start_paused = true)]
async fn a_seed_that_is_slow_is_waited_for() {
    let delay = SECOND_TRY * 3 / 2;
    let server = Server {
        delay,
        ..Server::default()
    };
    let began = Instant::now();
    server.wire().client(Access::All).send(get()).await.unwrap();
    assert_eq!((began.elapsed(), server.asked()), (delay, vec![1, 2]));
}

/// Objects that hold back what is done are watched: a policy that is suspended, a Cluster that is deleted.
#[tokio::test(start_paused = true)]
async fn small_reads_and_watches_are_sent_twice_and_nothing_else() {
    let server = Server::default();
    let client = server.wire().client(Access::All);
    let api = Api::<PartialObjectMeta<ConfigMap>>::all(client.clone());
    let within = Api::<ConfigMap>::namespaced(client.clone(), "n");
    let list = ListParams::default();
    let asked = async |request: &mut (dyn Future<Output = ()> + Send + Unpin)| {
        server.forget();
        let before = server.asked().len();
        let _ = timeout(SECOND_TRY * 3 / 2, request).await;
        server.asked().len() - before
    };
    macro_rules! asked {
        ($request:expr) => {
            asked(&mut Box::pin(async { drop($request.await) })).await
        };
    }
    assert_eq!(asked!(within.get("a")), 2);
    assert_eq!(asked!(within.list(&list)), 2);
    assert_eq!(asked!(api.list_metadata(&list)), 2);
    assert_eq!(asked!(api.watch(&WatchParams::default(), "0")), 2);
    assert_eq!(asked!(api.list(&list)), 1);
    assert_eq!(asked!(client.send(patch())), 1);
    let mut command = get();
    command
        .headers_mut()
        .insert(UPGRADE, "websocket".parse().unwrap());
    assert_eq!(asked!(client.send(command)), 1);
}

/// A seed that takes longer for each answer loses no connection, but the first ones.
#[rstest]
#[case::what_is_written(patch, UNANSWERED)]
#[case::what_is_read(get, SECOND_TRY)]
#[tokio::test(start_paused = true)]
async fn a_slow_seed_keeps_its_connections(
    #[case] request: fn() -> Request<Body>,
    #[case] limit: Duration,
) {
    let delay = limit * 6 / 5;
    let server = Server {
        delay,
        ..Server::default()
    };
    let wire = server.wire();
    let mut requests = Vec::new();
    for _ in 0..60 {
        let client = wire.client(Access::All);
        requests.push(tokio::spawn(async move { client.send(request()).await }));
        sleep(limit / 5).await;
    }
    for request in requests {
        request.await.unwrap().unwrap();
    }
    assert_eq!(wire.newest.lock().number, 1);
}

#[tokio::test(start_paused = true)]
async fn one_write_that_is_not_answered_suffices_for_new_connections() {
    let server = Server::default();
    let client = server.wire().client(Access::All);
    server.forget();
    assert!(timeout(UNANSWERED * 2, client.send(patch())).await.is_err());
    client.send(patch()).await.unwrap();
    assert_eq!(server.asked(), [1, 2]);
}

#[tokio::test]
async fn a_client_for_reads_sends_nothing_else() {
    let server = Server::default();
    let client = server.wire().client(Access::Reads);
    client.send(get()).await.unwrap();
    let mut command = get();
    command
        .headers_mut()
        .insert(UPGRADE, "websocket".parse().unwrap());
    let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let writes = writes.map(|method| request(method, get().uri().path()));
    for request in writes.into_iter().chain([command]) {
        let words = format!("{} {} was not sent", request.method(), request.uri().path());
        let refused = client.send(request).await.unwrap_err();
        assert!(with_causes(&refused).contains(&words), "{refused}");
    }
    assert_eq!(server.asked(), [1]);
}

/// An answer, and an event of a watch, of more than there can be.
#[tokio::test]
async fn an_endless_answer_is_given_up_and_an_endless_watch_is_not() {
    let event = serde_json::json!({"type": "ADDED", "object": {
        "metadata": {"name": "a", "annotations": {"long": "x".repeat(1 << 20)}},
    }});
    let event = Bytes::from(format!("{event}\n"));
    let many = 2 * MAX_ANSWER_BYTES / event.len();
    let service = service_fn(move |_: Request<Body>| {
        let frames = futures::stream::repeat(event.clone()).map(Frame::data);
        let frames = StreamBody::new(frames.map(Ok::<_, Infallible>));
        async { Ok::<_, Infallible>(Response::new(frames)) }
    });
    let wire = Wire::over(move || service.clone(), &RequestMetrics::default());
    let api: Api<ConfigMap> = Api::all(wire.client(Access::All));
    let error = api.list(&ListParams::default()).await.unwrap_err();
    let told = with_causes(&error);
    assert!(told.contains("larger than 67108864 bytes"), "{told}");
    let events = api.watch(&WatchParams::default(), "0").await.unwrap();
    assert_eq!(
        events
            .take(many)
            .filter(|it| std::future::ready(it.is_ok()))
            .count()
            .await,
        many
    );
}

/// In good order, so that nothing has failed.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_asked_for_again_with_a_pause() {
    let (server, asked) = (server::Server::new(wall), Arc::<AtomicU64>::default());
    let (seed, count) = (server.connect(), asked.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (server, seed, count) = (server.clone(), seed.clone(), count.clone());
        async move {
            // Without a pause, so many are asked for in a moment.
            if count.fetch_add(1, Ordering::Relaxed) > 100 {
                pending::<()>().await;
            }
            let answer = seed.call(request.map(|_| Bytes::new())).await;
            server.end_watches("namespaces");
            answer
        }
    });
    let wire = Wire::over(move || service.clone(), &RequestMetrics::default());
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(wire.client(Access::Reads));
    let events = watcher(api, watcher::Config::default()).for_each(|_| std::future::ready(()));
    assert!(timeout(SHORTEST_WATCH * 10, events).await.is_err());
    let asked = asked.load(Ordering::Relaxed);
    assert!((10..=12).contains(&asked), "{asked}");
}

/// Of which kube knows by hyper's words that it was cut, and takes that for an end in good order.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_between_two_chunks_has_failed() {
    let service = service_fn(|_: Request<Body>| async {
        let words = "unexpected EOF during chunk size line";
        let cut = io::Error::new(io::ErrorKind::UnexpectedEof, words);
        let frames = stream::iter([Err::<Frame<Bytes>, _>(cut)]);
        Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
    });
    let wire = Wire::over(move || service, &RequestMetrics::default());
    let api: Api<Namespace> = Api::all(wire.client(Access::Reads));
    let events = api.watch(&WatchParams::default(), "7").await.unwrap();
    let first = pin!(events).next().await;
    assert!(matches!(first, Some(Err(_))), "{first:?}");
}

/// By kube's names, and by methods where it has none.
#[tokio::test(start_paused = true)]
async fn every_end_of_a_request_is_counted() {
    let service = service_fn(|request: Request<Body>| async move {
        match request.uri().path() {
            "/late" => sleep(Duration::MAX).await,
            "/slow" => sleep(Duration::from_secs(2)).await,
            "/broken" => return Err("connection reset"),
            _ => {}
        }
        let answer = Response::builder().status(418).body(Body::empty());
        Ok::<_, &str>(answer.unwrap())
    });
    let metrics = RequestMetrics::default();
    let client = Wire::over(move || service, &metrics).client(Access::All);
    let api: Api<ConfigMap> = Api::all(client.clone());
    let _ = api.list_metadata(&ListParams::default()).await;
    for path in ["/slow", "/broken", "/late"] {
        let asked = client.send(request(Method::GET, path)).await;
        assert_eq!(asked.is_ok(), path == "/slow");
    }
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let text = crate::runtime::metrics::text(&registry);
    for line in [
        r#"api_requests_total{verb="list",code="418"} 1"#,
        r#"api_requests_total{verb="get",code="418"} 1"#,
        r#"api_requests_total{verb="get",code="error"} 2"#,
        r#"api_request_duration_seconds_sum{verb="get"} 32.0"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A run may take seconds.
#[tokio::test]
async fn a_login_plugin_runs_as_often_whatever_the_number_of_clients() {
    let runs = std::env::temp_dir().join(format!("seed-plugin-{}", std::process::id()));
    let signed = rcgen::generate_simple_self_signed(vec!["seed".to_owned()]).unwrap();
    let certificate = serde_json::json!({
        "clientCertificateData": signed.cert.pem(),
        "clientKeyData": signed.signing_key.serialize_pem(),
    });
    for (status, expected) in [(serde_json::json!({"token": "t"}), 1), (certificate, 2)] {
        std::fs::write(&runs, "").unwrap();
        let api = "client.authentication.k8s.io/v1";
        let credential =
            serde_json::json!({"kind": "ExecCredential", "apiVersion": api, "status": status});
        let script = "echo >> \"$0\"; printf %s \"$1\"";
        let mut config = Config::new("https://seed.invalid".parse().unwrap());
        config.auth_info = serde_json::from_value(serde_json::json!({"exec": {
            "apiVersion": api, "command": "sh", "interactiveMode": "Never",
            "args": ["-c", script, runs, credential.to_string()],
        }}))
        .unwrap();
        let wire = Wire::new(config, &RequestMetrics::default()).unwrap();
        let (_all, _reads) = (wire.client(Access::All), wire.client(Access::Reads));
        let count = std::fs::read(&runs).unwrap().len();
        assert_eq!(count, expected, "{status}");
    }
    std::fs::remove_file(&runs).unwrap();
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
