//! Scaling against a scripted seed: each request fails in each way, and flows are stopped,
//! overtaken and delayed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::{sync::Arc, time::Duration};

use dependency_watchdog::{
    api::{DependentStatus, Protection},
    cluster::{Settings, Template},
    prober::{
        guard::Guard,
        ledger::Problem,
        plan::{Direction, MARK, RECORD},
        scale::Resources,
    },
};
use serde_json::{Value, json};
use support::{Activity, Call, Failure, Seed, put_workload, run};
use tokio::time::{Instant, timeout};

/// Long after any flow has ended. The clock jumps.
const EVER: Duration = Duration::from_secs(3_600);
const INTERVAL: Duration = Duration::from_secs(10);

/// A dependent of one level in both directions.
fn info(kind: &str, name: &str, level: i32) -> Value {
    let version = if kind == "Etcd" {
        "druid.gardener.cloud/v1alpha1"
    } else {
        "apps/v1"
    };
    json!({
        "ref": {"apiVersion": version, "kind": kind, "name": name},
        "optional": false, "scaleUp": {"level": level}, "scaleDown": {"level": level},
    })
}

fn settings(dependents: &[Value]) -> Settings {
    let spec = serde_json::from_value(json!({
        "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "dependentResourceInfos": dependents,
    }))
    .unwrap();
    let cluster = serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"shoot": {}},
    }))
    .unwrap();
    Template::new("p".into(), 1, &spec)
        .unwrap()
        .settings(&cluster)
        .unwrap()
}

/// A guard of the cluster `a`, and the seed that it scales on.
struct Stage {
    seed: Seed,
    settings: Settings,
    guard: Guard,
}

impl Stage {
    /// Workloads of three replicas each, for these dependents.
    fn new(dependents: &[Value]) -> Self {
        tokio::time::pause();
        let seed = Seed::new(Activity::default());
        for dependent in dependents {
            let text = |field: &str| dependent["ref"][field].as_str().unwrap();
            put_workload(&seed, text("kind"), "a", text("name"), 3);
        }
        let settings = settings(dependents);
        let guard = guard(&seed, &settings, None);
        Self {
            seed,
            settings,
            guard,
        }
    }

    /// Acts on a verdict, and follows the flow to its end.
    async fn act(&mut self, direction: Direction) {
        self.guard.act(direction, self.settings.restore);
        self.follow().await;
    }

    async fn follow(&mut self) {
        while timeout(EVER, self.guard.progress(INTERVAL)).await.is_ok() {}
    }

    /// Lets the flow go on until the seed has seen such a request, which it does not answer yet.
    async fn until_asked(&mut self, what: &str) {
        while !self.seed.briefs().iter().any(|call| call == what) {
            tokio::select! {
                biased;
                () = self.guard.progress(INTERVAL) => {}
                () = tokio::task::yield_now() => {}
            }
        }
    }

    fn object(&self, resource: &str, name: &str) -> Value {
        self.seed.get(resource, "a", name).unwrap()
    }

    fn replicas(&self, resource: &str, name: &str) -> i64 {
        self.object(resource, name)["spec"]["replicas"]
            .as_i64()
            .unwrap()
    }

    fn problems(&self) -> Vec<Problem> {
        self.guard.ledger().problems().cloned().collect()
    }

    fn entry(&self, name: &str) -> DependentStatus {
        let entries = self.guard.ledger().status();
        entries
            .into_iter()
            .find(|it| it.r#ref.name == name)
            .unwrap()
    }

    fn assert_down(&self, resource: &str, name: &str, case: &str) {
        let object = self.object(resource, name);
        assert_eq!(object["spec"]["replicas"], 0, "{case}");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[MARK], "", "{case}");
        assert_eq!(annotations[RECORD], "3", "{case}");
        let entry = self.entry(name);
        assert_eq!(
            (entry.owed, entry.recorded_replicas),
            (true, Some(3)),
            "{case}"
        );
    }

    fn assert_up(&self, resource: &str, name: &str, case: &str) {
        let object = self.object(resource, name);
        assert_eq!(object["spec"]["replicas"], 3, "{case}");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations[MARK], Value::Null, "{case}");
        assert_eq!(annotations[RECORD], Value::Null, "{case}");
        assert!(!self.entry(name).owed, "{case}");
    }
}

fn guard(
    seed: &Seed,
    settings: &Settings,
    known: Option<&dependency_watchdog::api::ClusterHealthStatus>,
) -> Guard {
    let mut guard = Guard::new("a".into(), seed.client(), Resources::default(), known);
    guard.adopt(&settings.dependents);
    guard
}

