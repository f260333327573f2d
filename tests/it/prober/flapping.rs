//! A cluster that is protected again and again is given back after its leases have been fresh for a while.

use std::time::Duration;

use crate::support::{
    Call, DOWN, Failure, LONG, RUNNING, World, change_policy, condition, deselect, protected,
};
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

fn times(status: &Value) -> usize {
    status["recentProtections"].as_array().unwrap().len()
}

#[tokio::test]
async fn each_further_protection_within_an_hour_is_given_back_later() {
    let world = protected().await;
    // Verdicts come every few seconds.
    for (least, most) in [(0, 11), (15, 30), (30, 45), (60, 75), (120, 135)] {
        if least > 0 {
            break_again(&world).await;
        }
        let after = given_back_after(&world).await;
        assert!((least..=most).contains(&after), "{after} s, not {least} s");
    }
    assert_eq!(times(&world.health("a")), 5);
    world.clock.pass(Duration::from_secs(3600)).await;
    break_again(&world).await;
    assert!(given_back_after(&world).await <= 11);
    assert_eq!(times(&world.health("a")), 1);
}

/// It says so; an outage begins the wait anew, doubt does not, and a new leader knows of it.
#[tokio::test]
async fn the_wait_is_told_and_outlives_a_restart() {
    let mut world = protected().await;
    for _ in 0..3 {
        given_back_after(&world).await;
        break_again(&world).await;
    }
    world.stop().await;
    world.start();
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    let flaps = |status: &Value| condition(status, "Protecting")["reason"] == "Flapping";
    let status = world.health_where("a", "it is told", flaps).await;
    let message = condition(&status, "Protecting")["message"]
        .as_str()
        .unwrap();
    assert!(
        message.contains("protected 4 times within an hour"),
        "{message}"
    );
    assert_eq!(world.replicas("a"), DOWN);
    world.clock.pass(Duration::from_secs(30)).await;
    break_again(&world).await;
    world.clock.pass(LONG).await;
    let after = given_back_after(&world).await;
    assert!(after >= 60, "{after}");
}

/// Nobody waits for that where no policy selects the cluster any more.
#[tokio::test]
async fn what_is_let_go_does_not_wait() {
    let world = protected().await;
    for _ in 0..3 {
        given_back_after(&world).await;
        break_again(&world).await;
    }
    change_policy(&world, "p", deselect);
    assert!(given_back_after(&world).await <= 15);
}

/// An outage that begins before all is back is another protection.
#[tokio::test]
async fn an_outage_within_a_restore_is_counted() {
    let world = protected().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["initialDelay"] = json!("30s");
    });
    for count in 2..=5 {
        world.shoot("a").renew();
        world.protection("a", "Restoring").await;
        break_again(&world).await;
        assert_eq!(times(&world.health("a")), count);
    }
    assert!((120..=135).contains(&given_back_after(&world).await));
}

/// An outage that was over before all was down has scaled down the rest.
#[tokio::test]
async fn a_protection_that_was_never_complete_is_counted() {
    let world = protected().await;
    given_back_after(&world).await;
    for count in 2..=3 {
        let of_another = |call: &Call| call.method == "PATCH" && call.name == "mcm";
        world
            .seed
            .fail(Failure::Status(500), (0, usize::MAX), of_another);
        world.shoot("a").silence(100);
        let begun = || (world.replicas("a") != RUNNING).then_some(());
        world.clock.until("something is taken", begun).await;
        world.clock.pass(Duration::from_secs(1)).await;
        world.shoot("a").renew();
        world.seed.heal();
        world.protection("a", "None").await;
        assert_eq!(times(&world.health("a")), count);
    }
}
