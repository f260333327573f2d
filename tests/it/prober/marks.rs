//! What is restored keeps its mark for a minute: what somebody writes meanwhile who had read it at zero
//! before is told from what is meant.

use std::time::Duration;

use crate::support::{
    Call, DEPENDENTS, Failure, LONG, RUNNING, Read, World, annotations, assert_back,
    assert_restored, change_policy, change_shoot, condition, first_write, is_marked, protected,
    run, scale_by_hand,
};
use serde_json::{Value, json};

const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";

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

fn replicas_of(world: &World, name: &str) -> i64 {
    let place = DEPENDENTS.iter().position(|it| *it == name);
    world.replicas("a")[place.expect("a dependent")]
}

fn reads_the_cluster(call: &Call) -> bool {
    call.resource == "clusters" && call.query.contains("metadata.name")
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

/// Nothing hurries then, so that a slow answer counts.
#[tokio::test]
async fn a_slow_read_of_the_cluster_suffices_for_a_stale_zero() {
    let world = restored().await;
    let answer = world.seed.hold(reads_the_cluster);
    scale_by_hand(&world, "kcm", 0, false);
    let asked = || (reads_of_the_cluster(&world) > 0).then_some(());
    world.clock.until("the Cluster is read", asked).await;
    world.clock.pass(Duration::from_secs(5)).await;
    let _ = answer.send(());
    let back = || (world.replicas("a") == RUNNING).then_some(());
    world.clock.until("it is back again", back).await;
    assert_eq!(reads_of_the_cluster(&world), 1);
}

/// Why a zero is not given back yet is told, and it is once the Cluster can be read.
#[tokio::test]
async fn a_stale_zero_waits_for_a_read_of_the_cluster_and_says_so() {
    let world = restored().await;
    let (failure, always) = (Failure::Status(503), (0, usize::MAX));
    world.seed.fail(failure, always, reads_the_cluster);
    scale_by_hand(&world, "kcm", 0, false);
    world.clock.pass(LONG).await;
    assert_eq!(replicas_of(&world, "kcm"), 0);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("could not be read from the seed"),
        "{message}"
    );
    world.seed.heal();
    let back = || (world.replicas("a") == RUNNING).then_some(());
    world.clock.until("it is back again", back).await;
}

/// A zero that may be meant stays: the watch has not told yet what the Cluster is by now. Then gardenlet
/// decides about it.
#[tokio::test]
async fn a_zero_stays_unless_the_cluster_is_still_one_that_is_probed() {
    let world = restored().await;
    // The next one is silent for as long as it may be.
    world.seed.end_watches("clusters");
    world.clock.pass(Duration::from_secs(1)).await;
    world.seed.silence_watches("clusters");
    change_shoot(&world, falls_asleep);
    scale_by_hand(&world, "kcm", 0, false);
    let released = || (!is_marked(&world)[0]).then_some(());
    world
        .clock
        .until("the watch has told, and its mark is gone", released)
        .await;
    assert!(reads_of_the_cluster(&world) > 0);
    assert_eq!(replicas_of(&world, "kcm"), 0);
    assert_eq!(replicas_of(&world, "mcm"), 2);
}

/// The first of three is back, and zeroed by somebody just when the Shoot becomes like this. The others are still
/// at zero.
async fn zeroed_as_the_first_of_three(change: fn(&mut Value)) -> World {
    let world = protected().await;
    let writes = |call: &Call| call.method == "PATCH" && call.name == "mcm";
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), writes);
    world.seed.forget_calls();
    world.shoot("a").renew();
    let tried = || world.seed.calls().iter().any(writes).then_some(());
    world.clock.until("the first is back", tried).await;
    world.seed.heal();
    change_shoot(&world, change);
    scale_by_hand(&world, "ca", 0, false);
    world
}

fn falls_asleep(shoot: &mut Value) {
    shoot["spec"]["hibernation"] = json!({"enabled": true});
}

