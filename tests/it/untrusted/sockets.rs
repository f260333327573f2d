//! What comes over sockets: answers of HTTP from a shoot and of one who is checked, what the API server
//! tells of a command, and what is asked of the endpoints for metrics and health.

use std::{
    fmt::Display,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use dependency_watchdog::{
    checks::{CheckMetrics, outcome::Said},
    prober::instruments::Instruments,
    runtime::admin::{Admin, Endpoints},
    shoot::{Consistency, Dial, ReadError, Shoot, parse},
};
use futures::SinkExt as _;
use proptest::{prelude::*, sample::select};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    time::timeout,
};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    mutate::{changed, garbled, text},
    shoots::leases,
};
use crate::support::{
    Activity, Target, acceptor, api, authority, check, exit, gone, head, kubeconfig, once, runner,
};

/// Everything here is answered, or broken off, at once.
const LONG: Duration = Duration::from_secs(20);

/// What makes HTTP of text.
const HTTP: &[&str] = &[
    "",
    "\r\n",
    "\n",
    "\r\n\r\n",
    "\r",
    "\0",
    " ",
    ":",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200\r\n",
    "HTTP/2 200 OK\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "204",
    "304",
    "301",
    "429",
    "500",
    "503",
    "999",
    "Content-Length: 0\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Content-Encoding: gzip\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "0\r\n\r\n",
    "5\r\n",
    "ffffffffffffffff\r\n",
    "fffffffffffffffff\r\n",
    ";ext=1\r\n",
    "Location: /x\r\n",
    "Retry-After: 3\r\n",
    "Location: http://example.org/\r\n",
    "Location: //\r\n",
    "Retry-After: 99999999999999999999\r\n",
    "Retry-After: Fri, 20 Nov 2026 11:02:33 GMT\r\n",
    "Date: soon\r\n",
    "Connection: close\r\n",
    "Date: Fri, 20 Nov 2026 11:02:33 GMT\r\n",
    "Upgrade: websocket\r\n",
    "[-]etcd failed\n",
    "é",
    "\t",
];

fn answers() -> Vec<String> {
    let head = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nDate: Fri, 20 Nov 2026 11:02:33 \
             GMT\r\n"
        )
    };
    let body = leases().to_string();
    let status = json!({"kind": "Status", "message": "no", "code": 500}).to_string();
    let whole = |status: &str, body: &str| {
        format!(
            "{}Content-Length: {}\r\n\r\n{body}",
            head(status),
            body.len()
        )
    };
    let (begin, end) = body.split_at(100);
    vec![
        whole("200 OK", &body),
        whole("200 OK", r#"{"gitVersion": "v1.36.3"}"#),
        whole(
            "500 Internal Server Error",
            "[+]ping ok\n[-]etcd failed: reason withheld\n",
        ),
        whole("429 Too Many Requests\r\nRetry-After: 3", &status),
        whole("302 Found\r\nLocation: /other", ""),
        format!("{}\r\n{body}", head("200 OK")),
        format!(
            "{}Transfer-Encoding: chunked\r\n\r\n64\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\n\r\n",
            head("200 OK"),
            end.len()
        ),
    ]
}

type Answer = Arc<Mutex<Vec<u8>>>;

fn printable(told: &impl Display) -> bool {
    let told = told.to_string();
    told.chars().count() <= 700 && !told.chars().any(char::is_control)
}

/// A shoot that answers each request so, and ends the connection.
async fn shoot(answer: Answer) -> (Vec<u8>, AbortOnDropHandle<()>) {
    let ca = authority();
    let acceptor = acceptor(&ca);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                head(&mut stream).await;
                let answer = answer.lock().unwrap().clone();
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    let kubeconfig = kubeconfig(&url, &ca.pem(), &json!({"token": "t"}));
    (kubeconfig, AbortOnDropHandle::new(serving))
}

