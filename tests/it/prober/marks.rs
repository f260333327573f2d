//! What is restored keeps its mark for a minute: what somebody writes meanwhile who had read it at zero
//! before is told from what is meant.

use std::time::Duration;

use crate::support::{
    Call, DEPENDENTS, Failure, LONG, RUNNING, Read, World, assert_back, assert_restored,
    change_policy, is_marked, protected, run, scale_by_hand,
};
use serde_json::json;

/// Restored just now, and marked.
async fn restored() -> World {
    let world = protected().await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
    assert_eq!(is_marked(&world), [true; 3]);
    world.seed.forget_calls();
    world
}

fn reads_the_cluster(call: &Call) -> bool {
    call.resource == "clusters" && call.selected_name().is_some()
}

fn reads_of_the_cluster(world: &World) -> usize {
    let calls = world.seed.calls();
    calls.iter().filter(|call| reads_the_cluster(call)).count()
}

#[tokio::test]
async fn marks_fall_together_a_minute_after_all_is_back() {
    let world = restored().await;
    let status = world.health("a");
    for entry in status["dependents"].as_array().unwrap() {
        assert_eq!(
            (&entry["owed"], &entry["keepsMark"]),
            (&json!(false), &json!(true))
        );
    }
    world.clock.pass(Duration::from_secs(50)).await;
    assert_eq!(is_marked(&world), [true; 3]);
    assert_eq!(world.seed.writes().len(), 0);
    world.clock.pass(Duration::from_secs(30)).await;
    assert_restored(&world);
    for entry in world.health("a")["dependents"].as_array().unwrap() {
        assert_eq!(entry.get("keepsMark"), None);
    }
    assert_eq!(reads_of_the_cluster(&world), 0);
}

/// gardenlet had read it at zero, and deploys it so when it is back: each dependent, whenever in that
/// minute.
#[test]
fn a_stale_zero_after_a_restore_does_not_stay() {
    for name in DEPENDENTS {
        for after in [0, 20, 45] {
            run(async move {
                let world = restored().await;
                world.clock.pass(Duration::from_secs(after)).await;
                scale_by_hand(&world, name, 0, false);
                let back = || (world.replicas("a") == RUNNING).then_some(());
                world.clock.until("it is back again", back).await;
                assert_eq!(reads_of_the_cluster(&world), 1);
                world.clock.pass(2 * LONG).await;
                assert_restored(&world);
            });
        }
    }
}

/// Whoever scales it to zero each time it is back is undone each time, and people are told.
#[tokio::test]
async fn what_is_zeroed_again_and_again_is_given_back_and_told() {
    let world = restored().await;
    for _ in 0..4 {
        scale_by_hand(&world, "mcm", 0, false);
        let back = || (world.replicas("a") == RUNNING).then_some(());
        world.clock.until("it is back again", back).await;
    }
    let last = &world.health("a")["lastAction"]["message"];
    let told = "restored 5 times, since somebody scaled it to zero within a minute";
    assert!(last.as_str().unwrap().contains(told), "{last}");
    world.clock.pass(2 * LONG).await;
    assert_restored(&world);
}

/// Nobody is left who would need the marks of what is back, whatever is known of the cluster.
#[test]
fn a_policy_that_is_deleted_in_that_minute_goes() {
    let silent: fn(&World) = |world| world.shoot("a").silence(100);
    let unreadable: fn(&World) = |world| {
        for read in [Read::Cached, Read::Consistent] {
            world.shoot("a").fail(read, Failure::Status(503));
        }
    };
    let gated: fn(&World) = |world| {
        change_policy(world, "p", |policy| {
            policy["spec"]["checks"] = json!([{
                "name": "etcd", "role": "Gate", "periodSeconds": 1, "failureThreshold": 1,
                "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": ["true"]},
            }]);
        });
    };
    for mishap in [silent, unreadable, gated] {
        for before in [false, true] {
            run(async move {
                let world = restored().await;
                if before {
                    mishap(&world);
                }
                world.seed.ask_to_delete("probepolicies", "", "p");
                if !before {
                    mishap(&world);
                }
                world.clock.pass(LONG).await;
                assert_restored(&world);
                assert_eq!(world.seed.get("probepolicies", "", "p"), None);
            });
        }
    }
}
