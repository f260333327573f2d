//! The whole prober against a scripted seed: what it reports, whom it lets go, and how policies
//! come and go.

use std::time::Duration;

use crate::support::{
    Call, DOWN, Failure, INTERVAL, LONG, RUNNING, Read, Runs, World, change_policy, condition,
    deselect, first_write, policy, put_cluster, run,
};
use dependency_watchdog::api::FINALIZER;
use serde_json::{Value, json};

/// Time passes in steps of this length.
const STEP: Duration = Duration::from_millis(250);

/// The status of a policy.
fn policy_status(world: &World, name: &str) -> Value {
    world.seed.get("probepolicies", "", name).unwrap()["status"].clone()
}

/// Waits until a condition of a policy has this reason.
async fn policy_reason(world: &World, name: &str, kind: &str, reason: &str) -> Value {
    let what = format!("{kind} of {name} is {reason}");
    let found = || {
        let status = policy_status(world, name);
        let conditions = status["conditions"].as_array()?;
        let holds = conditions
            .iter()
            .any(|it| it["type"] == kind && it["reason"] == reason);
        holds.then_some(status)
    };
    world.clock.until(&what, found).await
}

/// One request to the shoot for each probe and one each minute for its state, none to the seed but the
/// renewal of three watches each minute, and one connection.
#[tokio::test]
async fn a_healthy_cluster_costs_the_seed_nothing() {
    let world = World::running(&["a", "b"]).await;
    for name in ["a", "b"] {
        world.reason(name, "Healthy").await;
    }
    policy_reason(&world, "p", "Ready", "Probing").await;
    // The first write of a status is followed by those of what has come meanwhile, and the first
    // look at the dependents by another: a write of an earlier process might still arrive.
    world.clock.pass(INTERVAL * 11).await;
    world.seed.forget_calls();
    let reads = world.shoot("a").reads().len();
    let ready = world.shoot("a").count(Read::Ready);
    for _ in 0..14 {
        world.more_reads("a", Read::Cached, 1).await;
    }
    let is_watch = |call: &String| call.ends_with("(watch)");
    let (watches, others): (Vec<_>, Vec<_>) = world.seed.briefs().into_iter().partition(is_watch);
    assert_eq!(others, Vec::<String>::new());
    assert!(watches.len() <= 3 * 3, "{watches:?}");
    let ready = world.shoot("a").count(Read::Ready) - ready;
    assert!((2..=3).contains(&ready), "{ready}");
    assert_eq!(world.shoot("a").reads().len(), reads + 14 + ready);
    assert_eq!(world.shoot("a").connections(), 1);
}

/// That there are many costs each of them no more.
#[tokio::test]
async fn many_clusters_are_let_go_at_once() {
    const MANY: usize = 100;
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let names: Vec<String> = (1..MANY).map(|it| format!("b{it}")).collect();
    for name in &names {
        // They have the same Shoot.
        put_cluster(&world.seed, name, &world.shoot("a").kubeconfig());
    }
    for name in &names {
        world.reason(name, "Healthy").await;
    }
    world.shoot("a").silence(100);
    world.clock.pass(LONG).await;
    for name in &names {
        assert_eq!(world.health(name)["protection"], "Active");
        assert_eq!(world.replicas(name), DOWN);
    }
    let asked = |is_write: bool, resource: &str| {
        let calls = world.seed.calls();
        let asked = calls
            .iter()
            .filter(|it| (it.method != "GET") == is_write && it.resource.starts_with(resource));
        asked.count()
    };
    world.seed.forget_calls();
    change_policy(&world, "p", deselect);
    world.clock.pass(LONG).await;
    // Each says so, once.
    assert_eq!(asked(true, "clusterhealths"), MANY);
    assert_eq!(asked(false, "deployments"), 0);
    assert_eq!(asked(true, "deployments"), 0);
    assert!(asked(true, "probepolicies") <= 12);
    world.seed.forget_calls();
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    // Each dependent is read, scaled, rid of its mark and seen back; each record is written on the way,
    // and deleted.
    assert_eq!(asked(true, "deployments"), 2 * 3 * MANY);
    assert!(asked(false, "deployments") <= 4 * 3 * MANY);
    assert!(asked(true, "clusterhealths") <= 7 * MANY);
    assert!(asked(true, "probepolicies") <= 12);
    for name in &names {
        assert_eq!(world.replicas(name), RUNNING);
        assert_eq!(world.health(name), Value::Null);
    }
}

