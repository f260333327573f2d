//! What becomes of a protected cluster that is not to be probed any more, against a scripted seed.

use std::time::Duration;

use crate::support::{
    Call, INTERVAL, LONG, RUNNING, Runs, World, assert_back, assert_kept, assert_released,
    assert_restored, change_policy, change_shoot, condition, deleting, protected, put_workload,
    run, scale_by_hand, truncate,
};
use serde_json::{Value, json};

type Change = fn(&mut Value);

/// What makes gardenlet decide about the replicas.
const RELEASED: [(&str, Change); 7] = [
    ("Deleting", deleting),
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
        deleting(shoot);
    }),
    ("Hibernated", |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true})
    }),
];

/// What leaves its dependents with something to do.
fn loses_workers(shoot: &mut Value) {
    shoot["spec"]["provider"]["workers"] = json!([]);
}

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

/// What leaves open who decides about the replicas: nothing more is taken, and no mark is removed from what is
/// at zero.
const LET_GO: [(&str, Change); 4] = [
    ("LiveMigrating", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "LiveMigrate", "state": "Processing"});
    }),
    ("UnknownOperation", |shoot| {
        shoot["status"]["lastOperation"] = json!({"type": "Later", "state": "Processing"});
    }),
    ("SelfHosted", |shoot| {
        shoot["spec"]["provider"]["workers"] =
            json!([{"name": "w"}, {"name": "c", "controlPlane": {}}]);
    }),
    ("Hibernated", |shoot| {
        shoot["metadata"]["generation"] = json!(2);
        shoot["spec"]["hibernation"] = json!({"enabled": true});
    }),
];

/// What leaves no record of `a`: there is none, or one that was never written, or that only a later
/// version can read.
const NO_RECORD: [fn(&World); 4] = [
    |world| world.seed.delete("clusterhealths", "", "a"),
    |world| {
        change_health(world, |health| {
            health.as_object_mut().unwrap().remove("status");
        });
    },
    |world| {
        change_health(world, |health| {
            health["status"] = json!({"protection": "None"})
        })
    },
    |world| {
        change_health(world, |health| {
            health["status"]["protection"] = json!("Later")
        })
    },
];

fn change_health(world: &World, change: impl Fn(&mut Value)) {
    world.seed.change("clusterhealths", "", "a", change);
}

