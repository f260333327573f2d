//! What comes over sockets: answers of HTTP from a shoot and of one who is checked, and what the API
//! server tells of a command.

use std::{
    fmt::Display,
    sync::{Arc, Mutex},
    time::Duration,
};

use dependency_watchdog::{
    api::DependentRef,
    checks::{CheckMetrics, outcome::Said},
    prober::{
        plan::{Record, parse_bool},
        scale::{Resources, Scaler},
    },
    runtime::seed::Seed,
    shoot::{Consistency, ReadError, Shoot, parse},
};
use futures::SinkExt as _;
use kube::{Client, Config};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, runtime::Runtime};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    mutate::{changed, text},
    shoots::leases,
    support::{
        Activity, Target, acceptor, api, authority, check, exit, gone, head, kubeconfig, runner,
    },
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
    crate::fuzz::fuzz(
        file!(),
        "any_answer_of_a_shoot_is_read_or_told",
        60,
        text(answers(), HTTP),
        |text| {
            *answer.lock().unwrap() = text.clone().into_bytes();
            let errors: Vec<ReadError> = runtime.block_on(async {
                let shoot = Shoot::connect(&access).unwrap();
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
    let action = json!({"host": "127.0.0.1", "port": target.address.port()});
    let check = check(json!({"httpGet": action, "timeoutSeconds": 20}));
    let runner = {
        let _in_runtime = runtime.enter();
        runner(None, "", CheckMetrics::default())
    };
    crate::fuzz::fuzz(
        file!(),
        "any_answer_to_a_check_is_a_result",
        200,
        text(answers(), HTTP),
        |text| {
            *answer.lock().unwrap() = text.clone().into_bytes();
            let outcome = runtime.block_on(runner.run("shoot--a--b", &check)).outcome;
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
    crate::fuzz::fuzz(
        file!(),
        "whatever_is_told_of_a_command_is_a_result",
        150,
        prop::collection::vec(sent(), 0..6),
        |sent| {
            *script.lock().unwrap() = sent.clone();
            let outcome = runtime.block_on(runner.run("shoot--a--b", &check)).outcome;
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

fn deployments() -> Vec<Value> {
    let mark = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
    let deployment = |replicas: i32, annotations: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "kcm", "namespace": "shoot--a--b", "uid": "u", "resourceVersion": "7",
                "generation": 3, "annotations": annotations,
            },
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"observedGeneration": 3, "replicas": replicas, "readyReplicas": replicas},
        })
    };
    let taken = json!({mark: "", "dependency-watchdog.gardener.cloud/replicas": "3"});
    let ignored = json!({"dependency-watchdog.gardener.cloud/ignore-scaling": "T"});
    vec![
        deployment(3, json!({})),
        deployment(0, taken),
        deployment(1, ignored),
    ]
}

/// What is read of a dependent is what stands there: another number would be recorded, and restored.
#[test]
fn whatever_a_dependent_says_is_read_as_it_stands_or_told() {
    let runtime = Runtime::new().unwrap();
    let answer: Arc<Mutex<String>> = Arc::default();
    let shared = answer.clone();
    let server = runtime.block_on(Target::start(&Activity::default(), move |mut stream| {
        let answer = shared.clone();
        async move {
            loop {
                if head(&mut stream).await.is_empty() {
                    return;
                }
                let body = answer.lock().unwrap().clone();
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    }));
    let scaler = {
        let _in_runtime = runtime.enter();
        let mut config = Config::new(format!("http://{}", server.address).parse().unwrap());
        config.default_retry = false;
        let seed = Seed::unlimited(Client::try_from(config).unwrap());
        Scaler::new(seed, "shoot--a--b".into(), Resources::default())
    };
    let dependent = DependentRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: "kcm".to_owned(),
    };
    crate::fuzz::fuzz(
        file!(),
        "whatever_a_dependent_says_is_read_as_it_stands_or_told",
        200,
        changed(deployments(), 3),
        |changed| {
            answer.lock().unwrap().clone_from(&changed.text);
            let read = runtime.block_on(scaler.read(&dependent));
            let observed = match read {
                Ok(observed) => observed.expect("there is one"),
                Err(error) => {
                    prop_assert!(error.to_string().chars().count() < 2_000, "{}", error);
                    return Ok(());
                }
            };
            // What is passed over may be a number that is too large.
            let Ok(stands) = serde_json::from_str::<Value>(&changed.text) else {
                return Ok(());
            };
            if changed.repeats {
                return Ok(());
            }
            let replicas = match &stands["spec"]["replicas"] {
                Value::Null => Some(1),
                number => number.as_i64(),
            };
            prop_assert_eq!(Some(i64::from(observed.replicas)), replicas);
            let annotation = |name: &str| {
                let name = format!("dependency-watchdog.gardener.cloud/{name}");
                stands["metadata"]["annotations"][name]
                    .as_str()
                    .map(str::to_owned)
            };
            let marked = annotation("meltdown-protection-active").is_some();
            prop_assert_eq!(observed.marked, marked);
            prop_assert_eq!(
                observed.record,
                Record::parse(annotation("replicas").as_deref())
            );
            let ignored = annotation("ignore-scaling").and_then(|text| parse_bool(&text));
            prop_assert_eq!(observed.ignored, ignored.unwrap_or(false));
            Ok(())
        },
    );
}
