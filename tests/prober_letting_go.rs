//! What becomes of a protected cluster that is not to be probed any more, against a scripted seed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::time::Duration;

use dependency_watchdog::prober::plan::{MARK, RECORD};
use serde_json::{Value, json};
use support::{Failure, INTERVAL, Read, World, condition, policy, run};

const RUNNING: [i64; 3] = [1, 2, 3];
const DOWN: [i64; 3] = [0, 0, 0];
const DEPENDENTS: [&str; 3] = ["kcm", "mcm", "ca"];
/// Longer than anything takes that is tried again.
const LONG: Duration = Duration::from_secs(60);

/// A cluster that is protected.
async fn protected() -> World {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world
}

fn shoot(world: &World, change: impl Fn(&mut Value)) {
    let change = |cluster: &mut Value| change(&mut cluster["spec"]["shoot"]);
    world.seed.change("clusters", "", "a", change);
}

fn change_policy(world: &World, change: impl Fn(&mut Value)) {
    world.seed.change("probepolicies", "", "p", change);
}

/// The values of an annotation of the three dependents.
fn annotations(world: &World, key: &str) -> [Option<String>; 3] {
    DEPENDENTS.map(|name| {
        let object = world.seed.get("deployments", "a", name).unwrap();
        let value = &object["metadata"]["annotations"][key];
        value.as_str().map(str::to_owned)
    })
}

fn is_marked(world: &World) -> [bool; 3] {
    annotations(world, MARK).map(|mark| mark.is_some())
}

/// Restored, without anything of ours left behind.
fn assert_restored(world: &World) {
    assert_eq!(world.replicas("a"), RUNNING);
    assert_eq!(is_marked(world), [false; 3]);
    assert_eq!(annotations(world, RECORD), [None, None, None]);
}

/// Without marks, at zero, with the numbers that were there.
fn assert_released(world: &World) {
    assert_eq!(world.replicas("a"), DOWN);
    assert_eq!(is_marked(world), [false; 3]);
    let recorded = RUNNING.map(|replicas| Some(replicas.to_string()));
    assert_eq!(annotations(world, RECORD), recorded);
}

fn assert_kept(world: &World) {
    assert_eq!(world.replicas("a"), DOWN);
    assert_eq!(is_marked(world), [true; 3]);
}

type Change = fn(&mut Value);

/// What makes gardenlet decide about the replicas.
const RELEASED: [(&str, Change); 6] = [
    ("Deleting", |shoot| {
        shoot["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    }),
    ("Deleting", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Delete", "state": "Processing"});
    }),
    ("Migrating", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Migrate", "state": "Processing"});
    }),
    ("Hibernated", |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true});
        shoot["status"]["hibernated"] = json!(true);
    }),
    ("WakingUp", |shoot| {
        shoot["status"]["hibernated"] = json!(true)
    }),
    ("Deleting", |shoot| {
        // Both at once: the deletion counts.
        shoot["spec"]["provider"]["workers"] = json!([]);
        shoot["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    }),
];

/// What leaves its dependents with something to do.
const RESTORED: [(&str, Change); 2] = [
    ("NoWorkers", |shoot| {
        shoot["spec"]["provider"]["workers"] = json!([])
    }),
    ("Hibernated", |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true})
    }),
];

/// What tells nothing, or passes.
const KEPT: [(&str, Change); 3] = [
    ("Unreadable", |shoot| *shoot = json!("?")),
    ("NotYetCreated", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Create", "state": "Processing"});
    }),
    ("NotYetRestored", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Restore", "state": "Processing"});
    }),
];

#[test]
fn gardenlet_decides_about_a_cluster_that_sleeps_or_goes() {
    for (reason, change) in RELEASED {
        run(async move {
            let world = protected().await;
            shoot(&world, change);
            let status = world.protection("a", "None").await;
            assert_eq!(status["skipped"], reason);
            assert_released(&world);
            assert_eq!(status["lastAction"]["action"], "Released");
            let message = status["lastAction"]["message"].as_str().unwrap();
            assert!(message.contains("ca, kcm, mcm"), "{message}");
            assert_eq!(condition(&status, "Degraded")["status"], "False");
        });
    }
}

#[test]
fn a_cluster_that_loses_its_workers_or_goes_to_sleep_is_restored() {
    for (reason, change) in RESTORED {
        run(async move {
            let world = protected().await;
            world.seed.forget_calls();
            shoot(&world, change);
            let status = world.protection("a", "None").await;
            assert_eq!(status["skipped"], reason);
            assert_restored(&world);
            assert_eq!(status["lastAction"]["action"], "Restored");
            let order: Vec<String> = world.seed.writes().into_iter().map(|it| it.name).collect();
            assert_eq!(order, ["ca", "mcm", "kcm"]);
        });
    }
}

