//! Servers that keep whoever asks them waiting, each in its way, and checks that ask them.

use std::time::Duration;

use dependency_watchdog::{
    api::HealthCheck,
    checks::{CheckMetrics, Outcome, Runner},
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    time::sleep,
};

use super::{
    clock::Activity,
    target::{Target, api, check, gone, head, runner},
};

const SECOND: Duration = Duration::from_secs(1);

/// How a server keeps those waiting who ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalls {
    /// It takes no connection.
    Backlog,
    /// It takes a connection, and answers nothing.
    Silent,
    /// It sends a byte of the body a second, and comes to no end.
    Body,
    /// The API server does not let the command begin.
    Upgrade,
    /// The command does not end.
    Command,
}

/// Who stalls, and the check that finds out.
pub struct Case {
    /// Has a timeout of three seconds.
    pub check: HealthCheck,
    pub runner: Runner,
    _target: Option<Target>,
    _connections: Vec<TcpStream>,
}

/// The list of the pod in which commands are run.
fn one_pod() -> Value {
    json!([{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}}])
}

async fn drip(mut stream: TcpStream) {
    head(&mut stream).await;
    let (mut read, mut write) = stream.split();
    let dripping = async {
        let start = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
        let _ = write.write_all(start).await;
        while write.write_all(b"x").await.is_ok() {
            sleep(SECOND).await;
        }
    };
    tokio::select! {
        () = gone(&mut read) => {}
        () = dripping => {}
    }
}

impl Case {
    pub async fn new(
        stalls: Stalls,
        activity: &Activity,
        gates: &str,
        metrics: CheckMetrics,
    ) -> Self {
        let mut connections = Vec::new();
        let target = match stalls {
            Stalls::Backlog => {
                let socket = TcpSocket::new_v4().unwrap();
                socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let listener = socket.listen(1).unwrap();
                let address = listener.local_addr().unwrap();
                // One more than fits, and those who come now are not heard.
                for _ in 0..2 {
                    connections.push(TcpStream::connect(address).await.unwrap());
                }
                let check = check(json!({
                    "tcpSocket": {"service": "s", "port": address.port()}, "timeoutSeconds": 3,
                }));
                // It listens for as long as the test lasts.
                std::mem::forget(listener);
                return Self {
                    check,
                    runner: runner(None, gates, metrics),
                    _target: None,
                    _connections: connections,
                };
            }
            Stalls::Silent => {
                Target::start(
                    activity,
                    |mut stream| async move { gone(&mut stream).await },
                )
                .await
            }
            Stalls::Body => Target::start(activity, drip).await,
            Stalls::Upgrade => {
                // It lists pods, and nothing else.
                let listed = json!({"items": one_pod()}).to_string();
                Target::start(activity, move |mut stream| {
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{listed}",
                        listed.len()
                    );
                    async move {
                        while !head(&mut stream).await.contains("/exec?") {
                            if stream.write_all(answer.as_bytes()).await.is_err() {
                                return;
                            }
                        }
                        gone(&mut stream).await;
                    }
                })
                .await
            }
            Stalls::Command => {
                api(activity, one_pod(), |_, mut socket| async move {
                    while socket.next().await.is_some_and(|it| it.is_ok()) {}
                })
                .await
            }
        };
        let port = target.address.port();
        let action = match stalls {
            Stalls::Upgrade | Stalls::Command => {
                json!({"exec": {"podSelector": {"matchLabels": {"a": "b"}}, "command": ["x"]}})
            }
            _ => json!({"httpGet": {"service": "s", "port": port}}),
        };
        let mut check = check(action);
        check.timeout_seconds = 3;
        Self {
            check,
            runner: runner(Some(&target), gates, metrics),
            _target: Some(target),
            _connections: connections,
        }
    }
}

/// What comes of a command that the API server does not let begin.
pub fn not_taken() -> Outcome {
    let why = "the seed did not answer within 10s";
    Outcome::Unknown(format!(
        "the command could not be run in container c of pod p: {why}"
    ))
}