/// A thousand records that say what is so are not written again by a successor.
#[tokio::test]
async fn a_restart_writes_no_record_again() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.clock.pass(INTERVAL).await;
    world.stop().await;
    world.seed.forget_calls();
    world.start();
    world.more_reads("a", Read::Cached, 3).await;
    let records = "PATCH clusterhealths";
    let written: Vec<String> = world.seed.briefs();
    assert!(
        !written.iter().any(|brief| brief.starts_with(records)),
        "{written:?}"
    );
}

/// Until Gardener has reconciled the Shoot, kube-controller-manager runs with the shorter one, whoever leads.
#[tokio::test]
async fn a_grace_that_is_raised_counts_once_the_shoot_is_reconciled() {
    let mut world = World::running(&["a"]).await;
    let counts = async |world: &World, grace: &str| {
        let what = format!("the grace is {grace}");
        let is = |status: &Value| status["nodeMonitorGracePeriod"] == grace;
        world.health_where("a", &what, is).await;
    };
    counts(&world, "40s").await;
    let raised = |world: &World, observed: i64| {
        world.seed.change("clusters", "", "a", |cluster| {
            let shoot = &mut cluster["spec"]["shoot"];
            shoot["metadata"] = json!({"generation": 2});
            shoot["spec"]["kubernetes"] =
                json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "2m0s"}});
            shoot["status"]["observedGeneration"] = json!(observed);
        });
    };
    raised(&world, 1);
    world.clock.pass(INTERVAL).await;
    counts(&world, "40s").await;
    world.stop().await;
    world.start();
    world.more_reads("a", Read::Cached, 3).await;
    counts(&world, "40s").await;

    raised(&world, 2);
    counts(&world, "120s").await;
    world.shoot("a").silence(60);
    world.clock.pass(2 * INTERVAL).await;
    assert_eq!(world.replicas("a"), [1, 2, 3]);
    world.protection("a", "Active").await;
}

/// A reader can tell a record that nobody keeps: one that is kept is refreshed.
#[tokio::test]
async fn a_status_that_says_the_same_is_refreshed_within_a_quarter_of_an_hour() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.clock.pass(INTERVAL).await;
    world.seed.forget_calls();
    world.clock.pass(Duration::from_secs(15 * 60)).await;
    let briefs = world.seed.briefs();
    let patches = briefs
        .iter()
        .filter(|it| **it == "PATCH clusterhealths/status/a");
    assert!((1..=2).contains(&patches.count()), "{briefs:?}");
}

#[tokio::test]
async fn a_cluster_health_is_created_owned_and_created_again() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let health = world.seed.get("clusterhealths", "", "a").unwrap();
    let owner = &health["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Cluster"), &json!("uid-a"))
    );
    // Although there is nothing new to say.
    world.clock.pass(INTERVAL).await;
    world.seed.delete("clusterhealths", "", "a");
    world.clock.pass(STEP).await;
    assert_eq!(world.health("a")["reason"], "Healthy");
}

/// The finalizer is on a policy exactly as long as it protects something, or marks are left of that.
#[tokio::test]
async fn a_policy_is_held_while_it_protects() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let held = |world: &World| {
        let policy = world.seed.get("probepolicies", "", "p").unwrap();
        policy["metadata"]["finalizers"] == json!([FINALIZER])
    };
    assert!(!held(&world));
    world.shoot("a").silence(20);
    world.protection("a", "ScalingDown").await;
    assert!(held(&world));
    world.protection("a", "Active").await;
    assert!(held(&world));
    world.shoot("a").renew();
    world.protection("a", "None").await;
    world.clock.pass(STEP).await;
    assert!(
        held(&world),
        "marks are left, which another could not tell from others"
    );
    world.clock.pass(2 * LONG).await;
    assert!(!held(&world));
}

