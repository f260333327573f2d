//! Scaling against a scripted seed: each request fails in each way.

use std::time::Duration;

use crate::support::{Call, Failure, Stage, doubt, info, protector, run};
use dependency_watchdog::{
    api::{ClusterHealthStatus, Protection},
    prober::{
        flow::What,
        plan::{Aim, MARK, RECORD, Step},
    },
};
use serde_json::{Value, json};
use tokio::time::Instant;

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

/// Whether a flow of this aim sends it: a restore leaves the annotations alone.
fn is_sent(target: &Target, aim: Aim) -> bool {
    aim == Aim::Protect || target.request != "PATCH etcds/first"
}

/// The reason that a failed request of a scale is given.
fn reason(target: Target, failure: Failure) -> &'static str {
    let discovery = target.request.contains("/apis/");
    match failure {
        Failure::Status(403) => "ScalingForbidden",
        Failure::Status(404) if discovery => "KindUnknown",
        // An object that was there a moment ago is not gone for want of a `scale`.
        Failure::Status(404) if !target.writes && !target.request.contains("/scale/") => {
            "DependentMissing"
        }
        Failure::Status(409) if target.writes => "ScalingConflicts",
        _ => "ScalingFailed",
    }
}

/// Two dependents, one after the other, that are to be brought where this aim wants them.
async fn stage_for(target: Target, aim: Aim, case: &str) -> Stage {
    let mut stage = Stage::new(&[
        info(target.kind, "first", 0),
        info("Deployment", "second", 1),
    ]);
    if aim == Aim::Restore {
        stage.act(Aim::Protect).await;
        stage.assert_down(target.resource, "first", case);
        stage.assert_down("deployments", "second", case);
        // Another process comes, which knows nothing but what the cluster's record says.
        let known = ClusterHealthStatus {
            dependents: stage.protector.machine().debts().status(),
            protection: Protection::Active,
            ..Default::default()
        };
        stage.protector = protector(&stage.seed, &stage.settings, Some(&known));
    }
    stage.seed.forget_calls();
    stage
}

/// Down and up again, with one request failing on the way.
async fn scale_fails(target: Target, failure: Failure, aim: Aim) {
    let case = format!("{target:?} {failure:?} {aim:?}");
    let mut stage = stage_for(target, aim, &case).await;
    let matches = move |call: &Call| call.brief() == target.request;
    stage.seed.fail(failure, (0, usize::MAX), matches);
    stage.act(aim).await;

    let problems = stage.problems();
    assert_eq!(problems.len(), 1, "{case}: {problems:?}");
    assert_eq!(
        problems[0].reason,
        reason(target, failure),
        "{case}: {problems:?}"
    );
    assert!(
        problems[0].message.contains("first"),
        "{case}: {problems:?}"
    );
    let briefs = stage.seed.briefs();
    // Nothing is owed any more to what has been deleted.
    let passes = aim == Aim::Restore && problems[0].reason == "DependentMissing";
    assert_eq!(
        briefs.iter().any(|call| call.contains("second")),
        passes,
        "the flow ends at its level: {case}: {briefs:?}"
    );
    let tries = briefs
        .iter()
        .filter(|call| **call == target.request)
        .count();
    let vanished = failure == Failure::Status(404);
    let expected = match target.request.split_once(' ') {
        _ if problems[0].reason == "ScalingConflicts" => 6,
        // What is not there when it is written is looked at again, as what has changed is.
        Some(("PATCH", _)) if vanished => 6,
        // And so is what was there a moment ago, when its kind has been looked up anew.
        Some(("GET", "etcds/scale/first")) if vanished => 2,
        _ => 1,
    };
    assert_eq!(tries, expected, "{case}: {briefs:?}");
    if passes {
        stage.assert_up("deployments", "second", &case);
        assert!(!stage.entry("first").owed, "{case}");
        return;
    }
    if aim == Aim::Restore {
        assert!(stage.entry("first").owed, "{case}");
        assert!(stage.protector.machine().is_engaged(), "{case}");
    }

    stage.seed.heal();
    stage.act(aim).await;
    assert_eq!(stage.problems(), [], "{case}");
    if aim == Aim::Protect {
        stage.assert_down(target.resource, "first", &case);
        stage.assert_down("deployments", "second", &case);
        assert_eq!(
            stage.protector.machine().protection(),
            Protection::Active,
            "{case}"
        );
        stage.act(Aim::Restore).await;
    }
    // What was given up before might come about until now.
    stage.act(Aim::Restore).await;
    stage.assert_up(target.resource, "first", &case);
    stage.assert_up("deployments", "second", &case);
    assert_eq!(
        stage.protector.machine().protection(),
        Protection::None,
        "{case}"
    );
    // The marks fall by the next verdict.
    stage.act(Aim::Restore).await;
    stage.assert_up(target.resource, "first", &case);
    assert!(!stage.protector.machine().is_engaged(), "{case}");
}