fn migrates_live(shoot: &mut Value) {
    shoot["status"]["lastOperation"] = json!({"type": "LiveMigrate", "state": "Processing"});
}

/// In hibernation gardenlet decides about that one alone. What the outage took is needed to take the nodes down.
#[tokio::test]
async fn a_zero_in_hibernation_keeps_nothing_else_from_being_restored() {
    let world = zeroed_as_the_first_of_three(falls_asleep).await;
    world.clock.pass(LONG).await;
    assert_eq!(is_marked(&world), [false; 3]);
    assert_eq!(world.replicas("a"), [RUNNING[0], RUNNING[1], 0]);
}

#[tokio::test]
async fn a_zero_in_hibernation_whose_mark_cannot_be_removed_does_not_either() {
    let world = zeroed_as_the_first_of_three(falls_asleep).await;
    let writes = |call: &Call| call.method == "PATCH" && call.name == "ca";
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), writes);
    world.clock.pass(LONG).await;
    assert_eq!(is_marked(&world), [false, false, true]);
    assert_eq!(world.replicas("a"), [RUNNING[0], RUNNING[1], 0]);
}

/// Nobody can tell then whether it is meant. It is left, and people are told, until that is over.
#[tokio::test]
async fn a_zero_in_a_live_migration_is_left_alone() {
    let world = zeroed_as_the_first_of_three(migrates_live).await;
    world.clock.pass(2 * LONG).await;
    assert_eq!(world.replicas("a"), [RUNNING[0], RUNNING[1], 0]);
    assert!(is_marked(&world)[2]);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("may be meant"), "{message}");
    change_shoot(&world, |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Reconcile", "state": "Succeeded"});
    });
    world.clock.pass(3 * LONG).await;
    assert_restored(&world);
}

/// Somebody scales it up again by hand: nothing is in dispute any more.
#[tokio::test]
async fn a_zero_that_is_undone_by_hand_is_none() {
    let world = zeroed_as_the_first_of_three(migrates_live).await;
    world.clock.pass(LONG).await;
    scale_by_hand(&world, "ca", 3, false);
    world.clock.pass(LONG).await;
    let status = world.health("a");
    assert_ne!(condition(&status, "Protecting")["reason"], "HeldBack");
    assert_eq!(world.replicas("a"), RUNNING);
}

/// Whoever scales it to zero each time it is back has it at last, and people are told.
#[tokio::test]
async fn what_is_zeroed_again_and_again_is_left_and_told() {
    let world = restored().await;
    for _ in 0..3 {
        scale_by_hand(&world, "mcm", 0, false);
        let back = || (world.replicas("a") == RUNNING).then_some(());
        world.clock.until("it is back again", back).await;
    }
    scale_by_hand(&world, "mcm", 0, false);
    world.clock.pass(LONG).await;
    assert_eq!(replicas_of(&world, "mcm"), 0);
    let status = world.health("a");
    assert_eq!(condition(&status, "Degraded")["reason"], "Contended");
    // It is tried again when that is long ago.
    world.clock.pass(Duration::from_secs(11 * 60)).await;
    assert_restored(&world);
}

/// What was read of the Cluster counts until the next verdict, however seldom verdicts come.
#[tokio::test]
async fn a_stale_zero_does_not_stay_where_probes_are_seldom() {
    let world = restored().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = json!("1m");
    });
    scale_by_hand(&world, "kcm", 0, false);
    world.clock.pass(Duration::from_secs(5 * 60)).await;
    assert_restored(&world);
}