/// A successor has no reason to change anything in the status of a policy.
#[tokio::test]
async fn a_policy_keeps_its_status_over_a_restart() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    policy_reason(&world, "p", "Ready", "Probing").await;
    world.clock.pass(INTERVAL).await;
    world.stop().await;
    let status = policy_status(&world, "p");
    world.seed.forget_calls();
    world.start();
    world.more_reads("a", Read::Cached, 3).await;
    assert_eq!(policy_status(&world, "p"), status);
    let briefs = world.seed.briefs();
    assert!(
        !briefs
            .iter()
            .any(|it| it.starts_with("PATCH probepolicies")),
        "{briefs:?}"
    );
}

#[test]
fn a_status_that_cannot_be_written_is_tried_again_and_delays_no_other() {
    let _runs = Runs::begin();
    for failure in Failure::ALL {
        run(status_fails(failure));
    }
}

async fn status_fails(failure: Failure) {
    let mut world = World::new(&["a", "b"]).await;
    world.seed.fail(failure, (0, usize::MAX), |call| {
        call.resource.starts_with("clusterhealths") && call.name == "a"
    });
    world.start();
    world.reason("b", "Healthy").await;
    // What comes later of the other cluster is not kept waiting either, not even by the time that
    // a request may take.
    world.shoot("b").fail(Read::Cached, Failure::Status(500));
    world.more_reads("b", Read::Cached, 1).await;
    world.clock.pass(STEP).await;
    assert_eq!(world.health("b")["reason"], "ServerError", "{failure:?}");
    if !failure.is_ambiguous() {
        assert_eq!(world.health("a"), Value::Null, "{failure:?}");
    }
    world.seed.heal();
    world.reason("a", "Healthy").await;
}

/// Writes that fail are tried again ever more seldom.
#[tokio::test]
async fn failing_writes_back_off() {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(Failure::Status(500), (0, usize::MAX), |call| {
            call.method != "GET" && call.resource.starts_with("clusterhealths")
        });
    world.start();
    world.clock.pass(Duration::from_secs(60)).await;
    let times: Vec<_> = world
        .seed
        .calls()
        .into_iter()
        .filter(|call| call.method == "PATCH" && call.resource.starts_with("clusterhealths"))
        .map(|call| call.at)
        .collect();
    let pauses: Vec<u64> = times
        .windows(2)
        .map(|it| (it[1] - it[0]).as_secs())
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16]);
}

#[tokio::test]
async fn the_record_of_an_unselected_cluster_is_deleted() {
    let world = World::running(&["a", "b"]).await;
    for name in ["a", "b"] {
        world.reason(name, "Healthy").await;
    }
    change_policy(&world, "p", |policy| {
        policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "b"}});
    });
    world
        .health_where("a", "its record is gone", Value::is_null)
        .await;
    let reads = world.shoot("a").reads().len();
    world.more_reads("b", Read::Cached, 3).await;
    assert_eq!(world.shoot("a").reads().len(), reads, "it is not probed");
    // Selected again, it is as before.
    change_policy(&world, "p", |policy| {
        policy["spec"]["clusterSelector"] = json!({});
    });
    world.reason("a", "Healthy").await;
}

/// An earlier run has left records of clusters that no policy selects now, one of them unreadable.
#[tokio::test]
async fn records_that_were_left_behind_are_deleted() {
    let mut world = World::new(&["a", "b"]).await;
    for (name, status) in [
        ("a", json!({"protection": "None"})),
        ("b", json!({"protection": "Upside down"})),
    ] {
        world.seed.put(&json!({
            "kind": "ClusterHealth", "metadata": {"name": name}, "status": status,
        }));
    }
    world.seed.delete("probepolicies", "", "p");
    world.start();
    for name in ["a", "b"] {
        world
            .health_where(name, "its record is gone", |_| {
                world.seed.get("clusterhealths", "", name).is_none()
            })
            .await;
    }
}