#[test]
fn a_request_of_a_scale_that_fails() {
    for aim in [Aim::Protect, Aim::Restore] {
        for target in TARGETS.into_iter().filter(|target| is_sent(target, aim)) {
            for failure in Failure::ALL {
                run(scale_fails(target, failure, aim));
            }
        }
    }
}

/// The server did what was asked, but its answer was lost: it is seen to be done, and told of.
#[test]
fn a_write_whose_answer_is_lost() {
    for aim in [Aim::Protect, Aim::Restore] {
        let writes = TARGETS.into_iter().filter(|target| target.writes);
        for target in writes.filter(|target| is_sent(target, aim)) {
            for failure in Failure::ALL {
                if failure.is_ambiguous() || failure == Failure::Status(500) {
                    run(answer_is_lost(target, failure, aim));
                }
            }
        }
    }
}

async fn answer_is_lost(target: Target, failure: Failure, aim: Aim) {
    let case = format!("{target:?} {failure:?} {aim:?}");
    let mut stage = stage_for(target, aim, &case).await;
    let matches = move |call: &Call| call.brief() == target.request;
    stage.seed.fail_committed(failure, (0, usize::MAX), matches);
    stage.act(aim).await;
    assert_eq!(stage.problems(), [], "{case}");
    let briefs = stage.seed.briefs();
    let tries = briefs.iter().filter(|call| **call == target.request);
    assert_eq!(tries.count(), 1, "{case}: {briefs:?}");
    let news = stage.protector.take_news();
    let told: Vec<_> = news
        .iter()
        .map(|news| match &news.event.what {
            What::Did(step, _) => (&*news.event.dependent.reference.name, *step),
            other => panic!("{case}: {other:?}"),
        })
        .collect();
    let (step, protection) = match aim {
        Aim::Protect => (Step::ScaleDown { from: 3 }, Protection::Active),
        _ => (Step::ScaleUp { to: 3 }, Protection::None),
    };
    assert_eq!(told, [("first", step), ("second", step)], "{case}");
    assert_eq!(stage.protector.machine().protection(), protection, "{case}");
    for (resource, name) in [(target.resource, "first"), ("deployments", "second")] {
        match aim {
            Aim::Protect => stage.assert_down(resource, name, &case),
            _ => stage.assert_up(resource, name, &case),
        }
    }
}

/// A mark that could not be removed is removed by a later verdict; until then it is known of. It keeps no other.
#[test]
fn a_mark_that_cannot_be_removed_is_kept() {
    for (removal, marked) in [
        ("PATCH deployments/first", [true, false]),
        ("PATCH etcds/second", [false, true]),
    ] {
        run(async move {
            let mut stage =
                Stage::new(&[info("Deployment", "first", 0), info("Etcd", "second", 1)]);
            stage.act(Aim::Protect).await;
            stage.act(Aim::Restore).await;
            let fails = move |call: &Call| call.brief() == removal;
            stage.seed.fail(Failure::Status(503), (0, 1), fails);
            stage.act(Aim::Restore).await;
            assert!(stage.protector.machine().is_engaged(), "{removal}");
            assert_eq!(stage.protector.machine().protection(), Protection::None);
            let kept = ["first", "second"].map(|name| stage.entry(name).keeps_mark);
            assert_eq!(kept, marked, "{removal}");
            stage.act(Aim::Restore).await;
            stage.assert_up("deployments", "first", "removed");
            stage.assert_up("etcds", "second", "removed");
            assert!(!stage.protector.machine().is_engaged());
        });
    }
}

/// Where it cannot be read once more, nothing is known to be done.
#[test]
fn a_write_of_which_nothing_is_known_has_failed() {
    run(async {
        let mut stage = Stage::new(&[
            info("Deployment", "first", 0),
            info("Deployment", "second", 1),
        ]);
        let patches = |call: &Call| call.brief() == "PATCH deployments/first";
        stage.seed.fail_committed(Failure::Reset, (0, 1), patches);
        let again = |call: &Call| call.brief() == "GET deployments/first";
        stage.seed.fail(Failure::Status(503), (1, 1), again);
        stage.act(Aim::Protect).await;
        assert_eq!(stage.problems()[0].reason, "ScalingFailed");
        assert!(stage.entry("first").owed);
        assert_eq!(stage.replicas("deployments", "second"), 3);
        stage.act(Aim::Protect).await;
        stage.assert_down("deployments", "first", "once it can be read");
        stage.assert_down("deployments", "second", "once it can be read");
    });
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
    stage.act(Aim::Protect).await;
    assert!(stage.protector.machine().is_engaged(), "{case}");
    stage.act(Aim::Restore).await;
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
    stage.verdict(Aim::Protect);
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
        stage.act(Aim::Protect).await;
        assert_eq!(stage.replicas("deployments", "first"), 0);
    }
    stage.act(Aim::Restore).await;
    assert_eq!(stage.replicas("deployments", "first"), newest);
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
        stage.act(Aim::Protect).await;
        assert_eq!(stage.replicas("etcds", "first"), 0);
        stage.act(Aim::Restore).await;
        assert_eq!(stage.replicas("etcds", "first"), 5);
    });
}