/// The requests of a scale: the kind of the dependent, its resource, and which request of which
/// name.
#[derive(Clone, Copy, Debug)]
struct Target {
    kind: &'static str,
    resource: &'static str,
    request: &'static str,
    /// Whether it writes.
    writes: bool,
}

const TARGETS: [Target; 7] = {
    const fn of(kind: &'static str, resource: &'static str, request: &'static str) -> Target {
        Target {
            kind,
            resource,
            request,
            writes: request.as_bytes()[0] == b'P',
        }
    }
    [
        of("Deployment", "deployments", "GET deployments/first"),
        of("Deployment", "deployments", "PATCH deployments/first"),
        of("Etcd", "etcds", "GET /apis/druid.gardener.cloud/v1alpha1"),
        of("Etcd", "etcds", "GET etcds/first"),
        of("Etcd", "etcds", "GET etcds/scale/first"),
        of("Etcd", "etcds", "PATCH etcds/first"),
        of("Etcd", "etcds", "PATCH etcds/scale/first"),
    ]
};

/// The reason that a failed request of a scale is given.
fn reason(target: Target, failure: Failure, direction: Direction) -> &'static str {
    let discovery = target.request.contains("/apis/");
    match failure {
        Failure::Status(403) => "ScalingForbidden",
        Failure::Status(404) if discovery => "KindUnknown",
        Failure::Status(404) if !target.writes => "DependentMissing",
        Failure::Status(404 | 409) if target.writes => "ScalingConflicts",
        // Only the patch that tests the number can be refused because of it.
        Failure::Status(422)
            if direction == Direction::Down && target.request.starts_with("PATCH etcds/scale") =>
        {
            "ScalingConflicts"
        }
        _ => "ScalingFailed",
    }
}

/// Down and up again, with one request failing on the way.
async fn scale_fails(target: Target, failure: Failure, committed: bool, direction: Direction) {
    let case = format!("{target:?} {failure:?} committed: {committed} {direction:?}");
    let mut stage = Stage::new(&[
        info(target.kind, "first", 0),
        info("Deployment", "second", 1),
    ]);
    if direction == Direction::Up {
        stage.act(Direction::Down).await;
        stage.assert_down(target.resource, "first", &case);
        stage.assert_down("deployments", "second", &case);
        // Another process comes, which knows nothing but what the cluster's record says.
        let known = dependency_watchdog::api::ClusterHealthStatus {
            dependents: stage.guard.ledger().status(),
            protection: Protection::Active,
            ..Default::default()
        };
        stage.guard = guard(&stage.seed, &stage.settings, Some(&known));
    }
    let matches = move |call: &Call| call.brief() == target.request;
    if committed {
        stage.seed.fail_committed(failure, (0, usize::MAX), matches);
    } else {
        stage.seed.fail(failure, (0, usize::MAX), matches);
    }
    stage.seed.forget_calls();
    stage.act(direction).await;

    let problems = stage.problems();
    assert_eq!(problems.len(), 1, "{case}: {problems:?}");
    assert_eq!(
        problems[0].reason,
        reason(target, failure, direction),
        "{case}: {problems:?}"
    );
    assert!(
        problems[0].message.contains("first"),
        "{case}: {problems:?}"
    );
    let briefs = stage.seed.briefs();
    assert!(
        !briefs.iter().any(|call| call.contains("second")),
        "the flow ends at its level: {case}: {briefs:?}"
    );
    let tries = briefs
        .iter()
        .filter(|call| **call == target.request)
        .count();
    let expected = if problems[0].reason == "ScalingConflicts" {
        6
    } else {
        1
    };
    assert_eq!(tries, expected, "{case}: {briefs:?}");
    if direction == Direction::Up || committed {
        assert!(stage.entry("first").owed, "{case}");
        assert!(stage.guard.is_engaged(), "{case}");
    }

    stage.seed.heal();
    stage.act(direction).await;
    assert_eq!(stage.problems(), [], "{case}");
    if direction == Direction::Down {
        stage.assert_down(target.resource, "first", &case);
        stage.assert_down("deployments", "second", &case);
        assert_eq!(stage.guard.protection(), Protection::Active, "{case}");
        stage.act(Direction::Up).await;
    }
    stage.assert_up(target.resource, "first", &case);
    stage.assert_up("deployments", "second", &case);
    assert_eq!(stage.guard.protection(), Protection::None, "{case}");
    assert!(!stage.guard.is_engaged(), "{case}");
}

