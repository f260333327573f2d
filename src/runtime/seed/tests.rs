use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    num::NonZeroU32,
    sync::Mutex,
};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use rstest::rstest;
use tokio::time::{Instant, sleep};

use super::{error::refusal, *};
use crate::runtime::{
    metrics::RequestMetrics,
    wire::{Access, Wire},
};

/// A seed that answers after this long.
fn answers_after(delay: Duration) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        sleep(delay).await;
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
    });
    Client::new(service, "default")
}

async fn ask(seed: &Seed) -> Result<serde_json::Value, CallError> {
    let request = Request::get("/").body(Vec::new()).unwrap();
    seed.call(seed.client().request(request)).await
}

/// A seed that answers at once, within these budgets.
fn within(acting: Rate, reporting: Rate) -> Seed {
    let metrics = RequestMetrics::default();
    Seed::within(answers_after(Duration::ZERO), acting, reporting, &metrics)
}

fn rate(qps: f64, burst: u32) -> Rate {
    let burst = NonZeroU32::new(burst).unwrap();
    Rate { qps, burst }
}

/// Whoever gives up leaves no trace, and what is reported does not delay what is done.
#[tokio::test(start_paused = true)]
async fn turns_come_as_they_were_asked_for_within_each_budget() {
    let seed = within(rate(10.0, 2), rate(1.0, 1));
    let began = Instant::now();
    let served = Mutex::new(Vec::new());
    let call = async |seed: &Seed, name: &'static str| {
        let request = async {
            let entry = (name, began.elapsed().as_millis());
            served.lock().unwrap().push(entry);
            Ok(())
        };
        seed.call(request).await.unwrap();
    };
    let acting = seed.acting();
    let impatient = timeout(Duration::from_millis(500), call(&seed, "gives up"));
    tokio::join!(
        call(&seed, "1st status"),
        async { assert!(impatient.await.is_err()) },
        call(&seed, "2nd status"),
        call(&acting, "1st scale"),
        call(&acting, "2nd scale"),
        call(&acting, "3rd scale"),
    );
    let expected = [
        ("1st status", 0),
        ("1st scale", 0),
        ("2nd scale", 0),
        ("3rd scale", 100),
        ("2nd status", 1_000),
    ];
    assert_eq!(*served.lock().unwrap(), expected);
}

/// A client of what listens there, by a kubeconfig of its own.
async fn client_of(listener: &TcpListener, test: &str) -> Client {
    let kubeconfig = serde_json::json!({
        "current-context": "seed",
        "contexts": [{"name": "seed", "context": {"cluster": "seed", "user": "seed"}}],
        "clusters": [{"name": "seed", "cluster": {
            "server": format!("http://{}", listener.local_addr().unwrap()),
        }}],
        "users": [{"name": "seed", "user": {"token": "t"}}],
    });
    let path = std::env::temp_dir().join(format!("seed-{test}-{}", std::process::id()));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let config = config(Some(&path)).await;
    std::fs::remove_file(&path).unwrap();
    let wire = Wire::new(config.unwrap(), &RequestMetrics::default());
    wire.unwrap().client(Access::All)
}

#[tokio::test]
async fn a_list_that_does_not_go_on_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client_of(&listener, "stuck").await;
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            .unwrap();
        stream
    });
    let request = Request::get("/").body(Vec::new()).unwrap();
    let mut body = client
        .send(request.map(Into::into))
        .await
        .unwrap()
        .into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "{");
    tokio::time::pause();
    let silent = Instant::now();
    assert!(body.frame().await.unwrap().is_err());
    let after = silent.elapsed();
    assert!(SILENCE / 2 < after && after < SILENCE * 2, "{after:?}");
    drop(server);
}