#[test]
fn a_protection_stays_while_nothing_is_known_of_the_cluster() {
    for (reason, change) in KEPT {
        run(async move {
            let world = protected().await;
            shoot(&world, change);
            let what = format!("it is skipped as {reason}");
            let skipped = |status: &Value| status["skipped"] == reason;
            let status = world.health_where("a", &what, skipped).await;
            world.clock.pass(LONG).await;
            assert_kept(&world);
            assert_eq!(condition(&status, "Protecting")["status"], "True");
            assert_eq!(
                condition(&status, "Degraded")["reason"],
                "ProtectedUnprobed"
            );
        });
    }
}

/// One that does not answer any more has been scaled down already.
#[tokio::test]
async fn a_cluster_that_went_to_sleep_without_a_word_is_left_to_gardenlet() {
    let world = protected().await;
    world.shoot("a").fail(Read::Cached, Failure::Status(503));
    world
        .shoot("a")
        .fail(Read::Consistent, Failure::Status(503));
    shoot(&world, |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true});
    });
    let skipped = |status: &Value| status["skipped"] == "Hibernated";
    world.health_where("a", "it is skipped", skipped).await;
    assert_kept(&world);
    let status = world.protection("a", "None").await;
    assert_released(&world);
    let message = status["lastAction"]["message"].as_str().unwrap();
    assert!(message.contains("does not answer any more"), "{message}");
}

/// A kubeconfig that is missing does not tell that the API server is gone.
#[tokio::test]
async fn whoever_cannot_be_asked_is_not_taken_to_be_asleep() {
    let world = protected().await;
    world.shoot("a").fail(Read::Cached, Failure::Status(401));
    world
        .shoot("a")
        .fail(Read::Consistent, Failure::Status(401));
    shoot(&world, |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true});
    });
    world.clock.pass(LONG * 3).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    // In the end its status tells.
    shoot(&world, |shoot| shoot["status"]["hibernated"] = json!(true));
    world.protection("a", "None").await;
    assert_released(&world);
}

/// What is refused is reported, and tried again until it works.
#[test]
fn letting_go_is_tried_until_it_works() {
    for (_, change) in [RELEASED[0], RESTORED[0]] {
        run(async move {
            let world = protected().await;
            let patches = |call: &support::Call| call.brief().starts_with("PATCH deployments");
            world
                .seed
                .fail(Failure::Status(403), (0, usize::MAX), patches);
            shoot(&world, change);
            let forbidden =
                |status: &Value| condition(status, "Degraded")["reason"] == "ScalingForbidden";
            world.health_where("a", "it is forbidden", forbidden).await;
            assert_kept(&world);
            world.seed.heal();
            world.protection("a", "None").await;
            assert_eq!(is_marked(&world), [false; 3]);
        });
    }
}

/// The brake holds whatever becomes of the cluster.
#[test]
fn a_policy_that_holds_back_keeps_the_marks_of_a_skipped_cluster() {
    for (field, value, off) in [
        ("suspend", json!(true), json!(false)),
        ("mode", json!("DryRun"), json!("Enforce")),
    ] {
        run(async move {
            let world = protected().await;
            change_policy(&world, |policy| policy["spec"][field] = value.clone());
            shoot(&world, RELEASED[0].1);
            world.clock.pass(LONG).await;
            assert_kept(&world);
            let status = world.health("a");
            assert_eq!(condition(&status, "Protecting")["status"], "True");
            change_policy(&world, |policy| policy["spec"][field] = off.clone());
            world.protection("a", "None").await;
            assert_released(&world);
        });
    }
}

/// It passes, as the state of a cluster does; what was released is not taken back.
#[tokio::test]
async fn a_cluster_that_is_probed_again_is_protected_again() {
    let world = protected().await;
    shoot(&world, RESTORED[0].1);
    world.protection("a", "None").await;
    shoot(&world, |shoot| {
        shoot["spec"]["provider"]["workers"] = json!([{"name": "w"}]);
    });
    world.protection("a", "Active").await;
    assert_kept(&world);
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_restored(&world);
}

#[tokio::test]
async fn the_marks_of_a_cluster_that_is_gone_are_removed() {
    let world = protected().await;
    world.seed.delete("clusters", "", "a");
    world.clock.pass(LONG).await;
    assert_released(&world);
    world.seed.forget_calls();
    world.clock.pass(LONG * 30).await;
    assert_eq!(
        world.seed.writes().len(),
        0,
        "nobody keeps its record any more"
    );
}

