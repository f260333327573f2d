//! What checks ask, what they take for an answer, and what becomes of it.

mod timeouts;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::{
    Activity, Clock, Target, api, check, ended, exit, http, once, run, runner, tls,
};
use dependency_watchdog::{
    api::{CheckResult, CheckRole, CheckType, HealthCheck},
    checks::{CheckMetrics, Checks, Outcome, Runner, outcome::Said},
};
use futures::SinkExt as _;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_tungstenite::tungstenite::Message;

const SECOND: Duration = Duration::from_secs(1);

/// One run of a check against a server that answers like this; also what it was asked.
async fn asked(
    action: impl Fn(u16) -> Value,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (Outcome, Vec<String>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let (told, answer) = (heads.clone(), Arc::new(answer));
    let target = Target::start(&Activity::default(), move |stream| {
        let (told, answer) = (told.clone(), answer.clone());
        async move {
            let talk = |head: &str| {
                told.lock().unwrap().push(head.to_owned());
                answer(head)
            };
            http(stream, talk).await;
        }
    })
    .await;
    let check = slow(check(json!({"httpGet": action(target.address.port())})));
    let outcome = once(&runner(None, "", CheckMetrics::default()), &check)
        .await
        .outcome;
    let heads = heads.lock().unwrap().clone();
    (outcome, heads)
}

/// The same, with a timeout that a busy machine does not reach.
fn slow(check: HealthCheck) -> HealthCheck {
    HealthCheck {
        timeout_seconds: 60,
        ..check
    }
}

fn plain(port: u16) -> Value {
    json!({"service": "s", "port": port})
}

#[rstest]
#[case::chunks(
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    Said::Yes,
    ""
)]
#[case::until_the_end("HTTP/1.1 200 OK\r\n\r\nok", Said::Yes, "")]
#[case::old_and_failing("HTTP/1.0 500 No\r\n\r\nsecret", Said::No, "the server answered 500")]
#[case::short(
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
    Said::No,
    "gave no whole answer"
)]
#[case::no_http("SSH-2.0-OpenSSH_9\r\n", Said::No, "gave no whole answer")]
#[tokio::test]
async fn answers(#[case] answer: &'static str, #[case] said: Said, #[case] words: &str) {
    let (outcome, _) = asked(plain, move |_| answer.to_owned()).await;
    assert_eq!(outcome.said(), said, "{outcome}");
    assert!(outcome.to_string().contains(words), "{outcome}");
    assert!(!outcome.to_string().contains("secret"), "{outcome}");
}

/// No more of a body is read than needed, and of a head no more than is reasonable.
#[rstest]
#[case::body("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Said::Yes)]
#[case::head("HTTP/1.1 200 OK\r\nX: ", Said::No)]
#[tokio::test]
async fn an_answer_without_end(#[case] start: &'static str, #[case] said: Said) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let target = Target::start(&Activity::default(), move |mut stream| {
        let counted = counted.clone();
        async move {
            let _ = stream.write_all(start.as_bytes()).await;
            while stream.write_all(&[b'x'; 1024]).await.is_ok() {
                counted.fetch_add(1024, Ordering::SeqCst);
            }
        }
    })
    .await;
    let check = slow(check(json!({"httpGet": plain(target.address.port())})));
    let ran = once(&runner(None, "", CheckMetrics::default()), &check).await;
    assert_eq!(ran.outcome.said(), said, "{}", ran.outcome);
    // What the kernel holds included.
    assert!(sent.load(Ordering::SeqCst) < 32 << 20);
}

#[rstest]
#[case::plain(json!({}), &["GET / HTTP/1.1", "host: s.shoot--a.svc:PORT", "accept: */*", "connection: close",
    concat!("user-agent: dependency-watchdog/", env!("CARGO_PKG_VERSION"))])]
#[case::host(json!({"httpHeaders": [{"name": "Host", "value": "api.example.org"}]}), &["host: api.example.org"])]
#[tokio::test]
async fn what_is_asked(#[case] fields: Value, #[case] lines: &[&str]) {
    let port_of = AtomicUsize::new(0);
    let action = |port: u16| {
        port_of.store(port.into(), Ordering::SeqCst);
        let mut action = plain(port);
        action
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        action
    };
    let answer = |_: &str| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned();
    let (outcome, heads) = asked(action, answer).await;
    assert_eq!(outcome, Outcome::Success);
    let port = port_of.load(Ordering::SeqCst).to_string();
    let there: Vec<&str> = heads[0].lines().collect();
    for line in lines {
        let line = line.replace("PORT", &port);
        assert!(there.contains(&line.as_str()), "{line} in {there:?}");
    }
    let hosts = there.iter().filter(|line| line.starts_with("host:"));
    assert_eq!(hosts.count(), 1, "{there:?}");
}

