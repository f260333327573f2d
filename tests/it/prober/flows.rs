//! How dependents are scaled, over a scripted seed: in which order, and what delays and stops that.

use std::{num::NonZeroU32, time::Duration};

use crate::support::{
    Call, EVER, Failure, INTERVAL, Runs, Stage, doubt, healthy, info, new_acting, outage, run,
    selected,
};
use dependency_watchdog::{
    api::Protection,
    prober::{scale::Scaler, step::Aim},
    runtime::seed::{LEAST_QPS, Rate, Seed},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

/// Whether it is no mark that falls.
fn scales(call: &Call) -> bool {
    call.body["spec"]["replicas"].is_i64()
}

/// Each delay begins when the level before is done, and those of one level run at the same time.
#[test]
fn delays_of_an_undisturbed_restore_follow_its_levels() {
    run(async {
        let restored = |name: &str, level: i32, delay: u64| {
            let mut info = info("Deployment", name, 0);
            info["scaleUp"] = json!({"level": level, "initialDelay": format!("{delay}s")});
            info
        };
        let mut stage = Stage::new(&[
            restored("first", 0, 10),
            restored("second", 1, 20),
            restored("beside", 1, 0),
            restored("third", 2, 30),
        ]);
        stage.act(Aim::Down).await;
        stage.seed.forget_calls();
        let begin = Instant::now();
        stage.act(Aim::Up).await;
        let at = |call: Call| (call.name, (call.at - begin).as_millis());
        let writes = stage.seed.writes().into_iter().filter(scales);
        let times: Vec<(String, u128)> = writes.map(at).collect();
        let expected = [
            ("first", 10_000),
            ("beside", 10_050),
            ("second", 30_050),
            ("third", 60_100),
        ];
        assert_eq!(times.len(), expected.len(), "{times:?}");
        for ((name, at), (expected, due)) in times.iter().zip(expected) {
            assert_eq!(name, expected, "{times:?}");
            // tokio's timers are rounded up to milliseconds.
            assert!((due..due + 10).contains(at), "{times:?}");
        }
    });
}

/// A dependent that is restored after 25 seconds.
async fn down_with_a_delay() -> Stage {
    let mut first = info("Deployment", "first", 0);
    first["scaleUp"]["initialDelay"] = json!("25s");
    let mut stage = Stage::new(&[first]);
    stage.act(Aim::Down).await;
    stage.seed.forget_calls();
    stage
}

/// Each ten seconds there is a healthy verdict (+), doubt (?), a Gate that does not pass (g), or an
/// outage (-).
#[test]
fn doubt_does_not_begin_the_delay_of_a_restore_anew() {
    let _runs = Runs::begin();
    for (verdicts, expected) in [
        ("+++", 25),
        ("+?+", 25),
        ("?++", 35),
        // The delay ends in the midst of doubt.
        ("++?+", 30),
        ("+?????+", 60),
        ("+?+?+", 25),
        ("+g+", 25),
        ("++g+", 30),
        ("+-+", 45),
        ("++-?+", 65),
        ("+?-+?+", 55),
    ] {
        run(async move {
            let mut stage = down_with_a_delay().await;
            let begin = Instant::now();
            for verdict in verdicts.chars() {
                match verdict {
                    '+' => stage.verdict(Aim::Up),
                    '-' => stage.verdict(Aim::Down),
                    'g' => healthy(&mut stage.acting, Some("closed")),
                    _ => doubt(&mut stage.acting),
                }
                stage.advance(INTERVAL).await;
            }
            stage.follow().await;
            let writes = stage.seed.writes().into_iter().filter(scales);
            let writes: Vec<Call> = writes.collect();
            assert_eq!(writes.len(), 1, "{verdicts}");
            let waited = (writes[0].at - begin).as_millis();
            let due = expected * 1_000;
            assert!((due..due + 10).contains(&waited), "{verdicts}: {waited}");
            stage.assert_up("deployments", "first", verdicts);
        });
    }
}

#[test]
fn a_wait_that_outlasts_its_timeout_is_reported_and_passed() {
    let _runs = Runs::begin();
    for aim in [Aim::Down, Aim::Up] {
        run(late(aim));
    }
}

/// Two dependents, one after the other, that are to be brought where this aim wants them, and the first
/// of which does not come to be there.
async fn waiting_for_the_first(aim: Aim) -> Stage {
    let mut stage = Stage::new(&[
        info("Deployment", "first", 0),
        info("Deployment", "second", 1),
    ]);
    if aim == Aim::Up {
        stage.act(Aim::Down).await;
    }
    stage.seed.follow("first", false);
    stage.seed.forget_calls();
    stage
}

/// How long the second waits for the first: on the way down for a third of what the expiry, at 30 s, leaves of
/// the grace of 40 s.
fn patience(aim: Aim) -> Duration {
    match aim {
        Aim::Down => Duration::from_millis(3_333),
        _ => Duration::from_secs(30),
    }
}

async fn late(aim: Aim) {
    let mut stage = waiting_for_the_first(aim).await;
    let begin = Instant::now();
    stage.verdict(aim);
    stage.follow().await;
    let problems = stage.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].reason, "ScalingLate");
    let writes = stage.seed.writes();
    assert_eq!(writes[1].name, "second");
    let waited = writes[1].at - begin;
    let timeout = patience(aim);
    assert!(
        waited >= timeout && waited < timeout + Duration::from_millis(100),
        "{aim:?}: {waited:?}"
    );
    assert!(stage.entry("first").owed, "owed until it is really there");
    stage.seed.follow("first", true);
    stage.act(aim).await;
    assert_eq!(stage.problems(), []);
    assert_eq!(stage.entry("first").owed, aim == Aim::Down);
}

