//! A run of a check ends when its timeout says so, whatever the other side does, and leaves nothing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::{fs, pin::pin, time::Duration};

use dependency_watchdog::{
    api::HealthCheck,
    checks::{CheckMetrics, Outcome, Run, Runner, outcome::Said},
    runtime::metrics::{ProbeMetrics, Registry},
};
use futures::{SinkExt as _, StreamExt as _, future::join_all};
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Activity, Clock, Exposition, Target, api, check, ended, exit, gone, head, run, runner,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    runtime::Handle,
    time::{Instant, sleep},
};
use tokio_tungstenite::tungstenite::Message;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(3);

/// How a server keeps those waiting who ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stalls {
    /// It takes no connection.
    Backlog,
    /// It takes a connection, and answers nothing.
    Silent,
    /// The same, to somebody who begins with TLS.
    Handshake,
    /// It sends a byte of the head a second, and comes to no end.
    Head,
    /// It sends a byte of the body a second, and comes to no end.
    Body,
    /// It redirects, a second later each time, to itself.
    Redirects,
    /// The API server does not let the command begin.
    Upgrade,
    /// The command does not end.
    Command,
    /// Its output does not end.
    Output,
}

/// Who stalls, and the check that finds out.
struct Case {
    check: HealthCheck,
    runner: Runner,
    _target: Option<Target>,
    _connections: Vec<TcpStream>,
}