/// It answers, and what it refers to is another path's health.
#[tokio::test]
async fn a_redirection_is_not_followed() {
    let (outcome, heads) = asked(plain, |head| match head.starts_with("GET / ") {
        true => "HTTP/1.1 302 Go\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n".to_owned(),
        false => "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
    })
    .await;
    assert_eq!(outcome, Outcome::Success);
    assert_eq!(heads.len(), 1);
}

/// The certificate is not verified.
#[tokio::test]
async fn https() {
    let target = Target::start(&Activity::default(), |stream| async move {
        if let Some(stream) = tls(stream).await {
            http(stream, |_| {
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
            })
            .await;
        }
    })
    .await;
    let runner = runner(None, "", CheckMetrics::default());
    let port = target.address.port();
    for (scheme, said) in [("HTTPS", Said::Yes), ("HTTP", Said::No)] {
        let check = slow(check(
            json!({"httpGet": {"service": "s", "port": port, "scheme": scheme}}),
        ));
        let outcome = once(&runner, &check).await.outcome;
        assert_eq!(outcome.said(), said, "{scheme}: {outcome}");
    }
}

#[tokio::test]
async fn a_connection_that_is_refused_is_a_failure_and_a_name_nobody_has_is_none() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let runner = runner(None, "", CheckMetrics::default());
    for action in ["httpGet", "tcpSocket"] {
        for (service, said, words) in [
            ("s", Said::No, "refused"),
            ("nobody", Said::Nothing, "the name nobody.shoot--a.svc"),
        ] {
            let check = slow(check(json!({action: {"service": service, "port": port}})));
            let outcome = once(&runner, &check).await.outcome;
            assert_eq!(outcome.said(), said, "{outcome}");
            assert!(outcome.to_string().contains(words), "{outcome}");
        }
    }
}

fn command() -> HealthCheck {
    slow(check(json!({"exec": {
        "podSelector": {"matchLabels": {"app": "etcd"}, "matchExpressions": [{"key": "role", "operator": "Exists"}]},
        "container": "etcd",
        "command": ["sh", "-c", "echo a&b; exit 3"],
    }})))
}

fn pods() -> Value {
    json!([
        {"metadata": {"name": "etcd-0"}, "spec": {"containers": [{"name": "etcd"}, {"name": "backup"}]},
         "status": {"phase": "Running"}},
        {"metadata": {"name": "etcd-1"}, "spec": {"containers": [{"name": "etcd"}, {"name": "backup"}]},
         "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
    ])
}

#[rstest]
#[case::fails(&[(1, "one\n"), (2, "password=hunter2"), (9, "no channel")], exit(3),
    Outcome::Failure("the command ended with exit code 3".to_owned()))]
#[case::not_run(&[(1, "lost")], json!({"status": "Failure", "reason": "InternalError", "message": "no runtime"}),
    Outcome::Unknown("the command could not be run in container etcd of pod etcd-1: no runtime".to_owned()))]
#[tokio::test]
async fn commands(
    #[case] written: &'static [(u8, &'static str)],
    #[case] status: Value,
    #[case] expected: Outcome,
) {
    let path: Arc<Mutex<String>> = Arc::default();
    let told = path.clone();
    let target = api(&Activity::default(), pods(), move |request, socket| {
        *told.lock().unwrap() = request;
        let status = status.clone();
        async move { ended(socket, written, &status).await }
    })
    .await;
    let runner = runner(Some(&target), "", CheckMetrics::default());
    assert_eq!(once(&runner, &command()).await.outcome, expected);
    let path = path.lock().unwrap().clone();
    let (path, query) = path.split_once('?').unwrap();
    assert_eq!(path, "/api/v1/namespaces/shoot--a/pods/etcd-1/exec");
    let command = "command=sh&command=-c&command=echo+a%26b%3B+exit+3";
    for part in ["stdout=true", "stderr=true", "container=etcd", command] {
        assert!(query.contains(part), "{part} in {query}");
    }
    assert!(
        !query.contains("stdin=true") && !query.contains("tty=true"),
        "{query}"
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_run_tells_nothing() {
    let forbidden = json!({
        "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "pods is forbidden",
    });
    for (pods, words) in [
        (
            json!([]),
            "no pod runs in namespace shoot--a with app=etcd,role",
        ),
        (
            json!([{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "x"}]}, "status": {"phase": "Running"}}]),
            "pod p has no container etcd; it has x",
        ),
        (
            forbidden,
            "the pods of namespace shoot--a cannot be listed: pods is forbidden (403)",
        ),
    ] {
        let target = api(&Activity::default(), pods, |_, _| async { panic!() }).await;
        let runner = runner(Some(&target), "", CheckMetrics::default());
        let outcome = once(&runner, &command()).await.outcome;
        assert_eq!(outcome.said(), Said::Nothing);
        assert!(outcome.to_string().contains(words), "{outcome}");
    }
    // It ends without saying how.
    let target = api(&Activity::default(), pods(), |_, socket| async move {
        drop(socket)
    })
    .await;
    let runner = runner(Some(&target), "", CheckMetrics::default());
    let outcome = once(&runner, &command()).await.outcome;
    assert_eq!(outcome.said(), Said::Nothing, "{outcome}");
    // Nobody is there.
    drop(target);
    let outcome = once(&runner, &command()).await.outcome;
    assert_eq!(outcome.said(), Said::Nothing, "{outcome}");
}