/// An operator that starts anew knows from its record which policy was the last.
#[test]
fn a_restart_forgets_no_cluster_that_is_being_let_go() {
    let deselected: Change = |policy| {
        policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "other"}});
    };
    let deleting: Change = |policy| {
        policy["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    };
    for change in [deselected, deleting] {
        run(async move {
            let mut world = protected().await;
            world.stop().await;
            change_policy(&world, change);
            world.start();
            world.clock.pass(LONG).await;
            assert_kept(&world);
            let status = world.reason("a", "Outage").await;
            assert_eq!(status["policy"], "p");
            assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
            world.shoot("a").renew();
            world
                .health_where("a", "its record is gone", Value::is_null)
                .await;
            assert_restored(&world);
        });
    }
}

/// Without any policy nobody can judge it: it waits, and says for what.
#[tokio::test]
async fn a_cluster_whose_policy_is_gone_waits_for_another() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("probepolicies", "", "p");
    world.start();
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(status["reason"], "Unselected");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("apply one that selects it"), "{message}");
    let mut heir = policy("heir");
    // It names but one of them.
    let infos = heir["spec"]["dependentResourceInfos"]
        .as_array_mut()
        .unwrap();
    infos.truncate(1);
    world.seed.put(&heir);
    world.protection("a", "None").await;
    assert_restored(&world);
}

/// The operator died between a write and its report, and the policy went meanwhile: the record does
/// not know of the mark.
#[test]
fn a_mark_that_no_record_knows_of_is_found() {
    let gone: fn(&World) = |world| world.seed.delete("probepolicies", "", "p");
    let deselected: fn(&World) = |world| {
        change_policy(world, |policy| {
            policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "other"}});
        });
    };
    let narrowed: fn(&World) = |world| {
        change_policy(world, |policy| {
            let infos = policy["spec"]["dependentResourceInfos"]
                .as_array_mut()
                .unwrap();
            infos.truncate(1);
        });
    };
    for (change, restored) in [(gone, false), (deselected, true), (narrowed, true)] {
        run(async move {
            let mut world = protected().await;
            world.stop().await;
            world.seed.change("clusterhealths", "", "a", |health| {
                health["status"]["protection"] = json!("None");
                for entry in health["status"]["dependents"].as_array_mut().unwrap() {
                    entry["owed"] = json!(false);
                }
            });
            world.shoot("a").renew();
            change(&world);
            world.start();
            world.clock.pass(LONG).await;
            if restored {
                assert_restored(&world);
            } else {
                assert_kept(&world);
                assert_eq!(world.health("a")["protection"], "Active");
            }
        });
    }
}

/// While the dependents cannot be read, a mark may be there.
#[tokio::test]
async fn no_record_is_dropped_before_its_dependents_were_looked_at() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.stop().await;
    world.seed.delete("probepolicies", "", "p");
    let reads = |call: &support::Call| call.brief() == "GET deployments/mcm";
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), reads);
    world.start();
    let forbidden = |status: &Value| condition(status, "Degraded")["reason"] == "ScalingForbidden";
    world.health_where("a", "it is forbidden", forbidden).await;
    world.seed.heal();
    world
        .health_where("a", "its record is gone", Value::is_null)
        .await;
    assert!(
        world
            .seed
            .writes()
            .iter()
            .all(|call| call.resource != "deployments")
    );
}

/// A cluster that was skipped for long costs nothing at a restart.
#[tokio::test]
async fn a_skipped_cluster_is_looked_at_once() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    shoot(&world, RELEASED[3].1);
    let forgotten =
        |status: &Value| status["skipped"] == "Hibernated" && status["dependents"].is_null();
    world
        .health_where("a", "nothing can be scaled", forgotten)
        .await;
    world.stop().await;
    world.seed.forget_calls();
    world.start();
    world.clock.pass(INTERVAL * 3).await;
    let touched = |call: &support::Call| call.resource.starts_with("deployments");
    assert!(!world.seed.calls().iter().any(touched));
}

#[tokio::test]
async fn a_protection_that_lasts_is_overdue() {
    let mut world = protected().await;
    let overdue = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().any(|it| it["type"] == "ProtectedTooLong")
    };
    world.clock.pass(Duration::from_secs(29 * 60)).await;
    assert!(!overdue(&world.health("a")));
    world.clock.pass(Duration::from_secs(2 * 60)).await;
    assert!(overdue(&world.health("a")));

    // Also after a restart, and while nobody probes it.
    world.stop().await;
    world.seed.change("clusterhealths", "", "a", |health| {
        health["status"]["protectedSince"] = json!("2020-01-02T03:04:05Z");
        health["status"]["conditions"] = json!([]);
    });
    change_policy(&world, |policy| policy["spec"]["suspend"] = json!(true));
    world.start();
    world.clock.pass(LONG).await;
    assert!(overdue(&world.health("a")));
}