#[tokio::test]
async fn a_failure_tells_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client_of(&listener, "refused").await;
    drop(listener);
    let error = ask(&Seed::unlimited(client)).await.unwrap_err().to_string();
    assert!(error.contains("Connection refused"), "{error}");
    assert_eq!(error.matches("Connect)").count(), 1, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_given_up() {
    let seed = Seed::unlimited(answers_after(Duration::MAX));
    let asked = Instant::now();
    assert!(matches!(ask(&seed).await, Err(CallError::Late)));
    assert_eq!(asked.elapsed(), REQUEST_LIMIT);
}

/// Neither when a client is made, nor when a token is to be renewed.
#[rstest]
#[case::it_fails("echo s3cret; echo s3cret >&2; exit 3", "ended with exit status: 3")]
#[case::it_prints_something("echo 's3cret: [s3cret'", "printed something else")]
#[tokio::test]
async fn what_a_command_prints_to_log_in_is_not_told(#[case] script: &str, #[case] why: &str) {
    let kubeconfig = serde_json::json!({
        "current-context": "seed",
        "contexts": [{"name": "seed", "context": {"cluster": "seed", "user": "seed"}}],
        "clusters": [{"name": "seed", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "seed", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", script],
            "env": [{"name": "TOKEN", "value": "s3cret"}],
            "interactiveMode": "Never",
        }}}],
    });
    let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let failed = Wire::new(config.unwrap(), &RequestMetrics::default()).err();
    let Some(kube::Error::Auth(renewed)) = failed else {
        panic!("{failed:?}");
    };
    let told = with_causes(&kube::Error::Service(Box::new(renewed)));
    assert!(told.contains(why) && !told.contains("s3cret"), "{told}");
}

/// More rights do not help if a webhook denied it, or something that is no API server.
#[rstest]
#[case::rights(
    "deployments.apps \"a\" is forbidden: User \"u\" cannot patch",
    "Forbidden",
    true
)]
#[case::webhook("admission webhook \"w\" denied the request: no", "Forbidden", false)]
#[case::something_else("<html>no</html>", "Failed to parse error data", false)]
fn rights_are_to_be_granted_only_if_that_helps(
    #[case] message: &str,
    #[case] reason: &str,
    #[case] expected: bool,
) {
    let status = kube::core::Status::failure(message, reason).with_code(403);
    let told = refusal(&status);
    assert!(told.contains(message), "{told}");
    assert_eq!(told.contains("grant it"), expected, "{told}");
}

#[test]
fn a_refusal_is_a_line_that_ends() {
    let mut status = kube::core::Status::failure("no\n\u{1b}[31mway", "Forbidden");
    status.code = 409;
    assert_eq!(refusal(&status), "no [31mway (409)");
    status.message = "<html>".repeat(10_000_000);
    assert!(refusal(&status).chars().count() < MAX_REFUSAL + 10);
    let quoted = serde_json::from_str::<i32>(&format!("\"{}\"", "x".repeat(10_000)));
    let error = kube::Error::SerdeError(quoted.unwrap_err());
    assert_eq!(with_causes(&error).chars().count(), MAX_REFUSAL);
}

#[tokio::test]
async fn any_budget_can_be_had() {
    for qps in [
        0.0,
        f64::MIN_POSITIVE,
        LEAST_QPS,
        5.0,
        MOST_QPS,
        f64::INFINITY,
    ] {
        let seed = within(rate(qps, 1), rate(qps, 1));
        ask(&seed).await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_parsed_is_not_quoted() {
    let path = std::env::temp_dir().join(format!("kubeconfig-odd-{}", std::process::id()));
    for text in ["users:\n- user: {token: hush\n", "users: hush", "hush"] {
        std::fs::write(&path, text).unwrap();
        let error = config(Some(&path)).await.unwrap_err();
        let begin = format!("the kubeconfig {} cannot be read at line", path.display());
        assert!(
            error.starts_with(&begin) && !error.contains("hush"),
            "{error}"
        );
    }
    std::fs::remove_file(&path).unwrap();
    let error = config(Some(&path)).await.unwrap_err();
    assert!(error.contains("No such file"), "{error}");
}
