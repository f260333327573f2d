//! A protection that lasts for as long as its policy lets it.

use std::time::Duration;

use crate::support::{DOWN, LONG, RUNNING, World, change_policy, condition, run};
use serde_json::{Value, json};

/// How long the cluster `a` may be protected.
const AFTER: Duration = Duration::from_secs(300);

fn max(policy: &mut Value) {
    policy["spec"]["maxProtection"] = json!("5m");
    // Nothing else is to be what ends it, nor to hold it up.
    policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["awaitNodes"] = json!("1h");
}

/// The cluster `a`, protected, of a policy that is changed like this.
async fn protected(change: impl Fn(&mut Value)) -> World {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", change);
    world.start();
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world
}

fn reached(status: &Value) -> bool {
    status["maxProtectionReached"].is_string()
}

async fn is_given_back(world: &World) {
    world.health_where("a", "it is ended", reached).await;
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

/// It is given back although nothing has changed, and the same nodes take nothing again, whoever leads.
/// What falls silent anew is another outage.
#[tokio::test]
async fn a_protection_that_lasts_too_long_is_given_back_once() {
    let mut world = protected(max).await;
    world.clock.pass(AFTER - LONG).await;
    assert_eq!(world.replicas("a"), DOWN);
    assert!(!reached(&world.health("a")));
    is_given_back(&world).await;
    let told = || {
        let mut events = world.seed.events().into_iter();
        events.find(|event| event.body["reason"] == "MaxProtectionReached")
    };
    world.clock.until("an event", told).await;
    for restart in [false, true] {
        if restart {
            world.stop().await;
            world.start();
        }
        world.clock.pass(2 * AFTER).await;
        assert_eq!(world.replicas("a"), RUNNING, "{restart}");
        let status = world.health("a");
        assert_eq!(
            (&status["protection"], &status["reason"]),
            (&json!("None"), &json!("Healthy"))
        );
        assert!(reached(&status), "{status}");
    }
    // The marks fall as ever.
    assert!(!crate::support::is_marked(&world).contains(&true));
    world.shoot("a").renew();
    world
        .health_where("a", "all renew", |status| !reached(status))
        .await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
}

/// A leader that comes in the midst of it goes on.
#[tokio::test]
async fn a_protection_that_is_being_ended_is_ended_by_the_next_leader() {
    let mut world = protected(|policy| {
        max(policy);
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["initialDelay"] = json!("30s");
    })
    .await;
    world.clock.pass(AFTER - LONG).await;
    world.health_where("a", "it is ended", reached).await;
    world.stop().await;
    assert_ne!(world.replicas("a"), RUNNING);
    world.start();
    is_given_back(&world).await;
}

/// Outages that begin within a restore are protections of their own, none of which lasts for long.
#[tokio::test]
async fn an_outage_within_a_restore_is_bounded_from_its_own_beginning() {
    let world = protected(|policy| {
        max(policy);
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["initialDelay"] = json!("30s");
    })
    .await;
    let since = world.health("a")["protectedSince"].clone();
    let begun = world.clock.elapsed();
    for _ in 0..3 {
        world.shoot("a").renew();
        world.protection("a", "Restoring").await;
        world.shoot("a").silence(100);
        world.protection("a", "Active").await;
        world.clock.pass(AFTER / 3).await;
    }
    assert!(world.clock.elapsed() > begun + AFTER);
    let status = world.health("a");
    assert_eq!(status["protectedSince"], since);
    assert!(!reached(&status), "{status}");
    world.clock.pass(AFTER).await;
    assert!(reached(&world.health("a")));
}

/// A policy that writes nothing comes before it.
#[test]
fn what_a_policy_holds_back_is_not_given_back() {
    for hold in [json!({"suspend": true}), json!({"mode": "DryRun"})] {
        run(async move {
            let world = protected(max).await;
            change_policy(&world, "p", |policy| {
                let spec = policy["spec"].as_object_mut().unwrap();
                spec.extend(hold.as_object().unwrap().clone());
            });
            world.clock.pass(AFTER + LONG).await;
            assert_eq!(world.replicas("a"), DOWN, "{hold}");
            assert!(!reached(&world.health("a")));
        });
    }
}

/// Without a limit it is only reported, after half an hour.
#[tokio::test]
async fn a_protection_without_a_limit_is_reported() {
    let world = protected(|_| ()).await;
    let half_an_hour = Duration::from_secs(30 * 60);
    world.clock.pass(half_an_hour - LONG).await;
    let overdue = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().any(|it| it["type"] == "ProtectedTooLong")
    };
    assert!(!overdue(&world.health("a")));
    world.health_where("a", "it is reported", overdue).await;
    world.clock.pass(half_an_hour).await;
    assert_eq!(world.replicas("a"), DOWN);
    let status = world.health("a");
    assert!(!reached(&status));
    assert_eq!(condition(&status, "Protecting")["status"], "True");
}
