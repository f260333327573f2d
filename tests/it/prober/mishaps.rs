//! What goes wrong around a cluster, against a scripted seed: loops with defects, a Cluster that is
//! created anew, and a record that is mended by hand.

use std::time::Duration;

use crate::support::{
    LONG, World, assert_back, assert_kept, change_policy, deselect, first_write, protected, run,
};
use dependency_watchdog::prober::step::{MARK, RECORD};
use serde_json::{Value, json};

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

/// It wrote, and could not tell.
#[tokio::test]
async fn what_a_loop_took_that_ended_by_a_defect_is_not_forgotten() {
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

/// gardenlet deletes the namespace, with what is marked there.
#[tokio::test]
async fn of_a_cluster_that_went_before_the_start_no_record_stays() {
    let mut world = protected().await;
    world.stop().await;
    world.seed.delete("clusters", "", "a");
    world.start();
    world.clock.pass(LONG).await;
    assert!(world.seed.get("clusterhealths", "", "a").is_none());
    assert_kept(&world);
}
