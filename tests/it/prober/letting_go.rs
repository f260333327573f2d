//! What becomes of a protected cluster that is not to be probed any more, against a scripted seed.

use std::time::Duration;

use crate::support::{
    Call, Failure, INTERVAL, LONG, Read, Runs, World, assert_back, assert_kept, assert_released,
    assert_restored, change_policy, change_shoot, condition, deleting, deselect, is_marked, policy,
    protected, put_workload, run, scale_by_hand, truncate, unreadable_grace,
};
use dependency_watchdog::prober::plan::{IGNORE, MARK, RECORD};
use serde_json::{Value, json};

type Change = fn(&mut Value);

/// What makes gardenlet decide about the replicas.
const RELEASED: [(&str, Change); 6] = [
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

/// What leaves open who decides about the replicas: nothing more is taken, and no mark is removed from what is
/// at zero.
const LET_GO: [(&str, Change); 3] = [
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
fn a_cluster_that_loses_its_workers_or_goes_to_sleep_is_restored() {
    let _runs = Runs::begin();
    for (reason, change) in RESTORED {
        run(async move {
            let world = protected().await;
            world.seed.forget_calls();
            change_shoot(&world, change);
            let status = world.protection("a", "None").await;
            assert_eq!(status["skipped"], reason);
            assert_restored(&world);
            assert_eq!(status["lastAction"]["action"], "Restored");
            let order: Vec<String> = world.seed.writes().into_iter().map(|it| it.name).collect();
            // Nothing is waited for with the marks, where nobody scales it down for us any more.
            assert_eq!(order, ["ca", "ca", "mcm", "mcm", "kcm", "kcm"]);
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
                shoot["spec"]["provider"]["workers"] = json!([{"name": "w"}]);
                shoot["status"]["lastOperation"] =
                    json!({"type": "Reconcile", "state": "Processing"});
            });
            world.protection("a", "Active").await;
            assert_kept(&world);
        });
    }
}

/// Nothing is known of its nodes either.
#[test]
fn a_cluster_that_cannot_be_read_is_not_let_go_and_says_why() {
    let _runs = Runs::begin();
    for (reason, change) in LET_GO {
        run(async move {
            let world = protected().await;
            for read in [Read::Cached, Read::Consistent] {
                world.shoot("a").fail(read, Failure::Status(503));
            }
            world.reason("a", "ServerError").await;
            change_shoot(&world, change);
            let skipped = |status: &Value| status["skipped"] == reason;
            let status = world.health_where("a", "it says why", skipped).await;
            assert_eq!(status["reason"], "ServerError");
            world.clock.pass(LONG * 3).await;
            assert_kept(&world);
        });
    }
}

