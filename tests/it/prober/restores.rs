//! When a protected cluster is given back: by turns, later if it falls again, and at last.

use std::time::Duration;

use crate::support::{DOWN, LONG, RUNNING, World, change_policy, is_marked, protected, run};
use serde_json::{Value, json};

/// Heals the cluster, and tells after how many seconds of fresh leases it was given back.
async fn given_back_after(world: &World) -> u64 {
    world.shoot("a").renew();
    let mut seconds = 0;
    while world.replicas("a") == DOWN {
        assert!(seconds < 150, "it is not given back");
        world.clock.pass(Duration::from_secs(1)).await;
        seconds += 1;
    }
    world.clock.pass(Duration::from_secs(5)).await;
    seconds
}

async fn break_again(world: &World) {
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
}

#[tokio::test]
async fn what_was_given_back_within_the_hour_is_given_back_later() {
    let mut world = protected().await;
    // Verdicts come every few seconds.
    assert!(given_back_after(&world).await <= 11);
    for is_restarted in [false, true] {
        if is_restarted {
            world.stop().await;
            world.start();
        }
        break_again(&world).await;
        let after = given_back_after(&world).await;
        assert!((60..=75).contains(&after), "{after} s");
    }
    world.clock.pass(Duration::from_secs(3600)).await;
    break_again(&world).await;
    assert!(given_back_after(&world).await <= 11);
}

/// How long the cluster `a` may be protected.
const AFTER: Duration = Duration::from_secs(300);

/// The cluster `a`, protected, of a policy that limits that.
async fn limited() -> World {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["maxProtection"] = json!("5m");
        // Nothing else is to be what ends it, nor to hold it up.
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["awaitNodes"] = json!("1h");
    });
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
    let mut world = limited().await;
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
    assert!(!is_marked(&world).contains(&true));
    world.shoot("a").renew();
    world
        .health_where("a", "all renew", |status| !reached(status))
        .await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
}

/// A policy that writes nothing comes before it.
#[test]
fn what_a_policy_holds_back_is_not_given_back() {
    for hold in [json!({"suspend": true}), json!({"mode": "DryRun"})] {
        run(async move {
            let world = limited().await;
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
