//! Policies that are suspended, in DryRun or undecodable: no write to any dependent, whatever becomes
//! of the cluster, against a scripted seed.

use crate::support::{
    INTERVAL, LONG, RUNNING, Runs, World, assert_back, assert_kept, assert_released, change_policy,
    change_shoot, condition, deleting, is_marked, policy, protected, run, undecodable,
};
use serde_json::{Value, json};

/// What holds a policy back: the field, its value, and the value that lets it go on.
fn holds() -> [(&'static str, Value, Value); 2] {
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

/// Another operator protects `a`. This one runs with --dry-run beside it, and has looked at nothing.
async fn rehearsal() -> World {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("clusterhealths", "", "a");
    world.seed.forget_calls();
    world.dry_run = true;
    world.start();
    world.reason("a", "Outage").await;
    world
}

/// Nobody is left who could say that nothing is to be written, but the flag.
#[test]
fn a_rehearsal_writes_nothing_whatever_becomes_of_its_policy() {
    let _runs = Runs::begin();
    let policies: [fn(&World); 2] = [
        |world| world.seed.delete("probepolicies", "", "p"),
        |world| change_policy(world, "p", undecodable),
    ];
    let clusters: [fn(&World); 5] = [
        |world| world.shoot("a").renew(),
        |world| {
            change_shoot(world, |shoot| {
                shoot["spec"]["provider"]["workers"] = json!([])
            })
        },
        |world| change_shoot(world, deleting),
        |world| {
            let asleep = json!({"enabled": true});
            change_shoot(world, |shoot| shoot["spec"]["hibernation"] = asleep.clone());
        },
        |world| world.seed.delete("clusters", "", "a"),
    ];
    for of_policy in policies {
        for of_cluster in clusters {
            run(async move {
                let world = rehearsal().await;
                of_policy(&world);
                world.clock.pass(INTERVAL * 2).await;
                of_cluster(&world);
                world.clock.pass(LONG * 3).await;
                assert_kept(&world);
                assert_eq!(world.seed.writes().len(), 0);
            });
        }
    }
}

/// The connection of the watch is lost, and nobody says so, as when a load balancer has forgotten it.
#[test]
fn what_holds_back_is_heard_soon_whatever_became_of_the_watch() {
    let _runs = Runs::begin();
    for (resource, reason) in [("probepolicies", "Suspended"), ("clusters", "Deleting")] {
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            world.seed.silence_watches(resource);
            match resource {
                "clusters" => change_shoot(&world, deleting),
                _ => change_policy(&world, "p", |policy| {
                    policy["spec"]["suspend"] = json!(true)
                }),
            }
            world.clock.pass(INTERVAL).await;
            assert_eq!(world.health("a")["reason"], "Healthy", "nothing was heard");
            world.clock.pass(LONG + INTERVAL).await;
            assert_eq!(world.health("a")["skipped"], reason);
        });
    }
}

#[test]
fn a_policy_that_holds_back_keeps_the_marks_of_a_skipped_cluster() {
    let _runs = Runs::begin();
    for (field, on, off) in holds() {
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

/// The policy of now counts, and what it holds back it holds back until it does not.
#[test]
fn a_cluster_that_is_gone_waits_until_its_policy_holds_nothing_back() {
    let _runs = Runs::begin();
    // Held back in the moment in which the Cluster goes, or afterwards.
    for is_later in [false, true] {
        for (field, on, off) in holds() {
            run(async move {
                let world = protected().await;
                let hold = |world: &World, to: &Value| {
                    change_policy(world, "p", |policy| policy["spec"][field] = to.clone());
                };
                if !is_later {
                    hold(&world, &on);
                }
                world.seed.delete("clusters", "", "a");
                if is_later {
                    world.clock.pass(INTERVAL).await;
                    hold(&world, &on);
                }
                world.clock.pass(LONG * 2).await;
                assert_kept(&world);
                hold(&world, &off);
                world.clock.pass(LONG).await;
                assert_released(&world);
            });
        }
    }
}

/// It stays Ready, and people see why nothing is protected or given back.
#[test]
fn a_policy_that_is_held_back_says_so() {
    let _runs = Runs::begin();
    let reasons = ["Suspended", "DryRun"];
    for ((field, on, off), reason) in holds().into_iter().zip(reasons) {
        run(async move {
            let world = protected().await;
            let told = |kind: &str| {
                let policy = world.seed.get("probepolicies", "", "p").unwrap();
                let condition = condition(&policy["status"], kind);
                format!("{} {}", condition["status"], condition["reason"]).replace('"', "")
            };
            change_policy(&world, "p", |policy| policy["spec"][field] = on.clone());
            world.clock.pass(LONG).await;
            assert_eq!(told("Ready"), format!("True {reason}"));
            assert_eq!(told("Degraded"), "True NotRestored");
            change_policy(&world, "p", |policy| policy["spec"][field] = off.clone());
            world.clock.pass(LONG).await;
            assert_eq!(told("Ready"), "True Probing");
            assert_eq!(told("Degraded"), "False AsExpected");
        });
    }
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