/// The ways in which an outage's first write fails, and what is reported.
#[test]
fn a_dependent_that_cannot_be_scaled_degrades_the_cluster() {
    let _runs = Runs::begin();
    for (failure, reason) in [
        (Failure::Status(403), "ScalingForbidden"),
        (Failure::Status(409), "ScalingConflicts"),
        (Failure::Status(503), "ScalingFailed"),
        (Failure::Hang, "ScalingFailed"),
    ] {
        run(scaling_fails(failure, reason));
    }
}

async fn scaling_fails(failure: Failure, reason: &'static str) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").silence(100);
    world.seed.fail(failure, (0, usize::MAX), |call| {
        call.brief() == "PATCH deployments/mcm"
    });
    world.start();
    let degraded = |status: &Value| {
        let conditions = status["conditions"].as_array();
        conditions.is_some_and(|it| it.iter().any(|it| it["reason"] == reason))
    };
    let status = world.health_where("a", reason, degraded).await;
    let condition = condition(&status, "Degraded");
    assert_eq!(condition["status"], "True", "{status}");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("mcm"), "{message}");
    assert_eq!(status["reason"], "Outage");
    assert_eq!(world.replicas("a"), [0, 2, 3], "{failure:?}");
    policy_reason(&world, "p", "Degraded", "ScalingTrouble").await;
    world.seed.heal();
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
    policy_reason(&world, "p", "Degraded", "AsExpected").await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

/// The order of levels, over the whole way of an outage.
#[tokio::test]
async fn an_outage_is_protected_from_and_restored_in_order() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(20);
    let status = world.protection("a", "Active").await;
    assert_eq!(condition(&status, "Protecting")["status"], "True");
    assert_eq!(
        status["leases"],
        json!({"candidates": 4, "expired": 4, "unknown": 0})
    );
    for (entry, replicas) in status["dependents"]
        .as_array()
        .unwrap()
        .iter()
        .zip([3, 1, 2])
    {
        assert_eq!(entry["owed"], true);
        assert_eq!(entry["recordedReplicas"], replicas);
    }
    let order = |world: &World| {
        let writes = world.seed.writes();
        writes.iter().map(|it| it.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(&world), ["kcm", "mcm", "ca"]);
    policy_reason(&world, "p", "Protecting", "Outage").await;
    assert_eq!(
        policy_status(&world, "p")["protectedClusters"],
        json!(["a"])
    );
    world.seed.forget_calls();
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_eq!(order(&world), ["ca", "mcm", "kcm"]);
    assert_eq!(world.replicas("a"), RUNNING);
    policy_reason(&world, "p", "Protecting", "NoOutage").await;
}

/// While a level waits for its effect, the evidence fails, or recovers.
#[tokio::test]
async fn a_scale_down_stops_when_the_evidence_is_gone() {
    let mut world = World::new(&["a"]).await;
    // The next level waits for 25 s, longer than evidence counts.
    change_policy(&world, "p", |policy| {
        policy["spec"]["kcmNodeMonitorGraceDuration"] = json!("5m");
    });
    world.start();
    world.reason("a", "Healthy").await;
    world.seed.follow("kcm", false);
    world.shoot("a").silence(300);
    world.protection("a", "ScalingDown").await;
    first_write(&world).await;
    world
        .shoot("a")
        .fail(Read::Consistent, Failure::Status(503));
    world.reason("a", "ServerError").await;
    world.seed.follow("kcm", true);
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(
        world.replicas("a"),
        [0, 2, 3],
        "nothing without evidence, either way"
    );
    world.shoot("a").heal();
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

#[tokio::test]
async fn dry_run_writes_to_no_dependent() {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.shoot("a").silence(100);
    world.start();
    let status = world.reason("a", "Outage").await;
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("DryRun"), "{message}");
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(world.seed.writes().len(), 0);
    assert_eq!(world.health("a")["protection"], "None");
    // In earnest, the outage that is known by now is acted on at once.
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("Enforce")
    });
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), DOWN);
    // A protection that was in earnest stays as it is.
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.shoot("a").renew();
    let status = world.reason("a", "Healthy").await;
    assert_eq!(status["protection"], "Active");
    world.clock.pass(Duration::from_secs(30)).await;
    assert_eq!(world.replicas("a"), DOWN);
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("Enforce")
    });
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

