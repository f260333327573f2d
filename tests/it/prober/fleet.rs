//! The whole prober against a scripted seed: what it reports, whom it lets go, and how policies
//! come and go.

use std::time::Duration;

use crate::support::{
    DOWN, Failure, INTERVAL, RUNNING, Read, Runs, World, change_policy, condition, policy, run,
};
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

/// One request to the shoot for each probe and one each minute for its state, none to the seed but the
/// renewal of three watches each minute, and one connection.
#[tokio::test]
async fn a_healthy_cluster_costs_the_seed_nothing() {
    let world = World::running(&["a", "b"]).await;
    for name in ["a", "b"] {
        world.reason(name, "Healthy").await;
    }
    policy_reason(&world, "p", "Ready", "Probing").await;
    // The first write of a status is followed by those of what has come meanwhile, and the first
    // look at the dependents by another: a write of an earlier process might still arrive.
    world.clock.pass(INTERVAL * 11).await;
    world.seed.forget_calls();
    let reads = world.shoot("a").reads().len();
    let ready = world.shoot("a").count(Read::Ready);
    for _ in 0..14 {
        world.more_reads("a", Read::Cached, 1).await;
    }
    let is_watch = |call: &String| call.ends_with("(watch)");
    let (watches, others): (Vec<_>, Vec<_>) = world.seed.briefs().into_iter().partition(is_watch);
    assert_eq!(others, Vec::<String>::new());
    assert!(watches.len() <= 3 * 3, "{watches:?}");
    let ready = world.shoot("a").count(Read::Ready) - ready;
    assert!((2..=3).contains(&ready), "{ready}");
    assert_eq!(world.shoot("a").reads().len(), reads + 14 + ready);
    assert_eq!(world.shoot("a").connections(), 1);
}

/// The ways in which an outage's first write fails, and what is reported.
#[test]
fn a_dependent_that_cannot_be_scaled_degrades_the_cluster() {
    let _runs = Runs::begin();
    for (failure, reason) in [
        (Failure::Status(403), "ScalingForbidden"),
        (Failure::Status(409), "ScalingConflicts"),
        (Failure::Status(503), "ScalingFailed"),
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

/// The order of levels, over the whole way of an outage.
#[tokio::test]
async fn an_outage_is_protected_from_and_restored_in_order() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(20);
    let status = world.protection("a", "Active").await;
    assert_eq!(condition(&status, "Protecting")["status"], "True");
    assert_eq!(
        status["leases"],
        json!({"candidates": 4, "expired": 4, "unknown": 0})
    );
    for (entry, replicas) in status["dependents"]
        .as_array()
        .unwrap()
        .iter()
        .zip([3, 1, 2])
    {
        assert_eq!(entry["owed"], true);
        assert_eq!(entry["recordedReplicas"], replicas);
    }
    let order = |world: &World| {
        let writes = world.seed.writes();
        writes.iter().map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&world), ["kcm", "mcm", "ca"]);
    policy_reason(&world, "p", "Protecting", "Outage").await;
    assert_eq!(
        policy_status(&world, "p")["protectedClusters"],
        json!(["a"])
    );
    world.seed.forget_calls();
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_eq!(order(&world), ["ca", "mcm", "kcm"]);
    assert_eq!(world.replicas("a"), RUNNING);
    policy_reason(&world, "p", "Protecting", "NoOutage").await;
}

#[tokio::test]
async fn dry_run_writes_to_no_dependent() {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.shoot("a").silence(100);
    world.start();
    let status = world.reason("a", "Outage").await;
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("DryRun"), "{message}");
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(world.seed.writes().len(), 0);
    assert_eq!(world.health("a")["protection"], "None");
    // In earnest, the outage that is known by now is acted on at once.
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("Enforce")
    });
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
    // A protection that was in earnest stays as it is.
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.shoot("a").renew();
    let status = world.reason("a", "Healthy").await;
    assert_eq!(status["protection"], "Active");
    world.clock.pass(Duration::from_secs(30)).await;
    assert_eq!(world.replicas("a"), DOWN);
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("Enforce")
    });
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

#[tokio::test]
async fn suspend_stops_probes_and_keeps_marks() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    let status = world.reason("a", "Suspended").await;
    assert_eq!(status["protection"], "Active");
    assert_eq!(status["skipped"], "Suspended");
    world.shoot("a").renew();
    let reads = world.shoot("a").reads().len();
    let writes = world.seed.writes().len();
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(world.shoot("a").reads().len(), reads);
    assert_eq!(world.seed.writes().len(), writes);
    assert_eq!(world.replicas("a"), DOWN);
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
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
    let status = policy_reason(&world, "p", "Ready", "NothingJudged").await;
    let ready = condition(&status, "Ready");
    assert_eq!(ready["status"], "False");
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.contains("a (Unreadable), b (Unreadable)"),
        "{message}"
    );
    assert_eq!(status["clusters"]["undetermined"], 2, "{status}");
    for cluster in ["a", "b"] {
        change(cluster, true);
    }
    policy_reason(&world, "p", "Ready", "Probing").await;
    policy_reason(&world, "p", "Degraded", "AsExpected").await;
}

/// A policy that is deleted, or stops selecting, leaves no cluster behind at zero.
#[test]
fn a_protected_cluster_without_a_policy_is_kept_until_it_is_healthy() {
    let _runs = Runs::begin();
    type Change = fn(&World);
    let ways: [Change; 3] = [
        |world| world.seed.delete("probepolicies", "", "p"),
        |world| {
            change_policy(world, "p", |policy| {
                policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "z"}});
            });
        },
        |world| {
            change_policy(world, "p", |policy| {
                policy["spec"]["nodeLeaseFailureFraction"] = json!(0);
            });
        },
    ];
    for change in ways {
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            world.shoot("a").silence(100);
            world.protection("a", "Active").await;
            change(&world);
            world.clock.pass(Duration::from_secs(60)).await;
            assert_eq!(world.replicas("a"), DOWN);
            let status = world.health("a");
            assert_eq!(status["protection"], "Active");
            assert_eq!(status["policy"], "p");
            world.shoot("a").renew();
            world
                .health_where("a", "its record is gone", Value::is_null)
                .await;
            assert_eq!(world.replicas("a"), RUNNING);
        });
    }
}
