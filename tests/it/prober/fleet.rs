//! The whole prober against a scripted seed: what it reports, whom it lets go, and how policies
//! come and go.

use crate::support::{DOWN, Failure, RUNNING, Runs, World, change_policy, condition, policy, run};
use serde_json::{Value, json};

/// The status of a policy.
fn policy_status(world: &World, name: &str) -> Value {
    world.seed.get("probepolicies", "", name).unwrap()["status"].clone()
}

/// Waits until a condition of a policy has this reason.
async fn policy_reason(world: &World, name: &str, kind: &str, reason: &str) -> Value {
    let what = format!("{kind} of {name} is {reason}");
    let found = || {
        let status = policy_status(world, name);
        let conditions = status["conditions"].as_array()?;
        let holds = conditions
            .iter()
            .any(|it| it["type"] == kind && it["reason"] == reason);
        holds.then_some(status)
    };
    world.clock.until(&what, found).await
}

/// The ways in which an outage's first write fails, and what is reported.
#[test]
fn a_dependent_that_cannot_be_scaled_degrades_the_cluster() {
    let _runs = Runs::begin();
    for (failure, reason) in [
        (Failure::Status(403), "ScalingForbidden"),
        (Failure::Status(409), "ScalingConflicts"),
        (Failure::Hang, "ScalingFailed"),
    ] {
        run(scaling_fails(failure, reason));
    }
}

async fn scaling_fails(failure: Failure, reason: &'static str) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").silence(100);
    world.seed.fail(failure, (0, usize::MAX), |call| {
        call.brief() == "PATCH deployments/mcm"
    });
    world.start();
    let degraded = |status: &Value| {
        let conditions = status["conditions"].as_array();
        conditions.is_some_and(|it| it.iter().any(|it| it["reason"] == reason))
    };
    let status = world.health_where("a", reason, degraded).await;
    let condition = condition(&status, "Degraded");
    assert_eq!(condition["status"], "True", "{status}");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("mcm"), "{message}");
    assert_eq!(status["reason"], "Outage");
    assert_eq!(world.replicas("a"), [0, 2, 3], "{failure:?}");
    policy_reason(&world, "p", "Degraded", "ScalingTrouble").await;
    world.seed.heal();
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
    policy_reason(&world, "p", "Degraded", "AsExpected").await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

#[tokio::test]
async fn an_invalid_policy_is_stalled_and_its_neighbours_go_on() {
    let mut world = World::new(&["a", "b"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "a"}});
    });
    let mut broken = policy("broken");
    broken["spec"]["nodeLeaseFailureFraction"] = json!(7.5);
    world.seed.put(&broken);
    let mut unreadable = policy("unreadable");
    unreadable["spec"]["probeInterval"] = json!("soon");
    world.seed.put(&unreadable);
    world.start();
    world.reason("a", "Healthy").await;
    for (name, field) in [
        ("broken", "nodeLeaseFailureFraction"),
        ("unreadable", "soon"),
    ] {
        let status = policy_reason(&world, name, "Stalled", "Invalid").await;
        let ready = condition(&status, "Ready");
        assert_eq!(ready["status"], "False");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(world.health("b"), Value::Null);
    // Corrected, it goes to work.
    change_policy(&world, "broken", |policy| {
        policy["spec"]["nodeLeaseFailureFraction"] = json!(0.5);
    });
    world.reason("b", "Healthy").await;
}

/// Gardener has given a field another type; no cluster is to be called well for that.
#[tokio::test]
async fn a_policy_whose_clusters_cannot_be_read_is_not_ready() {
    let world = World::running(&["a", "b"]).await;
    policy_reason(&world, "p", "Ready", "Probing").await;
    let change = |cluster: &str, readable: bool| {
        world.seed.change("clusters", "", cluster, |it| {
            it["spec"]["shoot"]["status"]["hibernated"] = json!((!readable).then_some("no"));
        });
    };
    change("a", false);
    let status = world.reason("a", "Unreadable").await;
    for (kind, expected) in [("Ready", "False"), ("Degraded", "True")] {
        let condition = condition(&status, kind);
        assert_eq!(condition["status"], expected, "{kind}");
        let message = condition["message"].as_str().unwrap();
        assert!(
            message.contains("spec.shoot.status.hibernated"),
            "{message}"
        );
    }
    // The other one is seen.
    let status = policy_reason(&world, "p", "Degraded", "Undetermined").await;
    assert_eq!(condition(&status, "Ready")["status"], "True");

    change("b", false);
    let status = policy_reason(&world, "p", "Degraded", "NothingJudged").await;
    let degraded = condition(&status, "Degraded");
    let message = degraded["message"].as_str().unwrap();
    assert!(
        message.contains("a (Unreadable), b (Unreadable)"),
        "{message}"
    );
    assert_eq!(status["clusters"]["undetermined"], 2, "{status}");
    for cluster in ["a", "b"] {
        change(cluster, true);
    }
    policy_reason(&world, "p", "Degraded", "AsExpected").await;
}