/// A read of the Cluster from before a zero says nothing of what that zero means.
#[tokio::test]
async fn each_zero_needs_a_read_of_the_cluster_of_its_own() {
    let world = restored().await;
    scale_by_hand(&world, "kcm", 0, false);
    let back = || (world.replicas("a") == RUNNING).then_some(());
    world.clock.until("it is back again", back).await;
    assert_eq!(reads_of_the_cluster(&world), 1);
    world.seed.silence_watches("clusters");
    change_shoot(&world, falls_asleep);
    scale_by_hand(&world, "kcm", 0, false);
    let released = || (!is_marked(&world)[0]).then_some(());
    world
        .clock
        .until("the watch has told, and its mark is gone", released)
        .await;
    assert!(reads_of_the_cluster(&world) > 1);
    assert_eq!(replicas_of(&world, "kcm"), 0);
}

/// What others did before an outage does not keep what the outage took from being restored.
#[tokio::test]
async fn an_outage_after_a_contention_is_restored_as_any_other() {
    let world = restored().await;
    for _ in 0..3 {
        scale_by_hand(&world, "mcm", 0, false);
        let back = || (world.replicas("a") == RUNNING).then_some(());
        world.clock.until("it is back again", back).await;
    }
    scale_by_hand(&world, "mcm", 0, false);
    world.clock.pass(LONG).await;
    scale_by_hand(&world, "mcm", 2, false);
    world.clock.pass(LONG).await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    world.clock.pass(2 * LONG).await;
    assert_restored(&world);
}

/// A number that somebody sets in that minute is the one that counts.
#[tokio::test]
async fn a_newer_count_under_the_mark_is_recorded() {
    let world = restored().await;
    scale_by_hand(&world, "ca", 5, false);
    let recorded = || {
        annotations(&world, RECORD)
            .contains(&Some("5".to_owned()))
            .then_some(())
    };
    world.clock.until("it is recorded", recorded).await;
    scale_by_hand(&world, "ca", 0, false);
    let back = || world.replicas("a").contains(&5).then_some(());
    world.clock.until("it is back again", back).await;
    world.clock.pass(2 * LONG).await;
    assert_eq!(is_marked(&world), [false; 3]);
}

/// An outage in that minute is met as any other, and what it takes is no contention.
#[tokio::test]
async fn an_outage_in_that_minute_is_an_outage() {
    let world = restored().await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), [0; 3]);
    let status = world.health("a");
    assert_eq!(condition(&status, "Degraded")["status"], "False");
    world.shoot("a").renew();
    world.protection("a", "None").await;
    world.clock.pass(2 * LONG).await;
    assert_restored(&world);
}

#[test]
fn marks_stay_while_the_policy_holds_back() {
    for (field, on, off, said) in [
        ("suspend", json!(true), json!(false), "suspended"),
        (
            "mode",
            json!("DryRun"),
            json!("Enforce"),
            "what was restored keeps its marks",
        ),
    ] {
        run(async move {
            let world = restored().await;
            change_policy(&world, "p", |policy| policy["spec"][field] = on.clone());
            world.clock.pass(3 * LONG).await;
            assert_eq!(is_marked(&world), [true; 3]);
            let message = world.health("a")["message"].to_string();
            assert!(message.contains(said), "{message}");
            change_policy(&world, "p", |policy| policy["spec"][field] = off.clone());
            world.clock.pass(LONG).await;
            assert_restored(&world);
        });
    }
}

/// Nobody knows when the one before gave them back.
#[tokio::test]
async fn a_new_leader_waits_for_a_minute_anew() {
    let mut world = restored().await;
    world.clock.pass(Duration::from_secs(40)).await;
    world.stop().await;
    world.start();
    world.clock.pass(Duration::from_secs(50)).await;
    assert_eq!(is_marked(&world), [true; 3]);
    assert_eq!(world.health("a")["protection"], "None");
    world.clock.pass(LONG).await;
    assert_restored(&world);
}

/// Reads of a dependent fail, time and again.
fn cannot_be_read(world: &World, name: &'static str) {
    let reads = move |call: &Call| call.method == "GET" && call.name == name;
    world
        .seed
        .fail(Failure::Status(500), (0, usize::MAX), reads);
}