#[test]
fn a_restart_forgets_no_mark_of_a_cluster_that_is_let_go() {
    let _runs = Runs::begin();
    let kept: fn(&World) = |_| {};
    for lose in NO_RECORD.into_iter().chain([kept]) {
        for (_, change) in LET_GO {
            run(async move {
                let mut world = protected().await;
                world.stop().await;
                lose(&world);
                change_shoot(&world, change);
                world.start();
                world.clock.pass(LONG).await;
                assert_kept(&world);
                assert_eq!(world.health("a")["protection"], "Active");
                world.shoot("a").renew();
                world.clock.pass(LONG).await;
                assert_back(&world);
            });
        }
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
    change_shoot(&world, |shoot| {
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

/// Its leases come, so its API server answers: that its Nodes do not is no silence.
#[test]
fn a_cluster_that_goes_to_sleep_is_restored_whatever_becomes_of_its_nodes() {
    let _runs = Runs::begin();
    for failure in [Failure::Status(503), Failure::Hang] {
        run(async move {
            let world = protected().await;
            world.shoot("a").fail(Read::Nodes, failure);
            // Until they are wanted anew.
            world.clock.pass(LONG * 2).await;
            change_shoot(&world, RESTORED[1].1);
            let status = world.protection("a", "None").await;
            assert_eq!(status["skipped"], "Hibernated");
            assert_restored(&world);
            // The events come last.
            world.clock.pass(Duration::from_secs(5)).await;
        });
    }
}

/// A kubeconfig that is missing does not tell that the API server is gone.
#[tokio::test]
async fn whoever_cannot_be_asked_is_not_taken_to_be_asleep() {
    let world = protected().await;
    world.shoot("a").fail(Read::Cached, Failure::Status(401));
    world
        .shoot("a")
        .fail(Read::Consistent, Failure::Status(401));
    change_shoot(&world, |shoot| {
        shoot["spec"]["hibernation"] = json!({"enabled": true});
    });
    world.clock.pass(LONG * 3).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    // In the end its status tells.
    change_shoot(&world, |shoot| shoot["status"]["hibernated"] = json!(true));
    world.protection("a", "None").await;
    assert_released(&world);
}

/// What is refused is reported, and tried again until it works.
#[test]
fn letting_go_is_tried_until_it_works() {
    let _runs = Runs::begin();
    for (_, change) in [RELEASED[0], RESTORED[0]] {
        run(async move {
            let world = protected().await;
            let patches =
                |call: &crate::support::Call| call.brief().starts_with("PATCH deployments");
            world
                .seed
                .fail(Failure::Status(403), (0, usize::MAX), patches);
            change_shoot(&world, change);
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

/// It passes, as the state of a cluster does; what was released is not taken back.
#[tokio::test]
async fn a_cluster_that_is_probed_again_is_protected_again() {
    let world = protected().await;
    change_shoot(&world, RESTORED[0].1);
    world.protection("a", "None").await;
    change_shoot(&world, |shoot| {
        shoot["spec"]["provider"]["workers"] = json!([{"name": "w"}]);
    });
    world.protection("a", "Active").await;
    assert_kept(&world);
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
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
    let _runs = Runs::begin();
    for change in [deselect, deleting] {
        run(async move {
            let mut world = protected().await;
            world.stop().await;
            change_policy(&world, "p", change);
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
    truncate(&mut heir);
    world.seed.put(&heir);
    world.protection("a", "None").await;
    assert_back(&world);
}

/// The operator died between a write and its report, and the policy went meanwhile: the record does
/// not know of the mark.
#[test]
fn a_mark_that_no_record_knows_of_is_found() {
    let _runs = Runs::begin();
    let gone: fn(&World) = |world| world.seed.delete("probepolicies", "", "p");
    let deselected: fn(&World) = |world| change_policy(world, "p", deselect);
    let narrowed: fn(&World) = |world| change_policy(world, "p", truncate);
    for (change, restored) in [(gone, false), (deselected, true), (narrowed, true)] {
        run(async move {
            let mut world = protected().await;
            world.stop().await;
            change_health(&world, |health| {
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
                assert_back(&world);
            } else {
                assert_kept(&world);
                assert_eq!(world.health("a")["protection"], "Active");
            }
        });
    }
}

/// The operator died before it had ever written a record, or another has set the mark.
#[test]
fn a_mark_is_found_without_a_record_on_what_is_not_probed() {
    let _runs = Runs::begin();
    let (_, workers) = RESTORED[0];
    let (_, asleep) = RELEASED[3];
    for lose in NO_RECORD {
        for (change, restored) in [(workers, true), (asleep, false)] {
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

/// Nor does anybody want it: it goes.
#[test]
fn an_empty_record_of_what_no_policy_selects_is_removed() {
    let _runs = Runs::begin();
    for lose in &NO_RECORD[1..] {
        run(async move {
            let mut world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            world.stop().await;
            lose(&world);
            world.seed.delete("probepolicies", "", "p");
            world.start();
            world.clock.pass(LONG).await;
            assert_eq!(world.seed.get("clusterhealths", "", "a"), None);
        });
    }
}

/// Its API server cannot be asked, so that nothing was looked at since the restart.
#[tokio::test]
async fn the_marks_of_a_cluster_that_goes_before_it_was_looked_at_are_removed() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("clusterhealths", "", "a");
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    world.start();
    world.clock.pass(INTERVAL).await;
    world.seed.delete("clusters", "", "a");
    world.clock.pass(INTERVAL * 2).await;
    assert_kept(&world);
    world.clock.pass(LONG).await;
    assert_released(&world);
}

/// While the dependents cannot be read, a mark may be there.
#[tokio::test]
async fn no_record_is_dropped_before_its_dependents_were_looked_at() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.stop().await;
    world.seed.delete("probepolicies", "", "p");
    let reads = |call: &crate::support::Call| call.brief() == "GET deployments/mcm";
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
    change_shoot(&world, RELEASED[3].1);
    let forgotten =
        |status: &Value| status["skipped"] == "Hibernated" && status["dependents"].is_null();
    world
        .health_where("a", "nothing can be scaled", forgotten)
        .await;
    world.stop().await;
    world.seed.forget_calls();
    world.start();
    world.clock.pass(INTERVAL * 3).await;
    let touched = |call: &crate::support::Call| call.resource.starts_with("deployments");
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
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.start();
    world.clock.pass(LONG).await;
    assert!(overdue(&world.health("a")));
}

/// Also not by an operator that finds it in a record alone.
#[tokio::test]
async fn what_no_policy_names_is_not_taken_after_a_restart() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.clock.pass(INTERVAL).await;
    world.stop().await;
    change_policy(&world, "p", truncate);
    world.shoot("a").silence(100);
    world.start();
    world.protection("a", "Active").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [0, 2, 3]);
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

#[tokio::test]
async fn an_unselected_cluster_is_released_whatever_it_overrides() {
    let world = protected().await;
    change_shoot(&world, |shoot| {
        unreadable_grace(shoot);
        deleting(shoot);
    });
    change_policy(&world, "p", deselect);
    world.clock.pass(LONG).await;
    assert_released(&world);
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

/// Its CustomResourceDefinition is deleted, and so are all objects of it.
#[test]
fn a_kind_that_vanishes_keeps_nothing_down() {
    let _runs = Runs::begin();
    for restart in [false, true] {
        run(kind_vanishes(restart));
    }
}

async fn kind_vanishes(restart: bool) {
    let mut world = protected_with_an_etcd().await;
    if restart {
        world.stop().await;
    }
    world.seed.delete("etcds", "a", "main");
    world.seed.serve_etcds(&[]);
    change_policy(&world, "p", deselect);
    world.shoot("a").renew();
    if restart {
        world.start();
    }
    world.clock.pass(LONG * 4).await;
    assert_restored(&world);
    assert_eq!(world.health("a"), Value::Null, "restart: {restart}");
}

/// The words of the events on Etcds, with their notes.
fn told_of_etcds(world: &World) -> Vec<(String, String)> {
    let events = world.seed.events().into_iter();
    let events = events.filter(|event| event.body["regarding"]["kind"] == "Etcd");
    let text = |text: &Value| text.as_str().unwrap().to_owned();
    let words = events.map(|event| (text(&event.body["reason"]), text(&event.body["note"])));
    words.collect()
}

fn assert_etcd_restored(world: &World) {
    let etcd = world.seed.get("etcds", "a", "main").unwrap();
    assert_eq!(etcd["spec"]["replicas"], 3, "{etcd}");
    assert_eq!(etcd["metadata"]["annotations"], json!({}), "{etcd}");
}

/// Nobody will be there who could be asked what became of it.
#[tokio::test]
async fn what_is_given_up_is_told_and_its_policy_freed() {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds(&[]);
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.shoot("a").renew();
    // One answer is not enough, nor are many within seconds.
    world.clock.pass(LONG).await;
    assert_eq!(problem(&world.health("a")), "KindUnknown");
    assert!(world.seed.get("probepolicies", "", "p").is_some());
    world.clock.pass(LONG * 3).await;
    assert!(world.seed.get("probepolicies", "", "p").is_none());
    assert_restored(&world);
    let told = told_of_etcds(&world);
    let reasons: Vec<&str> = told.iter().map(|(reason, _)| &**reason).collect();
    assert_eq!(reasons, ["ScaledDown", "KindUnknown", "GivenUp"]);
    let (_, note) = &told[2];
    assert!(note.contains("set its replicas to 3"), "{note}");
}

/// What is told of dependents.
fn problem(status: &Value) -> Value {
    condition(status, "Degraded")["reason"].clone()
}

fn is_given_up(status: &Value) -> bool {
    problem(status) == "GivenUp"
}

/// `a`, protected, whose policy ceases to name an Etcd that is not served any more, which is given up.
async fn given_up() -> World {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds(&[]);
    change_policy(&world, "p", truncate);
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    let all = |status: &Value| is_given_up(status) && status["protection"] == "None";
    let what = "it is given up, and all else restored";
    world.health_where("a", what, all).await;
    world
}

/// A cluster that the policy still selects shows it.
#[tokio::test]
async fn what_is_given_up_is_shown_for_a_while() {
    let world = given_up().await;
    world.clock.pass(LONG * 5).await;
    assert!(is_given_up(&world.health("a")));
    let told = told_of_etcds(&world);
    let times = told.iter().filter(|(reason, _)| reason == "GivenUp");
    assert_eq!(times.count(), 1);
}

/// Whether the Etcd is owed its three replicas, by the ClusterHealth.
fn owes_the_etcd(world: &World) -> bool {
    let status = world.health("a");
    let dependents = status["dependents"].as_array().unwrap();
    let etcd = dependents.iter().find(|it| it["ref"]["kind"] == "Etcd");
    etcd.is_some_and(|it| it["owed"] == true && it["recordedReplicas"] == 3)
}

/// It keeps no other at zero for that, until no policy names it.
#[test]
fn what_a_policy_names_is_not_given_up() {
    let _runs = Runs::begin();
    for (_, change) in RESTORED {
        for served_again in [true, false] {
            run(async move {
                let world = protected_with_an_etcd().await;
                world.seed.serve_etcds(&[]);
                world.shoot("a").renew();
                change_shoot(&world, change);
                world.clock.pass(LONG * 6).await;
                assert_restored(&world);
                let status = world.health("a");
                assert_eq!(problem(&status), "KindUnknown", "{status}");
                assert!(owes_the_etcd(&world), "{status}");
                if served_again {
                    world.seed.serve_etcds(&["v1beta1"]);
                    world.protection("a", "None").await;
                    assert_etcd_restored(&world);
                } else {
                    change_policy(&world, "p", truncate);
                    world.clock.pass(LONG).await;
                    assert!(owes_the_etcd(&world), "{}", world.health("a"));
                    world.health_where("a", "it is given up", is_given_up).await;
                }
            });
        }
    }
}

/// Nothing is done about what a suspended policy has taken, though it is looked at.
#[tokio::test]
async fn what_is_held_as_it_is_is_not_given_up() {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds(&[]);
    change_policy(&world, "p", |policy| {
        truncate(policy);
        policy["spec"]["suspend"] = json!(true);
    });
    world.clock.pass(LONG * 6).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(problem(&status), "KindUnknown", "{status}");
    assert!(owes_the_etcd(&world), "{status}");
    world.shoot("a").renew();
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
    world.clock.pass(LONG).await;
    assert!(owes_the_etcd(&world), "{}", world.health("a"));
    world.health_where("a", "it is given up", is_given_up).await;
}

/// The kind is there, and so may be the object: it is told with its remedy until it can be scaled again.
#[tokio::test]
async fn what_is_served_without_a_scale_is_not_given_up() {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds_without_scale(&["v1alpha1"]);
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.shoot("a").renew();
    world.clock.pass(LONG * 6).await;
    assert_restored(&world);
    let status = world.health("a");
    assert_eq!(problem(&status), "NotScalable", "{status}");
    assert!(owes_the_etcd(&world), "{status}");
    world.seed.serve_etcds_without_scale(&[]);
    world.clock.pass(LONG).await;
    assert_etcd_restored(&world);
    assert!(world.seed.get("probepolicies", "", "p").is_none());
}

/// It is paid by hand, or its owner has taken it away: nobody can be waited for.
#[test]
fn what_has_no_scale_any_more_can_be_seen_to_by_hand() {
    let _runs = Runs::begin();
    for way in ["removed", "unmarked", "ignored", "deleting"] {
        run(async move {
            let world = protected_with_an_etcd().await;
            world.seed.serve_etcds_without_scale(&["v1alpha1"]);
            world.seed.ask_to_delete("probepolicies", "", "p");
            world.shoot("a").renew();
            world.clock.pass(LONG * 4).await;
            assert!(owes_the_etcd(&world), "{}", world.health("a"));
            match way {
                "removed" => world.seed.delete("etcds", "a", "main"),
                "unmarked" => world.seed.change("etcds", "a", "main", |etcd| {
                    let annotations = etcd["metadata"]["annotations"].as_object_mut();
                    annotations.unwrap().remove(MARK);
                }),
                "ignored" => world.seed.change("etcds", "a", "main", |etcd| {
                    etcd["metadata"]["annotations"][IGNORE] = json!("true");
                }),
                _ => change_shoot(&world, deleting),
            }
            world.clock.pass(LONG).await;
            assert!(world.seed.get("probepolicies", "", "p").is_none(), "{way}");
            assert_restored(&world);
            if let Some(etcd) = world.seed.get("etcds", "a", "main") {
                assert!(
                    etcd["metadata"]["annotations"].get(MARK).is_none(),
                    "{etcd}"
                );
            }
        });
    }
}

/// Another version of the group may be behind an API that is broken.
#[tokio::test]
async fn what_has_no_scale_keeps_nothing_down_while_other_versions_cannot_be_looked_at() {
    let mut world = with_an_etcd().await;
    world.seed.serve_etcds_without_scale(&["v1alpha1"]);
    world.start();
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world
        .health_where("a", "all others are down", |_| {
            world.replicas("a") == [0; 3]
        })
        .await;
    let groups = |call: &crate::support::Call| call.brief() == "GET /apis";
    world
        .seed
        .fail(Failure::Status(503), (0, usize::MAX), groups);
    // Until what was looked up before is not believed any more.
    world.clock.pass(LONG).await;
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_back(&world);
}

/// Its Cluster is gone as well: no policy has a say any more.
#[tokio::test]
async fn what_is_served_no_more_of_a_cluster_that_is_gone_is_given_up() {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds(&[]);
    world.seed.delete("clusters", "", "a");
    world.seed.ask_to_delete("probepolicies", "", "p");
    // Half of the time after which whatever is left of it is.
    world.clock.pass(LONG * 5).await;
    assert!(world.seed.get("probepolicies", "", "p").is_none());
    assert_released(&world);
}

/// It was given up too early: the marks on the dependents are the truth.
#[tokio::test]
async fn what_was_given_up_is_restored_when_it_is_served_again() {
    let world = given_up().await;
    world.seed.serve_etcds(&["v1beta1"]);
    world.clock.pass(LONG * 3).await;
    assert_etcd_restored(&world);
    assert!(!is_given_up(&world.health("a")));
}

/// Why it is at zero is told for as long as it is, and not that it was given up.
#[test]
fn what_was_given_up_and_refuses_is_told_until_it_is_restored() {
    let _runs = Runs::begin();
    type Step = fn(&World);
    fn record(world: &World, record: &str) {
        world.seed.change("etcds", "a", "main", |etcd| {
            etcd["metadata"]["annotations"][RECORD] = json!(record);
        });
    }
    let unreadable: Step = |world| record(world, "many");
    let readable: Step = |world| record(world, "3");
    let forbid: Step = |world| {
        let patches = |call: &crate::support::Call| call.brief().starts_with("PATCH etcds");
        let failure = Failure::Status(403);
        world.seed.fail(failure, (0, usize::MAX), patches);
    };
    let cases: [(&str, Step, Step); 2] = [
        ("RecordUnreadable", unreadable, readable),
        ("ScalingForbidden", forbid, |world| world.seed.heal()),
    ];
    for (reason, refuse, mend) in cases {
        run(async move {
            let world = given_up().await;
            refuse(&world);
            world.seed.serve_etcds(&["v1alpha1"]);
            let refused = |status: &Value| problem(status) == reason;
            world.health_where("a", reason, refused).await;
            // Longer than it would be told that it was given up.
            world.clock.pass(LONG * 70).await;
            assert!(refused(&world.health("a")), "{}", world.health("a"));
            mend(&world);
            world.clock.pass(LONG * 3).await;
            assert_etcd_restored(&world);
        });
    }
}

/// A policy is deleted while the owner of a kind is being upgraded.
#[tokio::test]
async fn a_version_that_vanishes_loses_nothing() {
    let world = protected_with_an_etcd().await;
    world.seed.serve_etcds(&["v1beta1"]);
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.shoot("a").renew();
    world.clock.pass(LONG * 2).await;
    assert!(world.seed.get("probepolicies", "", "p").is_none());
    assert_restored(&world);
    assert_etcd_restored(&world);
}

/// The seed does what it was asked to when the answer is not waited for any more, the cluster is let go,
/// and all is as it should be.
#[test]
fn what_was_given_up_and_arrives_late_is_undone() {
    let _runs = Runs::begin();
    let ways: [fn(&World); 3] = [
        |world| world.seed.ask_to_delete("probepolicies", "", "p"),
        |world| change_policy(world, "p", deselect),
        |world| change_shoot(world, RESTORED[0].1),
    ];
    for change in ways {
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            // What an earlier process has given up would be as late.
            world.clock.pass(LONG * 2).await;
            let is_down = |call: &Call| call.brief() == "PATCH deployments/kcm";
            world.seed.fail(Failure::Hang, (0, usize::MAX), is_down);
            world.shoot("a").silence(100);
            let gave_up = |status: &Value| problem(status) == "ScalingFailed";
            world.health_where("a", "given up", gave_up).await;
            change(&world);
            world.shoot("a").renew();
            world.protection("a", "None").await;
            assert_restored(&world);
            world.seed.heal();
            world.clock.pass(LONG / 6).await;
            world.seed.change("deployments", "a", "kcm", |object| {
                object["spec"]["replicas"] = json!(0);
                object["metadata"]["annotations"] = json!({MARK: "", RECORD: "1"});
            });
            world.clock.pass(LONG * 2).await;
            assert_restored(&world);
            let policy = world.seed.get("probepolicies", "", "p");
            let deleted = |policy: &Value| policy["metadata"]["deletionTimestamp"].is_string();
            assert!(!policy.is_some_and(|policy| deleted(&policy)));
        });
    }
}

/// gardenlet removes the cluster-autoscaler where no pool can grow.
#[test]
fn a_dependent_that_is_gone_keeps_no_other_down() {
    let _runs = Runs::begin();
    let ways: [fn(&World); 2] = [
        |world| world.seed.delete("probepolicies", "", "p"),
        |world| change_shoot(world, RESTORED[0].1),
    ];
    for change in ways {
        run(async move {
            let world = protected().await;
            world.seed.delete("deployments", "a", "ca");
            change(&world);
            world.shoot("a").renew();
            world.clock.pass(LONG * 3).await;
            for (name, replicas) in [("kcm", 1), ("mcm", 2)] {
                let object = world.seed.get("deployments", "a", name).unwrap();
                assert_eq!(
                    object["spec"]["replicas"],
                    replicas,
                    "{}",
                    world.health("a")
                );
            }
        });
    }
}