/// Whoever answers for the API server is not to fill our memory.
#[tokio::test]
async fn a_message_that_is_too_long_is_not_taken_in() {
    let target = api(&Activity::default(), pods(), |_, mut socket| async move {
        let long = Message::Binary(vec![1; 2 << 20].into());
        if socket.send(long).await.is_ok() {
            ended(socket, &[], &exit(1)).await;
        }
    })
    .await;
    let runner = runner(Some(&target), "", CheckMetrics::default());
    let outcome = once(&runner, &slow(command())).await.outcome;
    assert_eq!(outcome.said(), Said::Nothing, "{outcome}");
    assert!(outcome.to_string().contains("too long"), "{outcome}");
}

/// A server whose status can be set, and checks of it.
struct World {
    clock: Clock,
    status: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    target: Target,
    checks: Checks,
}

impl World {
    async fn new() -> Self {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let status = Arc::new(AtomicUsize::new(200));
        let asked: Arc<AtomicUsize> = Arc::default();
        let (answered, counted) = (status.clone(), asked.clone());
        let target = Target::start(&activity, move |stream| {
            let (answered, counted) = (answered.clone(), counted.clone());
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                let status = answered.load(Ordering::SeqCst);
                http(stream, |_| {
                    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
                })
                .await;
            }
        })
        .await;
        let checks = checks_of(runner(None, "", CheckMetrics::default()));
        Self {
            clock,
            status,
            asked,
            target,
            checks,
        }
    }

    fn check(&self, name: &str, role: CheckRole, fields: Value) -> HealthCheck {
        let mut check = check(json!({"httpGet": plain(self.target.address.port())}));
        for (field, value) in fields.as_object().unwrap() {
            let mut json = serde_json::to_value(&check).unwrap();
            json[field] = value.clone();
            check = serde_json::from_value(json).unwrap();
        }
        HealthCheck {
            name: name.to_owned(),
            role,
            ..check
        }
    }

    fn results(&self) -> Vec<CheckResult> {
        self.checks
            .statuses()
            .into_iter()
            .map(|it| it.result)
            .collect()
    }

    async fn are(&self, results: [CheckResult; 2]) {
        let what = format!("the results are {results:?}");
        let reached = || (self.results() == results).then_some(());
        self.clock.until(&what, reached).await;
    }

    fn answer(&self, status: usize) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn checks_of(runner: Runner) -> Checks {
    Checks::new("shoot--a".into(), runner)
}

use CheckResult::{Failing, Passing, Unknown};