fn pods() -> Value {
    json!([{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running"}}])
}

async fn drip(mut stream: TcpStream, start: &'static str) {
    head(&mut stream).await;
    let (mut read, mut write) = stream.split();
    let dripping = async {
        let _ = write.write_all(start.as_bytes()).await;
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
    async fn new(stalls: Stalls, activity: &Activity, gates: &str, metrics: CheckMetrics) -> Self {
        let endless = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n";
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
                    "tcpSocket": {"host": "127.0.0.1", "port": address.port()}, "timeoutSeconds": 3,
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
            Stalls::Silent | Stalls::Handshake => {
                Target::start(
                    activity,
                    |mut stream| async move { gone(&mut stream).await },
                )
                .await
            }
            Stalls::Head => Target::start(activity, move |stream| drip(stream, endless)).await,
            Stalls::Body => {
                let start = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
                Target::start(activity, move |stream| drip(stream, start)).await
            }
            Stalls::Redirects => {
                let noted = activity.clone();
                Target::start(activity, move |stream| {
                    let activity = noted.clone();
                    async move {
                        sleep(SECOND).await;
                        activity.note();
                        let answer = |_: &str| {
                            "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
                                .to_owned()
                        };
                        support::http(stream, answer).await;
                    }
                })
                .await
            }
            Stalls::Upgrade => {
                // It lists pods, and nothing else.
                let listed = json!({"items": pods()}).to_string();
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
                api(activity, pods(), |_, mut socket| async move {
                    while socket.next().await.is_some_and(|it| it.is_ok()) {}
                })
                .await
            }
            Stalls::Output => {
                api(activity, pods(), |_, mut socket| async move {
                    let line = [b"\x01", "y\n".repeat(2000).as_bytes()].concat();
                    let line = Message::Binary(line.into());
                    while socket.send(line.clone()).await.is_ok() {}
                })
                .await
            }
        };
        let port = target.address.port();
        let action = match stalls {
            Stalls::Upgrade | Stalls::Command | Stalls::Output => {
                json!({"exec": {"podSelector": {"matchLabels": {"a": "b"}}, "command": ["x"]}})
            }
            Stalls::Handshake => {
                json!({"httpGet": {"host": "127.0.0.1", "port": port, "scheme": "HTTPS"}})
            }
            _ => json!({"httpGet": {"host": "127.0.0.1", "port": port}}),
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

#[rstest]
fn a_run_that_does_not_end_fails_at_its_timeout(
    #[values(
        Stalls::Backlog,
        Stalls::Silent,
        Stalls::Handshake,
        Stalls::Head,
        Stalls::Body,
        Stalls::Redirects,
        Stalls::Command,
        Stalls::Output
    )]
    stalls: Stalls,
) {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(stalls, &activity, "", CheckMetrics::default()).await;
        let mut ran = pin!(case.runner.run("shoot--a", &case.check));
        // Timers have a resolution of a millisecond.
        tokio::select! {
            biased;
            ran = &mut ran => panic!("too early: {ran:?}"),
            () = clock.pass(LIMIT - MILLISECOND) => {}
        }
        let ran = tokio::select! {
            biased;
            ran = &mut ran => ran,
            () = clock.pass(2 * MILLISECOND) => panic!("too late"),
        };
        assert_eq!(ran.outcome, Outcome::Timeout(LIMIT));
    });
}

/// That the API server of the seed does not take a command says nothing of the container.
#[rstest]
fn a_command_that_does_not_begin_tells_nothing(
    #[values("", "ExecProbeTimeout=false")] gates: &'static str,
) {
    run(async move {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(Stalls::Upgrade, &activity, gates, CheckMetrics::default()).await;
        let begun = Instant::now();
        let ran = case.runner.run("shoot--a", &case.check);
        let outcome = clock.end_of("the run ends", ran).await.outcome;
        assert_eq!(outcome, not_taken());
        let took = begun.elapsed();
        assert!((10 * SECOND..11 * SECOND).contains(&took), "{took:?}");
    });
}

fn not_taken() -> Outcome {
    let why = "the seed did not answer within 10s";
    Outcome::Unknown(format!(
        "the command could not be run in container c of pod p: {why}"
    ))
}

/// What is late since nobody was there to see its end says nothing of the other side, and is not
/// counted as tolerated either.
#[rstest]
fn a_prober_that_stood_still_tells_nothing(
    #[values(Stalls::Silent, Stalls::Command)] stalls: Stalls,
    #[values("", "ExecProbeTimeout=false")] gates: &'static str,
    #[values(1, 2)] late: u32,
) {
    run(async move {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let probes = ProbeMetrics::default();
        let metrics = CheckMetrics::new(probes.clone());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let case = Case::new(stalls, &activity, gates, metrics).await;
        let mut ran = pin!(case.runner.run("shoot--a", &case.check));
        tokio::select! {
            biased;
            ran = &mut ran => panic!("too early: {ran:?}"),
            () = clock.pass(LIMIT - SECOND) => {}
        }
        // Nothing is done meanwhile, as in a process that is frozen.
        tokio::time::advance((1 + late) * SECOND).await;
        let outcome = ran.await.outcome;
        // A tenth and a second are allowed for.
        assert_eq!(outcome.said() == Said::Nothing, late > 1, "{outcome}");
        let tolerated = matches!(outcome, Outcome::Tolerated(_));
        let text = registry.render().unwrap();
        let counted = Exposition::parse(&text)
            .value("dependency_watchdog_exec_timeouts_tolerated_total", &[]);
        assert_eq!(counted, f64::from(u8::from(tolerated)));
    });
}

/// Commands alone, and what is tolerated is counted.
#[rstest]
#[case::on("", Outcome::Timeout(LIMIT), 0.0)]
#[case::off("ExecProbeTimeout=false", Outcome::Tolerated(LIMIT), 1.0)]
#[case::on_again("ExecProbeTimeout=true", Outcome::Timeout(LIMIT), 0.0)]
fn the_gate_is_about_commands(
    #[case] gates: &'static str,
    #[case] expected: Outcome,
    #[case] counted: f64,
) {
    run(async move {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let probes = ProbeMetrics::default();
        let metrics = CheckMetrics::new(probes.clone());
        let mut registry = Registry::default();
        probes.register(&mut registry);
        metrics.register(&mut registry);
        for (stalls, expected) in [
            (Stalls::Command, expected),
            (Stalls::Silent, Outcome::Timeout(LIMIT)),
        ] {
            let case = Case::new(stalls, &activity, gates, metrics.clone()).await;
            let ran = case.runner.run("shoot--a", &case.check);
            let outcome = clock.end_of("the run ends", ran).await.outcome;
            assert_eq!(outcome, expected, "{stalls:?}");
        }
        let text = registry.render().unwrap();
        let shown = Exposition::parse(&text);
        let value = |name: &str, labels: &[(&str, &str)]| {
            shown.value(&format!("dependency_watchdog_{name}"), labels)
        };
        assert_eq!(value("exec_timeouts_tolerated_total", &[]), counted);
        for kind in ["exec", "httpGet"] {
            let labels = [("type", kind), ("result", "timeout")];
            assert_eq!(value("probe_duration_seconds_count", &labels), 1.0);
            let took = value("probe_duration_seconds_sum", &labels);
            assert!((3.0..3.5).contains(&took), "{took}");
            assert_eq!(value("probes_past_timeout_total", &[("type", kind)]), 0.0);
        }
        assert_eq!(value("checks_in_flight", &[]), 0.0);
        assert_eq!(value("checks_waiting", &[]), 0.0);
    });
}

/// Files that this process has open.
fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes that this process has in memory.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Ten thousand, however they stall: no connection, task or memory is left.
#[test]
fn runs_that_are_late_leave_nothing() {
    const TOGETHER: usize = 200;
    const ROUNDS: [(Stalls, usize); 7] = [
        (Stalls::Silent, 12),
        (Stalls::Handshake, 6),
        (Stalls::Head, 8),
        (Stalls::Body, 8),
        (Stalls::Upgrade, 4),
        (Stalls::Command, 10),
        (Stalls::Output, 2),
    ];
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let at_rest = async || {
            let mut before = (usize::MAX, usize::MAX);
            loop {
                clock.pass(SECOND).await;
                let now = (tasks(), open_files());
                if now == before {
                    return now;
                }
                before = now;
            }
        };
        let mut late = 0;
        for (stalls, rounds) in ROUNDS {
            let nothing = at_rest().await;
            let mut case = Case::new(stalls, &activity, "", CheckMetrics::default()).await;
            case.check.timeout_seconds = 1;
            let together = async || {
                // As the checks of clusters are: none has to wait for another to be polled.
                let runs = (0..TOGETHER).map(|_| {
                    let (runner, check) = (case.runner.clone(), case.check.clone());
                    tokio::spawn(async move { runner.run("shoot--a", &check).await })
                });
                let runs = clock.end_of("the runs end", join_all(runs)).await;
                let runs: Vec<Run> = runs.into_iter().map(Result::unwrap).collect();
                let expected = match stalls {
                    Stalls::Upgrade => not_taken(),
                    _ => Outcome::Timeout(SECOND),
                };
                for ran in &runs {
                    assert_eq!(ran.outcome, expected, "{stalls:?}");
                }
                runs.len()
            };
            let half = rounds / 2;
            for _ in 0..half {
                late += together().await;
            }
            let (before, memory) = (at_rest().await, resident());
            for _ in half..rounds {
                late += together().await;
            }
            let after = at_rest().await;
            let grown = resident().saturating_sub(memory);
            // How much of an endless output is on its way at once differs; all else is alike.
            let most = if stalls == Stalls::Output {
                64 << 20
            } else {
                4 << 20
            };
            assert!(grown < most, "{stalls:?}: {grown} bytes");
            // The API server's connections are kept for the next time, once there is one.
            let kept = match case.check.exec {
                Some(_) => TOGETHER,
                None => 0,
            };
            assert!(
                after.0 <= before.0 + kept,
                "{stalls:?}: {after:?}, before {before:?}"
            );
            drop(case);
            let left = at_rest().await;
            assert!(
                left <= nothing,
                "{stalls:?}: tasks and files {left:?}, before {nothing:?}"
            );
        }
        assert_eq!(late, 10_000);
    });
}