#[tokio::test]
async fn suspend_stops_probes_and_keeps_marks() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    let status = world.reason("a", "Suspended").await;
    assert_eq!(status["protection"], "Active");
    assert_eq!(status["skipped"], "Suspended");
    world.shoot("a").renew();
    let reads = world.shoot("a").reads().len();
    let writes = world.seed.writes().len();
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(world.shoot("a").reads().len(), reads);
    assert_eq!(world.seed.writes().len(), writes);
    assert_eq!(world.replicas("a"), DOWN);
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
    world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), RUNNING);
}

#[tokio::test]
async fn an_invalid_policy_is_stalled_and_its_neighbours_go_on() {
    let mut world = World::new(&["a", "b"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "a"}});
    });
    let mut broken = policy("broken");
    broken["spec"]["nodeLeaseFailureFraction"] = json!(7.5);
    world.seed.put(&broken);
    let mut unreadable = policy("unreadable");
    unreadable["spec"]["probeInterval"] = json!("soon");
    world.seed.put(&unreadable);
    world.start();
    world.reason("a", "Healthy").await;
    for (name, field) in [
        ("broken", "nodeLeaseFailureFraction"),
        ("unreadable", "soon"),
    ] {
        let status = policy_reason(&world, name, "Stalled", "Invalid").await;
        let ready = condition(&status, "Ready");
        assert_eq!(ready["status"], "False");
        let message = ready["message"].as_str().unwrap();
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(world.health("b"), Value::Null);
    // Corrected, it goes to work.
    change_policy(&world, "broken", |policy| {
        policy["spec"]["nodeLeaseFailureFraction"] = json!(0.5);
    });
    world.reason("b", "Healthy").await;
}

/// Gardener has given a field another type; no cluster is to be called well for that.
#[tokio::test]
async fn a_policy_whose_clusters_cannot_be_read_is_not_ready() {
    let world = World::running(&["a", "b"]).await;
    policy_reason(&world, "p", "Ready", "Probing").await;
    let change = |cluster: &str, readable: bool| {
        world.seed.change("clusters", "", cluster, |it| {
            it["spec"]["shoot"]["status"]["hibernated"] = json!((!readable).then_some("no"));
        });
    };
    change("a", false);
    let status = world.reason("a", "Unreadable").await;
    for (kind, expected) in [("Ready", "False"), ("Degraded", "True")] {
        let condition = condition(&status, kind);
        assert_eq!(condition["status"], expected, "{kind}");
        let message = condition["message"].as_str().unwrap();
        assert!(
            message.contains("spec.shoot.status.hibernated"),
            "{message}"
        );
    }
    // The other one is seen.
    let status = policy_reason(&world, "p", "Degraded", "Undetermined").await;
    assert_eq!(condition(&status, "Ready")["status"], "True");

    change("b", false);
    let status = policy_reason(&world, "p", "Ready", "NothingJudged").await;
    let ready = condition(&status, "Ready");
    assert_eq!(ready["status"], "False");
    let message = ready["message"].as_str().unwrap();
    assert!(
        message.contains("a (Unreadable), b (Unreadable)"),
        "{message}"
    );
    assert_eq!(status["clusters"]["undetermined"], 2, "{status}");
    for cluster in ["a", "b"] {
        change(cluster, true);
    }
    policy_reason(&world, "p", "Ready", "Probing").await;
    policy_reason(&world, "p", "Degraded", "AsExpected").await;
}

/// A policy that is deleted, or stops selecting, leaves no cluster behind at zero.
#[test]
fn a_protected_cluster_without_a_policy_is_kept_until_it_is_healthy() {
    let _runs = Runs::begin();
    type Change = fn(&World);
    let ways: [Change; 3] = [
        |world| world.seed.delete("probepolicies", "", "p"),
        |world| {
            change_policy(world, "p", |policy| {
                policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "z"}});
            });
        },
        |world| {
            change_policy(world, "p", |policy| {
                policy["spec"]["nodeLeaseFailureFraction"] = json!(0);
            });
        },
    ];
    for change in ways {
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            world.shoot("a").silence(100);
            world.protection("a", "Active").await;
            change(&world);
            world.clock.pass(Duration::from_secs(60)).await;
            assert_eq!(world.replicas("a"), DOWN);
            let status = world.health("a");
            assert_eq!(status["protection"], "Active");
            assert_eq!(status["policy"], "p");
            world.shoot("a").renew();
            world
                .health_where("a", "its record is gone", Value::is_null)
                .await;
            assert_eq!(world.replicas("a"), RUNNING);
        });
    }
}

