//! The emergency brake and the dry run: no write to any dependent, whatever becomes of the cluster,
//! against a scripted seed.

#![allow(clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{
    INTERVAL, LONG, World, assert_kept, assert_released, assert_restored, change_policy,
    change_shoot, condition, deleting, protected, run, unreadable_grace,
};

/// What holds a policy back: the field, its value, and the value that lets it go on.
fn brakes() -> [(&'static str, Value, Value); 2] {
    [
        ("suspend", json!(true), json!(false)),
        ("mode", json!("DryRun"), json!("Enforce")),
    ]
}

/// A protected cluster whose policy is suspended.
async fn suspended() -> World {
    let world = protected().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.clock.pass(INTERVAL).await;
    world
}

#[test]
fn with_the_flag_dry_run_nothing_is_scaled_either_way() {
    run(async move {
        let mut world = World::new(&["a"]).await;
        world.dry_run = true;
        world.start();
        world.reason("a", "Healthy").await;
        world.shoot("a").silence(0);
        world.reason("a", "Outage").await;
        world.clock.pass(LONG).await;
        assert_eq!(world.health("a")["protection"], "None");
        world.stop().await;
        world.dry_run = false;
        world.start();
        world.protection("a", "Active").await;
        // Nor is what was taken given back.
        world.stop().await;
        world.dry_run = true;
        world.start();
        world.shoot("a").renew();
        world.reason("a", "Healthy").await;
        world.clock.pass(LONG).await;
        assert_kept(&world);
    });
}

#[test]
fn a_policy_that_holds_back_keeps_the_marks_of_a_skipped_cluster() {
    for (field, on, off) in brakes() {
        run(async move {
            let world = protected().await;
            change_policy(&world, "p", |policy| policy["spec"][field] = on.clone());
            change_shoot(&world, deleting);
            world.clock.pass(LONG).await;
            assert_kept(&world);
            let status = world.health("a");
            assert_eq!(condition(&status, "Protecting")["status"], "True");
            change_policy(&world, "p", |policy| policy["spec"][field] = off.clone());
            world.protection("a", "None").await;
            assert_released(&world);
        });
    }
}

/// Also if the operator was started after the brake was put on.
#[test]
fn a_policy_that_holds_back_keeps_the_marks_of_a_cluster_that_is_gone() {
    for restart in [false, true] {
        for (field, on, _) in brakes() {
            run(async move {
                let mut world = protected().await;
                change_policy(&world, "p", |policy| policy["spec"][field] = on.clone());
                world.clock.pass(INTERVAL).await;
                if restart {
                    world.stop().await;
                    world.start();
                    world.clock.pass(INTERVAL).await;
                }
                world.seed.delete("clusters", "", "a");
                world.clock.pass(LONG).await;
                assert_kept(&world);
            });
        }
    }
}

#[derive(Clone, Copy)]
enum When {
    /// In the same moment: the loop sees only that the Cluster is gone.
    AtOnce,
    /// While the operator is away.
    Away,
    /// After the Cluster, which may come back.
    Later,
}

/// The policy of now counts, and what it holds back it holds back until it does not.
#[test]
fn a_cluster_that_is_gone_waits_until_its_policy_holds_nothing_back() {
    for when in [When::AtOnce, When::Away, When::Later] {
        for (field, on, off) in brakes() {
            run(async move {
                let mut world = protected().await;
                let brake = |world: &World, to: &Value| {
                    change_policy(world, "p", |policy| policy["spec"][field] = to.clone());
                };
                match when {
                    When::AtOnce => {
                        brake(&world, &on);
                        world.seed.delete("clusters", "", "a");
                    }
                    When::Away => {
                        world.stop().await;
                        brake(&world, &on);
                        world.seed.delete("clusters", "", "a");
                        world.start();
                    }
                    When::Later => {
                        world.seed.delete("clusters", "", "a");
                        world.clock.pass(INTERVAL).await;
                        brake(&world, &on);
                    }
                }
                world.clock.pass(LONG * 2).await;
                assert_kept(&world);
                brake(&world, &off);
                world.clock.pass(LONG).await;
                assert_released(&world);
            });
        }
    }
}

/// Nobody can tell by what to judge it.
#[tokio::test]
async fn a_suspended_policy_holds_back_whatever_the_cluster_overrides() {
    let world = suspended().await;
    change_shoot(&world, |shoot| {
        unreadable_grace(shoot);
        deleting(shoot);
    });
    world.clock.pass(LONG).await;
    assert_kept(&world);
}

#[tokio::test]
async fn a_suspended_policy_holds_back_although_it_has_a_mistake() {
    let world = suspended().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["nodeLeaseFailureFraction"] = json!(7.5);
    });
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
}

/// The record goes with the Cluster; what is owed does not.
#[tokio::test]
async fn a_suspended_policy_keeps_what_it_owes_to_a_cluster_that_is_replaced() {
    let world = suspended().await;
    let mut cluster = world.seed.get("clusters", "", "a").unwrap();
    world.seed.delete("clusters", "", "a");
    world.seed.delete("clusterhealths", "", "a");
    world.clock.pass(Duration::from_secs(1)).await;
    cluster["metadata"]["uid"] = json!("uid-anew");
    world.seed.put(&cluster);
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    assert_eq!(world.health("a")["protection"], "Active");
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
    let gone = || {
        world
            .seed
            .get("probepolicies", "", "p")
            .is_none()
            .then_some(())
    };
    world.clock.until("the policy is gone", gone).await;
    assert_restored(&world);
}
