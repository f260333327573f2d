//! The kinds of dependents over a scripted seed: what is believed when a seed does not serve one any more, and
//! what somebody else does between the two requests that a kind with `scale` takes.

use std::time::Duration;

use crate::support::{Call, Failure, Stage, info, run};
use dependency_watchdog::prober::step::{Aim, MARK, RECORD};
use serde_json::{Value, json};

fn optional(kind: &str, name: &str, level: i32) -> Value {
    let mut info = info(kind, name, level);
    info["optional"] = json!(true);
    info
}

/// A proxy that has lost its way says nothing of a Deployment.
#[test]
fn what_is_owed_is_not_gone_with_its_path() {
    run(async {
        let mut stage = Stage::new(&[optional("Deployment", "first", 0)]);
        stage.act(Aim::Down).await;
        stage.seed.fail(Failure::Unserved, (0, usize::MAX), |call| {
            call.resource == "deployments"
        });
        stage.act(Aim::Up).await;
        assert_eq!(stage.problems()[0].reason, "ScalingFailed");
        stage.assert_down("deployments", "first", "not served");
        stage.seed.heal();
        stage.act(Aim::Up).await;
        stage.assert_up("deployments", "first", "served again");
    });
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
        stage.act(Aim::Down).await;
        assert_eq!(stage.replicas("etcds", "first"), 0);
        stage.act(Aim::Up).await;
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
    stage.verdict(Aim::Down);
    stage.advance(Duration::from_secs(1)).await;
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
        stage.act(Aim::Down).await;
        stage.act(Aim::Up).await;
        let writes = stage.seed.writes();
        assert_eq!(writes.len(), 3 + 2 + 2, "{writes:?}");
        let bounded = |call: &Call| call.parameter("timeout") == Some("10s");
        assert!(writes.iter().all(bounded), "{writes:?}");
    });
}