#[test]
fn a_request_of_a_scale_that_fails() {
    for direction in [Direction::Down, Direction::Up] {
        for target in TARGETS {
            for failure in Failure::ALL {
                run(scale_fails(target, failure, false, direction));
            }
        }
    }
}

/// The server did what was asked, but its answer was lost.
#[test]
fn a_write_whose_answer_is_lost() {
    for direction in [Direction::Down, Direction::Up] {
        for target in TARGETS.into_iter().filter(|target| target.writes) {
            for failure in Failure::ALL {
                if failure.is_ambiguous() || failure == Failure::Status(500) {
                    run(scale_fails_after_commit(target, failure, direction));
                }
            }
        }
    }
}

async fn scale_fails_after_commit(target: Target, failure: Failure, direction: Direction) {
    scale_fails(target, failure, true, direction).await;
}

/// Whether the record survives a recovery right after the answer was lost.
#[test]
fn a_recovery_right_after_a_lost_answer_restores() {
    for target in TARGETS.into_iter().filter(|target| target.writes) {
        for failure in Failure::ALL {
            if failure.is_ambiguous() {
                run(recovery_after_lost_answer(target, failure));
            }
        }
    }
}

async fn recovery_after_lost_answer(target: Target, failure: Failure) {
    let case = format!("{target:?} {failure:?}");
    let mut stage = Stage::new(&[info(target.kind, "first", 0)]);
    stage
        .seed
        .fail_committed(failure, (0, 1), move |call| call.brief() == target.request);
    stage.act(Direction::Down).await;
    assert!(stage.guard.is_engaged(), "{case}");
    stage.act(Direction::Up).await;
    stage.assert_up(target.resource, "first", &case);
}

/// Somebody else changes the object between read and write: it is read and decided on again.
#[test]
fn a_conflict_is_decided_again() {
    for times in 1..=6 {
        run(conflicts(times));
    }
}

async fn conflicts(times: usize) {
    let mut stage = Stage::new(&[info("Deployment", "first", 0)]);
    let mut replicas = 3;
    stage.seed.interfere(
        times,
        |call| call.brief() == "PATCH deployments/first",
        move |object| {
            replicas += 1;
            object["spec"]["replicas"] = json!(replicas);
        },
    );
    let begin = Instant::now();
    stage.guard.act(Direction::Down, stage.settings.restore);
    stage.until_settled().await;
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "decided again at once"
    );
    stage.follow().await;
    let newest = 3 + i64::try_from(times).unwrap();
    if times < 6 {
        assert_eq!(stage.replicas("deployments", "first"), 0);
        let record = &stage.object("deployments", "first")["metadata"]["annotations"][RECORD];
        assert_eq!(*record, newest.to_string());
    } else {
        assert_eq!(stage.replicas("deployments", "first"), newest);
        assert_eq!(stage.problems()[0].reason, "ScalingConflicts");
        stage.act(Direction::Down).await;
        assert_eq!(stage.replicas("deployments", "first"), 0);
    }
    stage.act(Direction::Up).await;
    assert_eq!(stage.replicas("deployments", "first"), newest);
}

impl Stage {
    /// Follows the flow until there is a problem, or the dependents are down.
    async fn until_settled(&mut self) {
        while self.problems().is_empty() && self.guard.protection() != Protection::Active {
            self.guard.progress(INTERVAL).await;
        }
    }
}

/// Between annotations and `scale`, an autoscaler changes the number: the newer one is recorded.
#[test]
fn a_number_that_changes_between_two_writes_is_not_lost() {
    run(async {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        stage.seed.interfere(
            1,
            |call| call.brief() == "PATCH etcds/scale/first",
            |object| object["spec"]["replicas"] = json!(5),
        );
        stage.act(Direction::Down).await;
        assert_eq!(stage.replicas("etcds", "first"), 0);
        stage.act(Direction::Up).await;
        assert_eq!(stage.replicas("etcds", "first"), 5);
    });
}

/// A flow that is stopped while a request is under way writes nothing after it.
#[test]
fn a_stopped_flow_sends_no_further_write() {
    for target in TARGETS {
        run(stopped(target));
    }
}