/// Those that wait for their turn are not timed, and come to it.
#[test]
fn more_than_can_run_at_once_wait() {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(Stalls::Command, &activity, "", CheckMetrics::default()).await;
        let begun = Instant::now();
        let runs = (0..300).map(|_| case.runner.run("shoot--a", &case.check));
        let runs = clock.end_of("the runs end", join_all(runs)).await;
        let waited = |ran: &Run| ran.began - begun;
        for ran in &runs {
            assert_eq!(ran.outcome, Outcome::Timeout(LIMIT));
        }
        let at_once = runs
            .iter()
            .filter(|ran| waited(ran) == Duration::ZERO)
            .count();
        assert_eq!(at_once, 128);
        let longest = runs.iter().map(waited).max().unwrap();
        assert!(longest >= 2 * LIMIT && longest < 3 * LIMIT, "{longest:?}");
    });
}

/// A command that says nothing for minutes is still one, if it may take so long.
#[test]
fn a_command_may_take_its_time() {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let target = api(&activity, pods(), |_, mut socket| async move {
            let first = socket.next().await;
            assert!(matches!(first, Some(Ok(Message::Ping(_)))), "{first:?}");
            ended(socket, &[], &exit(0)).await;
        })
        .await;
        let mut check = check(json!({
            "exec": {"podSelector": {"matchLabels": {"a": "b"}}, "command": ["x"]},
        }));
        check.timeout_seconds = 600;
        let runner = runner(Some(&target), "", CheckMetrics::default());
        let ran = clock
            .end_of("it ends", runner.run("shoot--a", &check))
            .await;
        assert_eq!(ran.outcome, Outcome::Success);
    });
}