#[test]
fn results_follow_what_is_checked() {
    run(async {
        let mut world = World::new().await;
        assert_eq!(world.checks.statuses(), []);
        let gate = world.check("g", CheckRole::Gate, json!({"failureThreshold": 5}));
        let other = world.check("o", CheckRole::Observe, json!({"failureThreshold": 2}));
        world.checks.adopt(&"p".into(), &Arc::from([gate, other]));
        assert_eq!(world.results(), [Unknown, Unknown]);
        let waits = "the Gate g tells nothing: it has not been run yet";
        assert_eq!(world.checks.gate().as_deref(), Some(waits));

        world.are([Passing, Passing]).await;
        assert_eq!(world.checks.gate(), None);
        let statuses = world.checks.statuses();
        assert_eq!(statuses[0].name, "g");
        assert_eq!(statuses[0].role, Some(CheckRole::Gate));
        assert_eq!(statuses[0].r#type, CheckType::HttpGet);
        assert_eq!(statuses[0].message, None);
        assert!(statuses[0].since.is_some());

        world.answer(500);
        world.are([Passing, Failing]).await;
        let message = world.checks.statuses()[0].message.clone().unwrap();
        assert!(
            message.ends_with("of 5 times: the server answered 500"),
            "{message}"
        );

        world.are([Failing, Failing]).await;
        let closed = "the Gate g fails: the server answered 500";
        assert_eq!(world.checks.gate().as_deref(), Some(closed));

        world.answer(200);
        world.are([Passing, Passing]).await;

        let asked = world.asked();
        world.checks.stop();
        assert_eq!(world.checks.statuses(), []);
        assert_eq!(world.checks.gate(), None);
        world.clock.pass(30 * SECOND).await;
        assert_eq!(world.asked(), asked);
    });
}

/// What is known counts for a period, a timeout and a little more after its last run.
#[test]
fn what_is_not_run_any_more_tells_nothing() {
    run(async {
        let mut world = World::new().await;
        let gate = world.check("g", CheckRole::Gate, json!({}));
        world.checks.adopt(&"p".into(), &Arc::from([gate]));
        let passes = || (world.results() == [Passing]).then_some(());
        world.clock.until("it passes", passes).await;
        // Time passes, and nothing is run, as when the process stands still.
        tokio::time::advance(16 * SECOND + Duration::from_millis(1)).await;
        let why = "the Gate g tells nothing: its next run is overdue";
        assert_eq!(world.checks.gate().as_deref(), Some(why));
        assert_eq!(world.results(), [Unknown]);
        world.clock.pass(SECOND).await;
        assert_eq!(world.checks.gate(), None);
    });
}

/// What a cut run leaves behind would fill the container, one process a period.
#[test]
fn a_command_that_hangs_is_run_ever_more_rarely() {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let hangs: Arc<AtomicUsize> = Arc::default();
        let runs: Arc<AtomicUsize> = Arc::default();
        let (hanging, counted) = (hangs.clone(), runs.clone());
        let target = api(&activity, pods(), move |_, mut socket| {
            let hangs = hanging.load(Ordering::SeqCst) == 1;
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if !hangs {
                    return ended(socket, &[], &exit(0)).await;
                }
                while futures::StreamExt::next(&mut socket)
                    .await
                    .is_some_and(|it| it.is_ok())
                {}
            }
        })
        .await;
        let mut checks = checks_of(runner(Some(&target), "", CheckMetrics::default()));
        let gate = HealthCheck {
            role: CheckRole::Gate,
            timeout_seconds: 1,
            ..command()
        };
        checks.adopt(&"p".into(), &Arc::from([gate]));
        let result = || checks.statuses().remove(0).result;
        let is = |result: CheckResult| {
            let status = checks.statuses().remove(0);
            (status.result == result).then_some(status)
        };
        clock.until("it passes", || is(Passing)).await;
        hangs.store(1, Ordering::SeqCst);
        let before = runs.load(Ordering::SeqCst);
        let status = clock.until("it fails", || is(Failing)).await;
        // No later than without the pause.
        assert_eq!(runs.load(Ordering::SeqCst) - before, 3);
        let message = status.message.unwrap();
        let why = "it had not ended after 1s; each of the last 3 runs was cut off and left a process in its \
                   container, so the next one begins 20s after the last";
        assert!(message.contains(why), "{message}");
        // It counts for as long as it would otherwise, and not until the next run.
        clock.pass(17 * SECOND).await;
        assert_eq!(result(), Unknown);
        let message = checks.statuses().remove(0).message.unwrap();
        assert!(
            message.contains("was cut off and left a process"),
            "{message}"
        );
        clock.until("it is run again", || is(Failing)).await;
        assert_eq!(runs.load(Ordering::SeqCst) - before, 4);
        clock.pass(3600 * SECOND).await;
        let hour = runs.load(Ordering::SeqCst) - before;
        assert!((15..=18).contains(&hour), "{hour} runs");
        // One that ends by itself ends the pause.
        hangs.store(0, Ordering::SeqCst);
        clock.pass(310 * SECOND).await;
        assert_eq!(result(), Passing);
        let before = runs.load(Ordering::SeqCst);
        clock.pass(60 * SECOND).await;
        assert!(runs.load(Ordering::SeqCst) - before >= 5);
    });
}