/// Of a mark and replicas that are read by two requests each may be of another moment: together they
/// would be somebody else's zero, which is nobody's to restore.
#[test]
fn what_two_requests_read_is_of_one_version() {
    for times in 1..=6 {
        run(torn(times));
    }
}

/// Another instance scales it down between the two requests, and its controller goes on telling.
async fn torn(times: usize) {
    let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
    let mut told = 0;
    stage.seed.interfere(
        times,
        |call| call.brief() == "GET etcds/scale/first",
        move |object| {
            told += 1;
            object["metadata"]["annotations"] = json!({MARK: "", RECORD: "3"});
            object["spec"]["replicas"] = json!(0);
            object["status"] = json!({"observed": told});
        },
    );
    stage.act(Aim::Protect).await;
    assert_eq!(stage.seed.writes().len(), 0, "{times}");
    if times <= 5 {
        stage.assert_down("etcds", "first", &times.to_string());
    } else {
        assert_eq!(stage.problems()[0].reason, "ScalingConflicts");
    }
}

/// The server lets go of a write whose answer nobody waits for any more.
#[test]
fn each_write_says_how_long_it_is_waited_for() {
    run(async {
        let mut stage = Stage::new(&[info("Deployment", "first", 0), info("Etcd", "second", 1)]);
        stage.act(Aim::Protect).await;
        stage.act(Aim::Restore).await;
        let writes = stage.seed.writes();
        assert_eq!(writes.len(), 3 + 2, "{writes:?}");
        let bounded = |call: &Call| call.parameter("timeout") == Some("10s");
        assert!(writes.iter().all(bounded), "{writes:?}");
    });
}

/// A flow that is stopped while a request is under way writes nothing after it.
#[test]
fn a_stopped_flow_sends_no_further_write() {
    for target in TARGETS {
        run(stopped(target));
    }
}

/// Whoever ends the process may not start another: no dependent is left marked and up.
#[test]
fn the_end_of_the_process_leaves_no_step_half_written() {
    for target in TARGETS {
        run(shut_down(target));
    }
}

async fn shut_down(target: Target) {
    let mut stage = Stage::new(&[
        info(target.kind, "first", 0),
        info("Deployment", "second", 1),
    ]);
    let release = stage.seed.hold(move |call| call.brief() == target.request);
    stage.verdict(Aim::Protect);
    stage.until_asked(target.request).await;
    let ended = stage.protector.shut_down();
    let ((), answered) = tokio::join!(ended, async { release.send(()) });
    answered.unwrap();
    let replicas = if target.writes { 0 } else { 3 };
    assert_eq!(
        stage.replicas(target.resource, "first"),
        replicas,
        "{target:?}"
    );
    let annotations = &stage.object(target.resource, "first")["metadata"]["annotations"];
    assert_eq!(annotations[MARK] == "", target.writes, "{target:?}");
    assert_eq!(stage.replicas("deployments", "second"), 3, "{target:?}");
    assert_eq!(
        stage.protector.machine().is_engaged(),
        target.writes,
        "{target:?}"
    );
}

/// A seed that does not answer keeps the process from its end for so long, and no longer.
#[test]
fn the_end_of_the_process_does_not_wait_for_a_turn_for_ever() {
    run(async {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        let release = stage.seed.hold(|call| call.brief() == "PATCH etcds/first");
        stage.verdict(Aim::Protect);
        stage.until_asked("PATCH etcds/first").await;
        let began = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            release.send(()).unwrap();
        };
        tokio::join!(stage.protector.shut_down(), late);
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(stage.replicas("etcds", "first"), 3);
        // Its record tells the number, and the next verdict takes it up.
        assert!(stage.protector.machine().is_engaged());
    });
}

async fn stopped(target: Target) {
    let mut stage = Stage::new(&[
        info(target.kind, "first", 0),
        info("Deployment", "second", 1),
    ]);
    let release = stage.seed.hold(move |call| call.brief() == target.request);
    stage.verdict(Aim::Protect);
    stage.until_asked(target.request).await;
    let before = stage.seed.writes().len();
    doubt(&mut stage.protector);
    release.send(()).unwrap();
    stage.follow().await;
    assert_eq!(stage.seed.writes().len(), before, "{target:?}");
    // Whatever was taken is known, so that the cluster is not let go.
    let annotations = &stage.object(target.resource, "first")["metadata"]["annotations"];
    let marked = annotations[MARK] == "";
    assert_eq!(marked, target.writes, "{target:?}");
    assert_eq!(stage.protector.machine().is_engaged(), marked, "{target:?}");
    // What was written is taken up by whichever verdict comes next.
    stage.act(Aim::Restore).await;
    assert_eq!(stage.replicas(target.resource, "first"), 3, "{target:?}");
    stage.act(Aim::Restore).await;
    let annotations = &stage.object(target.resource, "first")["metadata"]["annotations"];
    assert_eq!(annotations[MARK], Value::Null, "{target:?}");
    assert!(!stage.protector.machine().is_engaged());
}