async fn stopped(target: Target) {
    let mut stage = Stage::new(&[
        info(target.kind, "first", 0),
        info("Deployment", "second", 1),
    ]);
    let release = stage.seed.hold(move |call| call.brief() == target.request);
    stage.guard.act(Direction::Down, stage.settings.restore);
    stage.until_asked(target.request).await;
    let before = stage.seed.writes().len();
    stage.guard.stop();
    release.send(()).unwrap();
    stage.follow().await;
    assert_eq!(stage.seed.writes().len(), before, "{target:?}");
    // Whatever was taken is known, so that the cluster is not let go.
    let annotations = &stage.object(target.resource, "first")["metadata"]["annotations"];
    let marked = annotations[MARK] == "";
    assert_eq!(marked, target.writes, "{target:?}");
    assert_eq!(stage.guard.is_engaged(), marked, "{target:?}");
    // What was written is taken up by whichever verdict comes next.
    stage.act(Direction::Up).await;
    assert_eq!(stage.replicas(target.resource, "first"), 3, "{target:?}");
    let annotations = &stage.object(target.resource, "first")["metadata"]["annotations"];
    assert_eq!(annotations[MARK], Value::Null, "{target:?}");
    assert!(!stage.guard.is_engaged());
}

/// Whoever shuts the guard down learns what its last request did.
#[test]
fn what_is_under_way_at_the_end_is_not_forgotten() {
    run(async {
        let mut stage = Stage::new(&[info("Deployment", "first", 0)]);
        let release = stage
            .seed
            .hold(|call| call.brief() == "PATCH deployments/first");
        stage.guard.act(Direction::Down, stage.settings.restore);
        stage.until_asked("PATCH deployments/first").await;
        release.send(()).unwrap();
        stage.guard.shut_down().await;
        stage.assert_down("deployments", "first", "shut down");
    });
}

#[test]
fn levels_ascend_and_within_one_all_goes_at_once() {
    run(async {
        let dependents = [
            info("Deployment", "low-a", 0),
            info("Deployment", "low-b", 0),
            info("Deployment", "high", 7),
        ];
        let mut stage = Stage::new(&dependents);
        stage.seed.follow("low-a", false);
        stage.seed.follow("low-b", false);
        stage.guard.act(Direction::Down, stage.settings.restore);
        // Both are written before either has had an effect; the next level waits for both.
        for freed in ["low-a", "low-b"] {
            stage.advance(Duration::from_secs(5)).await;
            let mut written = stage.written();
            written.sort();
            assert_eq!(written, ["low-a", "low-b"]);
            stage.seed.follow(freed, true);
        }
        stage.advance(Duration::from_secs(5)).await;
        assert_eq!(stage.written()[2..], ["high"]);
        assert_eq!(stage.guard.protection(), Protection::Active);
    });
}

impl Stage {
    /// Follows the flow for that long.
    async fn advance(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while tokio::time::timeout_at(end, self.guard.progress(INTERVAL))
            .await
            .is_ok()
        {}
    }

    /// The dependents that were written to, in order.
    fn written(&self) -> Vec<String> {
        self.seed
            .writes()
            .into_iter()
            .map(|call| call.name)
            .collect()
    }
}

fn delayed(name: &str, seconds: u64) -> Value {
    let mut info = info("Deployment", name, 0);
    for direction in ["scaleUp", "scaleDown"] {
        info[direction]["initialDelay"] = json!(format!("{seconds}s"));
    }
    info
}