#[test]
fn gardenlet_decides_about_a_cluster_that_sleeps_or_goes() {
    let _runs = Runs::begin();
    for (reason, change) in RELEASED {
        run(async move {
            let world = protected().await;
            change_shoot(&world, change);
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
fn a_protection_stays_while_nothing_is_known_of_the_cluster() {
    let _runs = Runs::begin();
    for (reason, change) in KEPT {
        run(async move {
            let world = protected().await;
            change_shoot(&world, change);
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

#[test]
fn a_cluster_is_let_go_when_it_is_healthy() {
    let _runs = Runs::begin();
    for (reason, change) in LET_GO {
        run(async move {
            let world = protected().await;
            change_shoot(&world, change);
            let what = format!("it is held back as {reason}");
            let held = |status: &Value| {
                status["skipped"] == reason
                    && condition(status, "Protecting")["reason"] == "HeldBack"
            };
            let status = world.health_where("a", &what, held).await;
            let message = status["message"].as_str().unwrap();
            assert!(
                message.contains("it is let go once it is healthy: spec.shoot."),
                "{message}"
            );
            world.clock.pass(LONG).await;
            assert_kept(&world);
            // Nothing more is taken.
            scale_by_hand(&world, "mcm", 2, false);
            world.clock.pass(LONG).await;
            assert_eq!(world.replicas("a"), [0, 2, 0]);

            world.shoot("a").renew();
            world.protection("a", "None").await;
            assert_back(&world);
            // It is let go with its marks.
            let let_go = |status: &Value| status["reason"] == reason;
            let status = world.health_where("a", "it is let go", let_go).await;
            assert_restored(&world);
            assert_eq!(status["skipped"], reason);

            world.seed.forget_calls();
            world.shoot("a").silence(100);
            world.clock.pass(LONG).await;
            let touched = |call: &Call| call.resource == "deployments";
            assert!(!world.seed.calls().iter().any(touched));
            // What it is like is known again, and it is protected.
            change_shoot(&world, |shoot| {
                shoot["spec"]["hibernation"] = json!(null);
                shoot["spec"]["provider"]["workers"] = json!([{"name": "w"}]);
                shoot["status"]["lastOperation"] =
                    json!({"type": "Reconcile", "state": "Processing"});
            });
            world.protection("a", "Active").await;
            assert_kept(&world);
        });
    }
}

/// The operator died before it had ever written a record, or another has set the mark.
#[test]
fn a_mark_is_found_without_a_record_on_what_is_not_probed() {
    let _runs = Runs::begin();
    let (_, asleep) = RELEASED[3];
    for lose in NO_RECORD {
        for (change, restored) in [(loses_workers as Change, true), (asleep, false)] {
            run(async move {
                let mut world = protected().await;
                world.stop().await;
                lose(&world);
                change_shoot(&world, change);
                world.start();
                world.clock.pass(LONG).await;
                match restored {
                    true => assert_restored(&world),
                    false => assert_released(&world),
                }
            });
        }
    }
}

/// It is held by what it protects, and selects nothing any more: nothing else tells what to look at.
#[test]
fn a_policy_that_is_deleted_waits_for_a_mark_without_a_record() {
    let _runs = Runs::begin();
    for lose in NO_RECORD {
        run(async move {
            let mut world = protected().await;
            world.stop().await;
            lose(&world);
            world.seed.ask_to_delete("probepolicies", "", "p");
            world.start();
            world.clock.pass(LONG).await;
            assert_kept(&world);
            assert_eq!(world.health("a")["protection"], "Active");
            assert!(world.seed.get("probepolicies", "", "p").is_some());
            world.shoot("a").renew();
            world.clock.pass(LONG).await;
            assert_restored(&world);
            assert!(world.seed.get("probepolicies", "", "p").is_none());
        });
    }
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
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.start();
    world.clock.pass(LONG).await;
    assert!(overdue(&world.health("a")));
}

/// A person takes it out of the policy, and scales it up by hand.
#[tokio::test]
async fn what_no_policy_names_any_more_is_not_taken_again() {
    let world = protected().await;
    change_policy(&world, "p", truncate);
    world.clock.pass(INTERVAL).await;
    scale_by_hand(&world, "mcm", 2, false);
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [0, 2, 0]);
}

/// `a`, with an Etcd among its dependents, which is the first to be restored; the operator has yet to start.
async fn with_an_etcd() -> World {
    let world = World::new(&["a"]).await;
    put_workload(&world.seed, "Etcd", "a", "main", 3);
    change_policy(&world, "p", |policy| {
        let infos = policy["spec"]["dependentResourceInfos"].as_array_mut();
        infos.unwrap().push(json!({
            "ref": {
                "apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "name": "main",
            },
            "optional": true, "scaleUp": {"level": 0}, "scaleDown": {"level": 3},
        }));
    });
    world
}

/// The same, protected.
async fn protected_with_an_etcd() -> World {
    let mut world = with_an_etcd().await;
    world.start();
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world
}

fn assert_etcd_restored(world: &World) {
    let etcd = world.seed.get("etcds", "a", "main").unwrap();
    assert_eq!(etcd["spec"]["replicas"], 3, "{etcd}");
    assert_eq!(etcd["metadata"]["annotations"], Value::Null, "{etcd}");
}

/// What is told of dependents.
fn problem(status: &Value) -> Value {
    condition(status, "Degraded")["reason"].clone()
}

/// Whether the Etcd is owed its three replicas, by the ClusterHealth.
fn owes_the_etcd(world: &World) -> bool {
    let status = world.health("a");
    let dependents = status["dependents"].as_array().unwrap();
    let etcd = dependents.iter().find(|it| it["ref"]["kind"] == "Etcd");
    etcd.is_some_and(|it| it["owed"] == true && it["recordedReplicas"] == 3)
}

/// A kind that is not served any more keeps no other at zero. What is owed waits for it, and so does the policy.
#[test]
fn what_is_owed_waits_for_its_kind() {
    let _runs = Runs::begin();
    for is_deleted in [false, true] {
        run(async move {
            let world = protected_with_an_etcd().await;
            world.seed.serve_etcds(&["v1beta1"]);
            match is_deleted {
                true => world.seed.ask_to_delete("probepolicies", "", "p"),
                false => change_policy(&world, "p", truncate),
            }
            world.shoot("a").renew();
            world.clock.pass(LONG * 6).await;
            assert_eq!(world.replicas("a"), RUNNING);
            let status = world.health("a");
            assert_eq!(problem(&status), "KindUnknown", "{status}");
            assert!(owes_the_etcd(&world), "{status}");
            assert!(world.seed.get("probepolicies", "", "p").is_some());
            world.seed.serve_etcds(&["v1beta1", "v1alpha1"]);
            world.clock.pass(LONG * 6).await;
            assert_etcd_restored(&world);
            let policy = world.seed.get("probepolicies", "", "p");
            assert_eq!(policy.is_none(), is_deleted);
        });
    }
}

/// There can be nothing to restore.
#[tokio::test]
async fn a_policy_of_a_kind_that_was_never_served_is_freed() {
    let mut world = with_an_etcd().await;
    world.seed.serve_etcds(&[]);
    world.start();
    world.reason("a", "Healthy").await;
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.clock.pass(LONG * 2).await;
    assert!(world.seed.get("probepolicies", "", "p").is_none());
}
