//! What goes wrong around a cluster, against a scripted seed: loops and flows with defects, Clusters
//! that come, go and are created anew, records that say what is not so any more.

use std::time::Duration;

use crate::support::{
    DEPENDENTS, Failure, INTERVAL, LONG, RUNNING, Read, World, assert_back, assert_kept,
    change_policy, condition, deselect, first_write, protected, put_cluster, put_workload, run,
    scale_by_hand, truncate,
};
use dependency_watchdog::prober::plan::{MARK, RECORD};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// The loop of `a` ends by a panic: its read of the Machines has one.
async fn end_by_a_defect(world: &World) {
    let machines = |call: &crate::support::Call| call.resource == "machines";
    let release = world.seed.hold(machines);
    world.seed.forget_calls();
    let asked = || world.seed.calls().iter().any(machines).then_some(());
    world.clock.until("the Machines are read", asked).await;
    drop(release);
    world.clock.settle().await;
}

/// The Cluster as somebody else creates it, once it is gone.
fn anew(world: &World) -> Value {
    let mut cluster = world.seed.get("clusters", "", "a").unwrap();
    cluster["metadata"]["uid"] = json!("uid-new");
    cluster
}

#[tokio::test]
async fn a_loop_that_ended_by_a_defect_is_started_again() {
    let world = protected().await;
    end_by_a_defect(&world).await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
}

/// Whether or not it is known that anything is owed.
#[test]
fn a_record_that_is_mended_by_hand_is_taken_up_by_the_next_verdict() {
    let record = |world: &World, record: &str| {
        world.seed.change("deployments", "a", "mcm", |object| {
            object["spec"]["replicas"] = json!(0);
            object["metadata"]["annotations"] = json!({MARK: "", RECORD: record});
        });
    };
    for (known, seconds) in [(false, 21), (false, 26), (true, 21)] {
        run(async move {
            let mut world = match known {
                true => protected().await,
                false => World::new(&["a"]).await,
            };
            record(&world, "many");
            match known {
                true => world.shoot("a").renew(),
                false => world.start(),
            }
            let unreadable = |status: &Value| {
                let message = status["message"].as_str().unwrap_or_default();
                message.contains("\"many\", not a whole number above 0")
            };
            world.health_where("a", "it is told", unreadable).await;
            world.clock.pass(Duration::from_secs(seconds)).await;
            assert_eq!(world.replicas("a")[1], 0);
            record(&world, "2");
            world.clock.pass(Duration::from_secs(15)).await;
            assert_back(&world);
        });
    }
}

/// What it has left tells nothing: a mark may be there all the same.
#[tokio::test]
async fn a_loop_is_started_again_although_its_record_cannot_be_read() {
    let world = protected().await;
    end_by_a_defect(&world).await;
    world.seed.change("clusterhealths", "", "a", |health| {
        health["status"]["protection"] = json!("Later");
    });
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_back(&world);
}

/// A second loop of the cluster would work against the first.
#[tokio::test]
async fn a_loop_that_ended_by_a_defect_is_started_again_once() {
    let world = protected().await;
    end_by_a_defect(&world).await;
    world.seed.follow("ca", false);
    world.shoot("a").renew();
    // Each of these changes its assignment before it is time to start it again.
    change_policy(&world, "p", |policy| policy["spec"]["priority"] = json!(0));
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeTimeout"] = json!("6s");
    });
    world.clock.pass(Duration::from_secs(15)).await;
    world.seed.follow("ca", true);
    world.clock.pass(LONG * 2).await;
    assert_back(&world);
}

/// It wrote, and could not tell.
#[tokio::test]
async fn what_a_flow_took_that_ended_by_a_defect_is_not_forgotten() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let release = world
        .seed
        .hold(|call| call.brief() == "PATCH deployments/kcm");
    world.shoot("a").silence(100);
    first_write(&world).await;
    drop(release);
    change_policy(&world, "p", deselect);
    world.clock.settle().await;
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_back(&world);
}

#[tokio::test]
async fn a_cluster_that_came_and_went_leaves_no_record() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    put_cluster(&world.seed, "b", &world.shoot("a").kubeconfig());
    world.seed.delete("clusters", "", "b");
    world.clock.pass(LONG).await;
    assert_eq!(world.health("b"), Value::Null);
}

#[tokio::test]
async fn a_cluster_that_goes_in_the_middle_of_a_flow_leaves_no_record() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let release = world
        .seed
        .hold(|call| call.brief() == "PATCH deployments/kcm");
    world.shoot("a").silence(100);
    first_write(&world).await;
    world.seed.delete("clusters", "", "a");
    release.send(()).unwrap();
    world.clock.pass(LONG * 2).await;
    // The garbage collector does its work, and nobody undoes it.
    world.seed.delete("clusterhealths", "", "a");
    world.clock.pass(LONG * 20).await;
    assert_eq!(world.health("a"), Value::Null);
}

#[tokio::test]
async fn a_record_is_owned_by_the_cluster_that_there_is() {
    let world = protected().await;
    let cluster = anew(&world);
    world.seed.delete("clusters", "", "a");
    world.seed.put(&cluster);
    world.clock.pass(LONG * 20).await;
    let health = world.seed.get("clusterhealths", "", "a").unwrap();
    assert_eq!(
        health["metadata"]["ownerReferences"][0]["uid"],
        cluster["metadata"]["uid"]
    );
}

/// Nobody but the operator knows of what the policy does not name any more.
#[tokio::test]
async fn a_cluster_that_is_created_anew_inherits_what_is_owed() {
    let world = protected().await;
    change_policy(&world, "p", truncate);
    world.clock.pass(INTERVAL).await;
    let cluster = anew(&world);
    world.seed.delete("clusters", "", "a");
    world.seed.put(&cluster);
    world.clock.pass(INTERVAL).await;
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_back(&world);
}