#[test]
fn a_dependent_that_cannot_be_read_keeps_no_other_mark() {
    for (place, name) in DEPENDENTS.into_iter().enumerate() {
        for restarts in [false, true] {
            run(async move {
                let mut world = restored().await;
                cannot_be_read(&world, name);
                if restarts {
                    world.stop().await;
                    world.start();
                }
                world.clock.pass(3 * LONG).await;
                let mut expected = [false; 3];
                expected[place] = true;
                assert_eq!(is_marked(&world), expected, "{name}, {restarts}");
                world.seed.heal();
                world.clock.pass(LONG).await;
                assert_restored(&world);
            });
        }
    }
}

/// They need no verdict of that moment: the last one still counts.
#[tokio::test]
async fn marks_fall_when_they_are_due() {
    let world = restored().await;
    world.clock.pass(Duration::from_secs(55)).await;
    world.shoot("a").slow(Read::Cached, Duration::from_secs(4));
    world.clock.pass(Duration::from_secs(4)).await;
    assert_eq!(is_marked(&world), [true; 3]);
    world.clock.pass(Duration::from_secs(2)).await;
    assert_restored(&world);
}

/// The verdict that the cluster is healthy is older than it may be.
#[tokio::test]
async fn marks_stay_while_nothing_is_known_of_the_cluster() {
    let world = restored().await;
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    world.clock.pass(3 * LONG).await;
    assert_eq!(is_marked(&world), [true; 3]);
    world.shoot("a").heal();
    world.clock.pass(LONG).await;
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

/// What is at zero is restored when it is healthy, as ever.
#[tokio::test]
async fn a_policy_that_is_deleted_in_that_minute_waits_for_a_zero() {
    let world = restored().await;
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    scale_by_hand(&world, "kcm", 0, false);
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.clock.pass(2 * LONG).await;
    assert_eq!(is_marked(&world), [true, false, false]);
    assert_eq!(replicas_of(&world, "kcm"), 0);
    assert!(world.seed.get("probepolicies", "", "p").is_some());
    world.shoot("a").heal();
    world.clock.pass(LONG).await;
    assert_restored(&world);
    assert_eq!(world.seed.get("probepolicies", "", "p"), None);
}

/// The leader crashes after it has scaled one down, before it has recorded that.
#[test]
fn what_a_crash_leaves_of_an_outage_in_that_minute_is_restored() {
    for heals in [false, true] {
        run(async move {
            let mut world = restored().await;
            let records = |call: &Call| call.resource.starts_with("clusterhealths");
            world
                .seed
                .fail(Failure::Status(500), (0, usize::MAX), move |call| {
                    records(call) && call.method != "GET"
                });
            // Not more than the first.
            world
                .seed
                .fail(Failure::Status(500), (0, usize::MAX), |call| {
                    call.method == "PATCH" && call.name == "mcm"
                });
            world.shoot("a").silence(100);
            first_write(&world).await;
            world.stop().await;
            let health = world.health("a");
            assert_eq!(health["dependents"][0]["owed"], json!(false), "{health}");
            world.seed.heal();
            world.seed.forget_calls();
            if heals {
                world.shoot("a").renew();
            }
            world.start();
            world.clock.pass(LONG).await;
            if !heals {
                assert_eq!(world.replicas("a"), [0; 3]);
                assert_eq!(world.health("a")["protection"], "Active");
                world.shoot("a").renew();
                world.clock.pass(LONG).await;
            }
            assert_eq!(world.replicas("a"), RUNNING);
            let degraded = world.health("a");
            assert_eq!(condition(&degraded, "Degraded")["status"], "False");
            // It is not taken for a zero of somebody else: a scale-down alone reads the Cluster.
            assert_eq!(reads_of_the_cluster(&world), usize::from(!heals));
            world.clock.pass(2 * LONG).await;
            assert_restored(&world);
        });
    }
}