#[test]
fn any_answer_of_a_shoot_is_read_or_told() {
    let runtime = Runtime::new().unwrap();
    let answer = Answer::default();
    let (kubeconfig, _serving) = runtime.block_on(shoot(answer.clone()));
    let access = parse(&kubeconfig).unwrap();
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_answer_of_a_shoot_is_read_or_told",
        60,
        text(answers(), HTTP),
        |text| {
            *answer.lock().unwrap() = text.clone().into_bytes();
            let errors: Vec<ReadError> = runtime.block_on(async {
                let shoot = Shoot::connect(&access, &Dial::default()).unwrap();
                let leases = shoot.leases(Consistency::Cached, LONG).await.err();
                let version = shoot.version(LONG).await.err();
                let ready = shoot.readiness(LONG).await.err();
                [leases, version, ready].into_iter().flatten().collect()
            });
            for error in errors {
                prop_assert!(printable(&error), "{:?}", error);
                if let ReadError::TooManyRequests {
                    retry_after: Some(wait),
                    ..
                } = error
                {
                    prop_assert!((1..=30).contains(&wait.as_secs()), "{:?}", wait);
                }
            }
            Ok(())
        },
    );
}

#[test]
fn any_answer_to_a_check_is_a_result() {
    let runtime = Runtime::new().unwrap();
    let answer = Answer::default();
    let shared = answer.clone();
    let target = runtime.block_on(Target::start(&Activity::default(), move |mut stream| {
        let answer = shared.clone();
        async move {
            head(&mut stream).await;
            let answer = answer.lock().unwrap().clone();
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
            gone(&mut stream).await;
        }
    }));
    let action = json!({"service": "s", "port": target.address.port()});
    let check = check(json!({"httpGet": action, "timeoutSeconds": 20}));
    let runner = {
        let _in_runtime = runtime.enter();
        runner(None, "", CheckMetrics::default())
    };
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_answer_to_a_check_is_a_result",
        200,
        text(answers(), HTTP),
        |text| {
            *answer.lock().unwrap() = text.clone().into_bytes();
            let outcome = runtime.block_on(once(&runner, &check)).outcome;
            prop_assert!(printable(&outcome), "{}", outcome);
            // One that passes has answered, with a status that says so.
            let passed = outcome.said() == Said::Yes;
            let status = |it: &str| text.contains(&format!(" {it}"));
            prop_assert!(
                !passed || (200..400).any(|it| status(&it.to_string())),
                "{}",
                outcome
            );
            Ok(())
        },
    );
}

/// What is sent over a WebSocket.
#[derive(Clone, Debug)]
enum Sent {
    Message(u8, String),
    Text(String),
    Ping,
    Close,
    /// As it is, whatever frame that makes.
    Raw(Vec<u8>),
}

fn sent() -> impl Strategy<Value = Sent> {
    let status = changed(
        vec![
            exit(0),
            exit(7),
            json!({"status": "Failure", "message": "m"}),
        ],
        3,
    );
    prop_oneof![
        3 => (0..6u8, "\\PC{0,20}").prop_map(|(channel, text)| Sent::Message(channel, text)),
        3 => status.prop_map(|it| Sent::Message(3, it.text)),
        1 => "\\PC{0,20}".prop_map(Sent::Text),
        1 => select(vec![Sent::Ping, Sent::Close]),
        // Lengths of 2^63, reserved bits, a mask that servers do not use, a continuation of nothing.
        1 => select(vec![
            vec![0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            vec![0xf2, 1, 0], vec![0x82, 0x81, 1, 2, 3, 4, 5], vec![0x80, 0], vec![0x89, 126, 1, 0],
        ]).prop_map(Sent::Raw),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Sent::Raw),
    ]
}