/// The verdicts of an outage come every few seconds, for hours perhaps, and of a thousand clusters.
#[test]
fn what_fails_is_tried_again_at_once_and_what_is_refused_after_a_pause() {
    let _runs = Runs::begin();
    for (failure, reason, expected) in [
        (Failure::Status(404), "DependentMissing", 7),
        (Failure::Status(403), "ScalingForbidden", 7),
        (Failure::Status(409), "ScalingFailed", 21),
        (Failure::Status(503), "ScalingFailed", 21),
    ] {
        run(async move {
            let mut stage = Stage::new(&[
                info("Deployment", "first", 0),
                info("Deployment", "second", 1),
            ]);
            let reads = |call: &Call| call.brief() == "GET deployments/second";
            stage.seed.fail(failure, (0, usize::MAX), reads);
            for _ in 0..20 {
                stage.verdict(Aim::Down);
                stage.advance(Duration::from_secs(3)).await;
            }
            assert_eq!(stage.problems()[0].reason, reason);
            let looks = stage.seed.calls().into_iter().filter(reads).count();
            assert_eq!(looks, expected, "{failure:?}");
            stage.seed.heal();
            for _ in 0..5 {
                stage.verdict(Aim::Down);
                stage.advance(Duration::from_secs(3)).await;
            }
            stage.assert_down("deployments", "second", "mended");
        });
    }
}

/// A scale-down whose evidence counts for that many seconds, and whose writes wait for a turn that does
/// not come within any test: the reads have used the budget up, and the limiter goes by the real
/// clock.
async fn queued(seconds: u64) -> Stage {
    let mut stage = Stage::new(&[
        info("Deployment", "first", 0),
        info("Deployment", "second", 0),
    ]);
    let (qps, burst) = (LEAST_QPS, NonZeroU32::new(2).unwrap());
    let rate = Rate { qps, burst };
    let client = stage.seed.unlimited().client().clone();
    let seed = Seed::within(client, rate, rate, &Default::default());
    stage.acting = new_acting("a", Scaler::new(seed), None);
    stage.acting.learn(selected(&stage.settings));
    outage(&mut stage.acting, 5, Duration::from_secs(seconds));
    stage.advance(Duration::from_secs(1)).await;
    assert_eq!(
        stage.seed.briefs(),
        ["GET deployments/first", "GET deployments/second"]
    );
    assert_eq!(stage.acting.decider().protection(), Protection::ScalingDown);
    stage
}

#[test]
fn a_write_that_waits_for_its_turn_ends_with_its_evidence() {
    run(async {
        let mut stage = queued(15).await;
        let begin = Instant::now();
        timeout(EVER, stage.acting.progress()).await.unwrap();
        assert_eq!(begin.elapsed().as_secs(), 14);
        assert_eq!(stage.acting.decider().protection(), Protection::None);
        assert_eq!(stage.written(), Vec::<String>::new());
    });
}