/// What is tried again with every verdict is reported once.
#[test]
fn a_scale_down_that_stays_refused_does_not_flap() {
    run(async {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        world
            .seed
            .fail(Failure::Status(403), (0, usize::MAX), |call| {
                call.brief() == "PATCH deployments/kcm"
            });
        world.shoot("a").silence(100);
        world
            .health_where("a", "it is forbidden", |status| {
                condition(status, "Degraded")["reason"] == "ScalingForbidden"
            })
            .await;
        world.clock.pass(INTERVAL).await;
        world.seed.forget_calls();
        world.clock.pass(Duration::from_secs(60)).await;
        let calls = world.seed.briefs();
        let tried = |what: &str| calls.iter().filter(|call| call.starts_with(what)).count();
        assert!(tried("PATCH deployments/kcm") > 2, "{calls:?}");
        assert_eq!(tried("PATCH clusterhealths"), 0, "{calls:?}");
        assert_eq!(world.replicas("a"), RUNNING);
        world.shoot("a").renew();
        world.protection("a", "None").await;
    });
}

/// Who deletes a wrong policy in panic gets no more of it.
#[test]
fn nothing_more_is_taken_once_the_policy_is_gone() {
    run(async {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        // The first level is down, and the second waits for its pods to go.
        world.seed.follow("kcm", false);
        world.shoot("a").silence(100);
        world.protection("a", "ScalingDown").await;
        world.seed.delete("probepolicies", "", "p");
        world.clock.pass(Duration::from_secs(120)).await;
        assert_eq!(world.replicas("a"), [0, RUNNING[1], RUNNING[2]]);
        let message = world.health("a")["message"].to_string();
        assert!(
            message.contains("no policy selects the cluster any more"),
            "{message}"
        );
        world.seed.follow("kcm", true);
        world.shoot("a").renew();
        world
            .health_where("a", "its record is gone", Value::is_null)
            .await;
        assert_eq!(world.replicas("a"), RUNNING);
    });
}

/// The process ends while a dependent is being written; its successor has to know.
#[tokio::test]
async fn what_was_done_last_is_on_record_when_the_prober_ends() {
    let mut world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let release = world
        .seed
        .hold(|call| call.brief() == "PATCH deployments/kcm");
    world.shoot("a").silence(100);
    first_write(&world).await;
    let owed = |world: &World| {
        let dependents = world.health("a")["dependents"].clone();
        dependents[1]["owed"] == true
    };
    assert!(!owed(&world), "its answer has not come yet");
    release.send(()).unwrap();
    world.stop().await;
    assert!(owed(&world));
    assert_eq!(world.replicas("a"), [0, 2, 3]);
    // The successor finds the cluster healthy.
    world.shoot("a").renew();
    world.start();
    world
        .health_where("a", "nothing is owed", |status| {
            status["dependents"][1]["owed"] == false && status["protection"] == "None"
        })
        .await;
    assert_eq!(world.replicas("a"), RUNNING);
}

/// A policy's counts and conditions are written when they change, at most once in five seconds.
#[tokio::test]
async fn a_policy_is_written_at_most_once_in_five_seconds() {
    let mut world = World::new(&["a", "b"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = json!("1s");
    });
    world.start();
    for round in 0..40 {
        let shoot = world.shoot("a");
        if round % 2 == 0 {
            shoot.fail(Read::Cached, Failure::Status(500));
        } else {
            shoot.heal();
        }
        world.clock.pass(Duration::from_millis(1_500)).await;
    }
    let times: Vec<_> = world
        .seed
        .calls()
        .into_iter()
        .filter(|call| call.resource == "probepolicies/status")
        .map(|call| call.at)
        .collect();
    assert!(times.len() > 8, "{times:?}");
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(5), "{pair:?}");
    }
}