#[tokio::test]
async fn a_cluster_that_is_created_anew_after_a_second_is_restored() {
    let world = protected().await;
    let cluster = anew(&world);
    world.seed.delete("clusters", "", "a");
    world.clock.pass(Duration::from_secs(1)).await;
    world.seed.put(&cluster);
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_back(&world);
}

/// It was of one that was gone when the operator started.
#[tokio::test]
async fn an_old_record_is_not_taken_for_that_of_a_new_cluster() {
    let mut world = protected().await;
    world.stop().await;
    let cluster = anew(&world);
    world.seed.delete("clusters", "", "a");
    world.start();
    world.clock.pass(INTERVAL).await;
    world.seed.delete("clusterhealths", "", "a");
    world.clock.pass(LONG * 10).await;
    for (name, replicas) in DEPENDENTS.into_iter().zip(RUNNING) {
        world.seed.delete("deployments", "a", name);
        put_workload(&world.seed, "Deployment", "a", name, replicas);
    }
    world.shoot("a").renew();
    // So that nobody looks.
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true);
    });
    world.seed.put(&cluster);
    world.clock.pass(INTERVAL).await;
    let status = world.health("a");
    assert_eq!(status["protection"], "None", "{status}");
}

/// Without a policy there is none that could find it healthy.
#[tokio::test]
async fn what_was_restored_by_hand_is_not_reported_for_ever() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("probepolicies", "", "p");
    world.start();
    world.shoot("a").renew();
    world.clock.pass(INTERVAL).await;
    assert_eq!(world.health("a")["protection"], "Active");
    for (name, replicas) in DEPENDENTS.into_iter().zip(RUNNING) {
        scale_by_hand(&world, name, replicas, true);
    }
    world.clock.pass(LONG * 20).await;
    assert_ne!(world.health("a")["protection"], "Active");
}

/// What is known from before counts until something else is known.
#[tokio::test]
async fn a_policy_does_not_deny_a_protection_after_a_restart() {
    let mut world = protected().await;
    world.clock.pass(INTERVAL).await;
    world.stop().await;
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Hang);
    }
    world.seed.forget_calls();
    world.start();
    world.clock.pass(LONG).await;
    let calls = world.seed.calls();
    let written = calls
        .iter()
        .filter(|call| call.resource == "probepolicies/status")
        .map(|call| &call.body["status"]);
    let denied: Vec<&Value> = written
        .filter(|status| {
            status["clusters"]["protected"] != 1
                || condition(status, "Protecting")["status"] != "True"
        })
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
    // There was something to say.
    let status = &world.seed.get("probepolicies", "", "p").unwrap()["status"];
    assert_eq!(status["clusters"]["protected"], 1);
    assert_eq!(condition(status, "Degraded")["status"], "True");
}

/// An installation that was taken away in part. The marks are the truth.
#[tokio::test]
async fn a_policy_that_is_deleted_looks_for_marks_although_the_records_are_gone() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("clusterhealths", "", "a");
    world.seed.ask_to_delete("probepolicies", "", "p");
    world.start();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    world.shoot("a").renew();
    let gone = || {
        world
            .seed
            .get("probepolicies", "", "p")
            .is_none()
            .then_some(())
    };
    world.clock.until("the policy is gone", gone).await;
    assert_back(&world);
    let record = || {
        world
            .seed
            .get("clusterhealths", "", "a")
            .is_none()
            .then_some(())
    };
    world.clock.until("its record is gone", record).await;
}

/// This one has the Lease now, or nobody. It is as good as a renewal.
fn give_lease(world: &World, holder: &str) {
    world.seed.change("leases", "garden", "lease", |lease| {
        let spec = &mut lease["spec"];
        let transitions = spec["leaseTransitions"].as_i64().unwrap_or(0);
        spec["leaseTransitions"] = json!(transitions + 1);
        spec["holderIdentity"] = json!(holder);
    });
}

/// It loses the Lease in the middle of a scale-down, and with a write that is not answered; all that it
/// did ends, and it stands behind the other. What it finds when it leads again it learns as after a start.
#[tokio::test]
async fn a_prober_that_is_deposed_ends_its_term_and_begins_another_with_nothing() {
    let mut world = World::new(&["a"]).await;
    world.start_led();
    world.reason("a", "Healthy").await;
    let is_second = |call: &crate::support::Call| call.method == "PATCH" && call.name == "mcm";
    let answer = world.seed.hold(is_second);
    world.shoot("a").silence(0);
    let asked = || world.seed.calls().iter().any(is_second).then_some(());
    world.clock.until("the second is scaled down", asked).await;

    give_lease(&world, "another");
    // It looks every two seconds; nothing that hangs holds up the end of its term.
    world.clock.pass(4 * SECOND).await;
    world.seed.forget_calls();
    for _ in 0..12 {
        give_lease(&world, "another");
        world.clock.pass(10 * SECOND).await;
    }
    let calls = world.seed.calls();
    let mut writes = calls.iter().filter(|call| call.method != "GET");
    assert!(writes.next().is_none(), "{:?}", world.seed.briefs());
    // It is as well as one that never led.
    let common = world.instruments.common.clone();
    assert_eq!(common.liveness.stale(), []);
    assert!(common.checks.results().iter().all(|(_, it)| it.is_ok()));
    assert_eq!(world.replicas("a")[2], RUNNING[2]);
    drop(answer);

    give_lease(&world, "");
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), [0; 3]);
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
    world.stop().await;
}
