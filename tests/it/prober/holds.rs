//! Policies that are suspended, in DryRun or undecodable: no write to any dependent, whatever becomes
//! of the cluster, against a scripted seed.

use crate::support::{
    INTERVAL, LONG, RUNNING, Runs, World, assert_back, assert_kept, assert_released, change_policy,
    change_shoot, condition, deleting, is_marked, policy, protected, run, undecodable,
};
use serde_json::{Value, json};

/// A protected cluster whose policy is suspended.
async fn suspended() -> World {
    let world = protected().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.clock.pass(INTERVAL).await;
    world
}

/// A value of a later version: what it holds back cannot be read either.
#[test]
fn a_policy_that_cannot_be_decoded_holds_back_and_says_so() {
    let _runs = Runs::begin();
    let clusters: [fn(&mut Value); 3] = [
        |_| (),
        |shoot| shoot["spec"]["provider"]["workers"] = json!([]),
        deleting,
    ];
    for is_suspended in [true, false] {
        for change in clusters {
            run(async move {
                let world = match is_suspended {
                    true => suspended().await,
                    false => protected().await,
                };
                change_policy(&world, "p", undecodable);
                world.clock.pass(INTERVAL).await;
                change_shoot(&world, change);
                world.shoot("a").renew();
                world.clock.pass(LONG).await;
                assert_kept(&world);
                let status = world.health("a");
                let message = &condition(&status, "Protecting")["message"];
                let why = "the policy cannot be read, so it may be suspended";
                assert!(message.as_str().unwrap().contains(why), "{message}");
                let policy = world.seed.get("probepolicies", "", "p").unwrap();
                assert_eq!(condition(&policy["status"], "Ready")["reason"], "Invalid");
                let message = &condition(&policy["status"], "Protecting")["message"];
                let why = "none is restored while the policy cannot be read";
                assert!(message.as_str().unwrap().contains(why), "{message}");
                // As it is read again, it counts.
                change_policy(&world, "p", |policy| {
                    policy["spec"]["failureThreshold"] = json!(1);
                });
                world.clock.pass(LONG).await;
                if is_suspended {
                    assert_kept(&world);
                } else if world.replicas("a") == RUNNING {
                    assert_back(&world);
                } else {
                    assert_released(&world);
                }
            });
        }
    }
}

/// Another policy is no reason to lift a hold that perhaps is on.
#[test]
fn a_policy_that_cannot_be_decoded_is_not_replaced_by_another() {
    let _runs = Runs::begin();
    for is_protected in [true, false] {
        run(async move {
            let world = match is_protected {
                true => protected().await,
                false => World::running(&["a"]).await,
            };
            let mut other = policy("other");
            other["spec"]["priority"] = json!(-1);
            world.seed.put(&other);
            world.clock.pass(INTERVAL).await;
            change_policy(&world, "p", undecodable);
            world.clock.pass(INTERVAL).await;
            match is_protected {
                true => world.shoot("a").renew(),
                false => world.shoot("a").silence(0),
            }
            world.clock.pass(LONG).await;
            let status = world.health("a");
            assert_eq!(status["reason"], "PolicyInvalid", "{status}");
            match is_protected {
                true => assert_kept(&world),
                false => assert_eq!(is_marked(&world), [false; 3]),
            }
            // It says that it does not apply any more.
            change_policy(&world, "p", |policy| {
                policy["spec"]["failureThreshold"] = json!(1);
                policy["spec"]["priority"] = json!(-2);
            });
            world.clock.pass(LONG).await;
            assert_eq!(world.replicas("a") == RUNNING, is_protected);
        });
    }
}