/// Whatever keeps the lists from being read at the start, they are read as soon as it is over.
#[test]
fn lists_that_fail_at_the_start_are_tried_again() {
    let _runs = Runs::begin();
    for failure in Failure::ALL {
        // A hanging list is ended by the client's own limit, which the scripted one does not have.
        if failure != Failure::Hang {
            run(lists_fail(failure));
        }
    }
}

async fn lists_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").silence(100);
    world
        .seed
        .fail(failure, (0, usize::MAX), |call| call.name.is_empty());
    world.start();
    world.clock.pass(Duration::from_secs(20)).await;
    assert_eq!(world.shoot("a").reads().len(), 0, "{failure:?}");
    world.seed.heal();
    world.protection("a", "Active").await;
}

/// An HPA, or somebody who does not know.
#[tokio::test]
async fn who_keeps_scaling_a_protected_dependent_up_is_reported() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    for replicas in 1..=4 {
        let degraded = condition(&world.health("a"), "Degraded")["status"].clone();
        assert_eq!(degraded, "False", "before number {replicas}");
        world.seed.change("deployments", "a", "mcm", |object| {
            object["spec"]["replicas"] = json!(replicas);
        });
        world
            .clock
            .until("it is taken again", || {
                (world.replicas("a") == DOWN).then_some(())
            })
            .await;
        world.clock.pass(INTERVAL).await;
    }
    let status = world
        .health_where("a", "it is contended", |status| {
            condition(status, "Degraded")["reason"] == "Contended"
        })
        .await;
    let message = condition(&status, "Degraded")["message"].as_str().unwrap();
    assert!(message.contains("apps/v1 Deployment/mcm"), "{message}");
    // Its newest number is what is restored.
    world.shoot("a").renew();
    let status = world.protection("a", "None").await;
    assert_eq!(world.replicas("a"), [1, 4, 3]);
    assert_eq!(condition(&status, "Degraded")["status"], "False");
}

/// As a controller does that is told of each write.
#[test]
fn who_undoes_each_write_at_once_is_answered_ever_more_slowly_and_told_of_once() {
    run(async move {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        world.shoot("a").silence(100);
        world.protection("a", "Active").await;
        world.seed.forget_calls();
        for _ in 0..20 * 50 {
            world.seed.change("deployments", "a", "mcm", |object| {
                object["spec"]["replicas"] = json!(2);
            });
            world.clock.pass(Duration::from_millis(20)).await;
        }
        let calls = world.seed.calls();
        let written = |resource: &str| {
            let is_write = |call: &&Call| {
                call.method != "GET" && call.resource.split('/').next() == Some(resource)
            };
            calls.iter().filter(is_write).count()
        };
        let (writes, statuses) = (written("deployments"), written("clusterhealths"));
        assert!((5..40).contains(&writes), "{writes}");
        assert!(statuses < 15, "{statuses}");
        // Three times that it was scaled down again, and that it is contended.
        assert!(written("events") < 8, "{}", written("events"));
    });
}

/// A suspended policy, or one in DryRun, that is deleted leaves nothing at zero.
#[test]
fn a_protected_cluster_is_let_go_whatever_its_last_policy_held_back() {
    let _runs = Runs::begin();
    for (field, value) in [("suspend", json!(true)), ("mode", json!("DryRun"))] {
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            world.shoot("a").silence(100);
            world.protection("a", "Active").await;
            change_policy(&world, "p", |policy| policy["spec"][field] = value.clone());
            world.clock.pass(INTERVAL).await;
            world.seed.delete("probepolicies", "", "p");
            world.clock.pass(Duration::from_secs(30)).await;
            assert_eq!(world.replicas("a"), DOWN);
            world.shoot("a").renew();
            world
                .health_where("a", "its record is gone", Value::is_null)
                .await;
            assert_eq!(world.replicas("a"), RUNNING);
        });
    }
}
