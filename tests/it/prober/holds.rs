//! Policies that are suspended, in DryRun or undecodable: no write to any dependent, whatever becomes
//! of the cluster, against a scripted seed.

use std::time::Duration;

use crate::support::{
    DEPENDENTS, Failure, INTERVAL, LONG, RUNNING, Read, Runs, Stage, World, assert_back,
    assert_kept, assert_released, change_policy, change_shoot, condition, deleting, info,
    is_marked, new_protector, policy, protected, run, scale_by_hand, selected, undecodable,
    unreadable_grace,
};
use dependency_watchdog::prober::{plan::Aim, scale::Scaler};
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

/// Has the policy go on in a dry run.
fn rehearse(world: &World) {
    change_policy(world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
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

/// It tells what it finds, and why it stays so.
#[tokio::test]
async fn a_rehearsal_without_a_policy_tells_why_marks_stay() {
    let world = rehearsal().await;
    world.seed.delete("probepolicies", "", "p");
    world.shoot("a").renew();
    let status = world.protection("a", "Active").await;
    assert_eq!(condition(&status, "Protecting")["reason"], "DryRun");
}

/// By hand, or by the operator beside which this one is tried.
#[test]
fn what_somebody_else_pays_is_not_owed_any_more_in_a_dry_run() {
    let _runs = Runs::begin();
    for by_flag in [true, false] {
        run(async move {
            let world = if by_flag {
                let world = rehearsal().await;
                world.seed.delete("probepolicies", "", "p");
                world.protection("a", "Active").await;
                world
            } else {
                let world = protected().await;
                rehearse(&world);
                world
            };
            world.clock.pass(INTERVAL).await;
            world.seed.forget_calls();
            for (name, replicas) in DEPENDENTS.into_iter().zip(RUNNING) {
                scale_by_hand(&world, name, replicas, true);
            }
            world.shoot("a").renew();
            world.clock.pass(LONG * 2).await;
            let record = world.health("a");
            assert_eq!(record.is_null(), by_flag, "{record}");
            assert!(by_flag || record["protection"] == "None", "{record}");
            assert_eq!(world.seed.writes().len(), 0);
        });
    }
}

/// The operator died before it could tell of what it had marked.
#[tokio::test]
async fn what_was_never_looked_at_is_looked_up_in_a_dry_run() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("clusterhealths", "", "a");
    rehearse(&world);
    world.start();
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(status["protection"], "Active", "{status}");
}

/// Evidence that is missing now and then delays no look at what may have been paid.
#[tokio::test]
async fn a_dry_run_looks_at_what_is_owed_although_reads_fail() {
    let world = protected().await;
    rehearse(&world);
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    world.clock.pass(INTERVAL).await;
    for (name, replicas) in DEPENDENTS.into_iter().zip(RUNNING) {
        scale_by_hand(&world, name, replicas, true);
    }
    world.clock.pass(LONG * 2).await;
    let status = world.health("a");
    assert_eq!(status["protection"], "None", "{status}");
}

/// Whoever decided to write, and however often.
#[test]
fn a_dry_run_has_no_way_to_write() {
    let _runs = Runs::begin();
    for aim in [Aim::Protect, Aim::Restore, Aim::Release] {
        run(async move {
            let mut stage = Stage::new(&[info("Deployment", "first", 0)]);
            if aim != Aim::Protect {
                stage.act(Aim::Protect).await;
                stage.seed.forget_calls();
            }
            let before = stage.object("deployments", "first");
            let scaler = Scaler::new(stage.seed.unlimited()).dry_run();
            stage.protector = new_protector("a", &scaler, None);
            stage.protector.learn(selected(&stage.settings));
            stage.act(aim).await;
            assert_eq!(stage.object("deployments", "first"), before, "{aim:?}");
            assert_eq!(stage.seed.writes().len(), 0, "{aim:?}");
            let problems = stage.problems();
            assert!(problems[0].message.contains("--dry-run"), "{problems:?}");
            let reads = stage.seed.briefs();
            assert!(reads.len() < 5, "it was not tried again: {reads:?}");
        });
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

/// Also if the operator was started after the policy was suspended.
#[test]
fn a_policy_that_holds_back_keeps_the_marks_of_a_cluster_that_is_gone() {
    let _runs = Runs::begin();
    for restart in [false, true] {
        for (field, on, _) in holds() {
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
    let _runs = Runs::begin();
    for when in [When::AtOnce, When::Away, When::Later] {
        for (field, on, off) in holds() {
            run(async move {
                let mut world = protected().await;
                let hold = |world: &World, to: &Value| {
                    change_policy(world, "p", |policy| policy["spec"][field] = to.clone());
                };
                match when {
                    When::AtOnce => {
                        hold(&world, &on);
                        world.seed.delete("clusters", "", "a");
                    }
                    When::Away => {
                        world.stop().await;
                        hold(&world, &on);
                        world.seed.delete("clusters", "", "a");
                        world.start();
                    }
                    When::Later => {
                        world.seed.delete("clusters", "", "a");
                        world.clock.pass(INTERVAL).await;
                        hold(&world, &on);
                    }
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

/// The mode of the policy does not show it.
#[tokio::test]
async fn a_rehearsal_shows_on_the_policy() {
    let mut world = World::new(&["a"]).await;
    world.dry_run = true;
    world.start();
    world.reason("a", "Healthy").await;
    world.clock.pass(INTERVAL).await;
    let policy = world.seed.get("probepolicies", "", "p").unwrap();
    assert_eq!(policy["spec"]["mode"], "Enforce");
    let ready = condition(&policy["status"], "Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("True"), &json!("DryRun"))
    );
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

/// Whatever becomes of the operator, or of the cluster, meanwhile.
#[test]
fn another_policy_lifts_no_hold_of_one_that_cannot_be_decoded() {
    let _runs = Runs::begin();
    let becomes: [fn(&World); 4] = [
        |_| (),
        |world| {
            change_shoot(world, |shoot| {
                shoot["spec"]["provider"]["workers"] = json!([])
            })
        },
        |world| change_shoot(world, deleting),
        |world| world.seed.delete("clusters", "", "a"),
    ];
    for becomes in becomes {
        for restart in [false, true] {
            run(async move {
                let mut world = suspended().await;
                let mut other = policy("other");
                other["spec"]["priority"] = json!(-1);
                world.seed.put(&other);
                change_policy(&world, "p", undecodable);
                world.clock.pass(INTERVAL).await;
                if restart {
                    world.stop().await;
                    world.start();
                    world.clock.pass(INTERVAL).await;
                }
                assert_eq!(world.health("a")["policy"], "p");
                becomes(&world);
                world.shoot("a").renew();
                world.clock.pass(LONG * 2).await;
                assert_kept(&world);
                let held = |name| {
                    let policy = world.seed.get("probepolicies", "", name).unwrap();
                    policy["metadata"]["finalizers"][0].is_string()
                };
                assert_eq!([held("p"), held("other")], [true, false]);
            });
        }
    }
}

/// As after a step back to a version that knows neither.
#[tokio::test]
async fn neither_record_nor_policy_can_be_decoded_and_nothing_is_forgotten() {
    let mut world = protected().await;
    world.stop().await;
    change_policy(&world, "p", undecodable);
    world.seed.change("clusterhealths", "", "a", |health| {
        health["status"]["protection"] = json!("Later");
        health["status"]["state"] = json!("LATER");
    });
    world.start();
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(status["protection"], "Active", "{status}");
    let message = condition(&status, "Protecting")["message"].to_string();
    assert!(
        message.contains("the policy cannot be read, so it may be suspended"),
        "{message}"
    );
    let policy = world.seed.get("probepolicies", "", "p").unwrap();
    assert!(policy["metadata"]["finalizers"][0].is_string(), "{policy}");
    change_policy(&world, "p", |policy| {
        policy["spec"]["failureThreshold"] = json!(1);
    });
    world.clock.pass(LONG).await;
    assert_back(&world);
}

/// Nobody knows whether its marks may be removed.
#[tokio::test]
async fn a_policy_that_cannot_be_decoded_holds_back_what_is_gone() {
    let world = protected().await;
    change_policy(&world, "p", undecodable);
    world.clock.pass(INTERVAL).await;
    world.seed.delete("clusters", "", "a");
    world.clock.pass(LONG * 2).await;
    assert_kept(&world);
}

/// However long its marks stay.
#[tokio::test]
async fn the_record_of_what_is_gone_is_deleted_once() {
    let world = suspended().await;
    world.clock.pass(Duration::from_secs(20 * 60)).await;
    world.seed.forget_calls();
    world.seed.delete("clusters", "", "a");
    world.clock.pass(Duration::from_secs(40 * 60)).await;
    let deletions = world.seed.briefs().into_iter();
    let deletions: Vec<String> = deletions
        .filter(|call| call.starts_with("DELETE"))
        .collect();
    assert_eq!(deletions, ["DELETE clusterhealths/a"]);
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
    assert_back(&world);
}