#[test]
fn whatever_is_told_of_a_command_is_a_result() {
    let runtime = Runtime::new().unwrap();
    let script: Arc<Mutex<Vec<Sent>>> = Arc::default();
    let shared = script.clone();
    let pods = json!([{
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"},
    }]);
    let server = runtime.block_on(api(&Activity::default(), pods, move |_, mut socket| {
        let script = shared.lock().unwrap().clone();
        async move {
            for sent in script {
                let message = match sent {
                    Sent::Message(channel, text) => {
                        Message::Binary([&[channel], text.as_bytes()].concat().into())
                    }
                    Sent::Text(text) => Message::Text(text.into()),
                    Sent::Ping => Message::Ping(vec![0; 100].into()),
                    Sent::Close => Message::Close(Some(CloseFrame {
                        code: CloseCode::Away,
                        reason: "x".into(),
                    })),
                    Sent::Raw(bytes) => {
                        let _ = socket.get_mut().write_all(&bytes).await;
                        continue;
                    }
                };
                let _ = socket.send(message).await;
            }
            let _ = socket.get_mut().shutdown().await;
            gone(socket.get_mut()).await;
        }
    }));
    let action = json!({"podSelector": {"matchLabels": {"a": "b"}}, "command": ["x"]});
    let check = check(json!({"exec": action, "timeoutSeconds": 20}));
    let runner = {
        let _in_runtime = runtime.enter();
        runner(Some(&server), "", CheckMetrics::default())
    };
    crate::untrusted::fuzz::fuzz(
        file!(),
        "whatever_is_told_of_a_command_is_a_result",
        150,
        prop::collection::vec(sent(), 0..6),
        |sent| {
            *script.lock().unwrap() = sent.clone();
            let outcome = runtime.block_on(once(&runner, &check)).outcome;
            prop_assert!(printable(&outcome), "{}", outcome);
            let told = |words: &str| {
                sent.iter()
                    .any(|it| matches!(it, Sent::Message(3, text) if text.contains(words)))
            };
            // Neither a success nor a failure without a status that may have said so.
            let escaped = told("\\u");
            match outcome.said() {
                Said::Yes => prop_assert!(told("Success") || escaped, "{}", outcome),
                Said::No => prop_assert!(told("NonZeroExitCode") || escaped, "{}", outcome),
                Said::Nothing => {}
            }
            Ok(())
        },
    );
}

fn requests() -> Vec<String> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    vec![
        get("/metrics"),
        get("/healthz?verbose"),
        get("http://x/readyz"),
        get("/%2e%2e//metrics#\u{e9}"),
        "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        "GET /readyz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".to_owned(),
    ]
}

/// All that comes back; nothing more is sent, and one that is `over` says so.
async fn sent_back(to: SocketAddr, request: &[u8], over: bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // It may be closed before all of it was sent.
    let _ = stream.write_all(request).await;
    if over {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

#[test]
fn any_request_to_the_endpoints_is_answered_or_closed() {
    let runtime = Runtime::new().unwrap();
    let (instruments, registry) = Instruments::new();
    let endpoints = Endpoints {
        registry,
        liveness: instruments.common.liveness.clone(),
        checks: instruments.common.checks.clone(),
    };
    let here = "127.0.0.1:0".parse().unwrap();
    let admin = runtime
        .block_on(Admin::bind(&here, &here, endpoints))
        .unwrap();
    let address = admin.addresses()[0];
    let _serving = AbortOnDropHandle::new(runtime.spawn(admin.run(CancellationToken::new())));
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_request_to_the_endpoints_is_answered_or_closed",
        200,
        garbled(text(requests(), HTTP).prop_map(String::into_bytes)),
        |request| {
            let answer =
                runtime.block_on(async { timeout(LONG, sent_back(address, &request, true)).await });
            let answer = answer.expect("it is neither answered nor closed");
            let shown = String::from_utf8_lossy(&answer);
            prop_assert!(
                answer.is_empty() || shown.starts_with("HTTP/1."),
                "{}",
                shown
            );
            // One answer: what follows a request is not read as another.
            prop_assert!(shown.matches("HTTP/1.").count() <= 1, "{}", shown);
            let plain = runtime.block_on(sent_back(address, requests()[1].as_bytes(), false));
            prop_assert!(plain.starts_with(b"HTTP/1.1 200 OK"), "it serves others");
            Ok(())
        },
    );
}