#[test]
fn the_initial_delay_comes_only_before_a_write() {
    run(async {
        let mut stage = Stage::new(&[delayed("first", 20), delayed("second", 0)]);
        let begin = Instant::now();
        stage.guard.act(Direction::Down, stage.settings.restore);
        stage.advance(Duration::from_secs(60)).await;
        let times: Vec<(String, Duration)> = stage
            .seed
            .writes()
            .into_iter()
            .map(|call| (call.name, call.at - begin))
            .collect();
        assert_eq!(times[0], ("second".to_owned(), Duration::ZERO));
        assert_eq!(times[1].0, "first");
        let waited = times[1].1;
        assert!(
            waited >= Duration::from_secs(20) && waited < Duration::from_millis(20_100),
            "{waited:?}"
        );
        // Looked at again, there is nothing to write and nothing to wait for.
        let begin = Instant::now();
        stage.guard.act(Direction::Down, stage.settings.restore);
        // Each is found settled, and the flow ends.
        for _ in 0..3 {
            stage.guard.progress(INTERVAL).await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert_eq!(stage.seed.writes().len(), 2);
    });
}

#[test]
fn an_initial_delay_ends_when_the_flow_is_stopped() {
    run(async {
        let mut stage = Stage::new(&[delayed("first", 3_000)]);
        let begin = Instant::now();
        stage.guard.act(Direction::Down, stage.settings.restore);
        stage.advance(Duration::from_secs(5)).await;
        stage.guard.stop();
        stage.guard.progress(INTERVAL).await;
        // tokio's timers are rounded up to milliseconds.
        assert_eq!(begin.elapsed().as_secs(), 5);
        assert!(begin.elapsed() < Duration::from_millis(5_010));
        assert_eq!(stage.seed.writes().len(), 0);
    });
}

#[test]
fn a_wait_that_outlasts_its_timeout_is_reported_and_passed() {
    for direction in [Direction::Down, Direction::Up] {
        run(late(direction));
    }
}

async fn late(direction: Direction) {
    let mut stage = Stage::new(&[
        info("Deployment", "first", 0),
        info("Deployment", "second", 1),
    ]);
    if direction == Direction::Up {
        stage.act(Direction::Down).await;
    }
    stage.seed.follow("first", false);
    stage.seed.forget_calls();
    let begin = Instant::now();
    stage.guard.act(direction, stage.settings.restore);
    stage.follow().await;
    let problems = stage.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].reason, "ScalingLate");
    let writes = stage.seed.writes();
    assert_eq!(writes[1].name, "second");
    let waited = writes[1].at - begin;
    assert!(
        waited >= Duration::from_secs(30) && waited < Duration::from_millis(30_100),
        "{direction:?}: {waited:?}"
    );
    assert!(stage.entry("first").owed, "owed until it is really there");
    stage.seed.follow("first", true);
    stage.act(direction).await;
    assert_eq!(stage.problems(), []);
    assert_eq!(stage.entry("first").owed, direction == Direction::Down);
}

/// The verdict that overtakes a flow is acted on as soon as that flow has ended.
#[test]
fn a_recovery_overtakes_a_scale_down_at_once() {
    run(async {
        let mut stage = Stage::new(&[
            info("Deployment", "first", 0),
            info("Deployment", "second", 1),
        ]);
        stage.seed.follow("first", false);
        stage.guard.act(Direction::Down, stage.settings.restore);
        stage.advance(Duration::from_secs(5)).await;
        assert_eq!(stage.written(), ["first"]);
        stage.seed.follow("first", true);
        let begin = Instant::now();
        stage.guard.act(Direction::Up, stage.settings.restore);
        while stage.replicas("deployments", "first") == 0 {
            stage.guard.progress(INTERVAL).await;
        }
        assert!(begin.elapsed() < Duration::from_secs(1));
        stage.follow().await;
        stage.assert_up("deployments", "first", "overtaken");
        assert_eq!(
            stage.written(),
            ["first", "first"],
            "the other was never touched"
        );
        assert_eq!(stage.guard.protection(), Protection::None);
    });
}

/// Doubt ends a flow, and also what was to follow it.
#[test]
fn doubt_ends_what_an_overtaking_verdict_began() {
    run(async {
        let mut stage = Stage::new(&[info("Deployment", "first", 0)]);
        stage.act(Direction::Down).await;
        let release = stage
            .seed
            .hold(|call| call.brief() == "GET deployments/first");
        stage.seed.forget_calls();
        stage.guard.act(Direction::Down, stage.settings.restore);
        stage.until_asked("GET deployments/first").await;
        stage.guard.act(Direction::Up, stage.settings.restore);
        stage.guard.stop();
        release.send(()).unwrap();
        stage.follow().await;
        assert_eq!(stage.seed.writes().len(), 0);
        stage.assert_down("deployments", "first", "doubt");
    });
}

/// Two clusters on one seed: that one of them hangs in a write costs the other nothing.
#[test]
fn a_scale_that_hangs_delays_no_other_cluster() {
    run(async {
        let mut stage = Stage::new(&[info("Deployment", "first", 0)]);
        put_workload(&stage.seed, "Deployment", "b", "first", 2);
        stage
            .seed
            .fail(Failure::Hang, (0, usize::MAX), |call| call.namespace == "a");
        let client = stage.seed.client();
        let mut other = Guard::new("b".into(), client, Resources::default(), None);
        other.adopt(&stage.settings.dependents);
        let begin = Instant::now();
        stage.guard.act(Direction::Down, stage.settings.restore);
        other.act(Direction::Down, stage.settings.restore);
        while other.protection() != Protection::Active {
            other.progress(INTERVAL).await;
        }
        assert!(begin.elapsed() < Duration::from_secs(1));
        let names: Arc<[_]> = stage.guard.ledger().dependents();
        assert_eq!(names.len(), 1);
    });
}
