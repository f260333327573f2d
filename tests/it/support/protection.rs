//! The protected cluster `a`, what happens to its Shoot and its policy, and what becomes of its
//! dependents.

use std::time::Duration;

use dependency_watchdog::prober::step::{MARK, RECORD};
use serde_json::{Value, json};

use super::World;

/// The dependents of [`policy`](super::policy), in the order in which they are scaled down.
pub const DEPENDENTS: [&str; 3] = ["kcm", "mcm", "ca"];
/// Their replicas while nothing is wrong.
pub const RUNNING: [i64; 3] = [1, 2, 3];
/// Their replicas in an outage.
pub const DOWN: [i64; 3] = [0, 0, 0];
/// Longer than anything takes that is tried again.
pub const LONG: Duration = Duration::from_secs(60);

/// The cluster `a`, protected.
pub async fn protected() -> World {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world
}

/// Changes the Shoot of `a`.
pub fn change_shoot(world: &World, change: impl Fn(&mut Value)) {
    let change = |cluster: &mut Value| change(&mut cluster["spec"]["shoot"]);
    world.seed.change("clusters", "", "a", change);
}

/// Changes a policy.
pub fn change_policy(world: &World, name: &str, change: impl Fn(&mut Value)) {
    world.seed.change("probepolicies", "", name, change);
}

/// A policy that does not select `a`.
pub fn deselect(policy: &mut Value) {
    policy["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "other"}});
}

/// A policy that names but the first of its dependents.
pub fn truncate(policy: &mut Value) {
    let infos = policy["spec"]["dependentResourceInfos"].as_array_mut();
    infos.unwrap().truncate(1);
}

/// A policy with a value that a later version has brought, and this one cannot decode.
pub fn undecodable(policy: &mut Value) {
    policy["spec"]["failureThreshold"] = json!("Later");
}

/// A Shoot that is being deleted.
pub fn deleting(shoot: &mut Value) {
    shoot["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
}

/// Somebody scales a dependent, and removes its annotations if told so.
pub fn scale_by_hand(world: &World, name: &str, replicas: i64, clean: bool) {
    world.seed.change("deployments", "a", name, |object| {
        object["spec"]["replicas"] = json!(replicas);
        if clean {
            object["metadata"]["annotations"] = json!({});
        }
    });
}

/// Waits for the first write of a scale-down.
pub async fn first_write(world: &World) {
    let written = || (world.replicas("a")[0] == 0).then_some(());
    world.clock.until("the first write", written).await;
}

/// The values of an annotation of the three dependents.
pub fn annotations(world: &World, key: &str) -> [Option<String>; 3] {
    DEPENDENTS.map(|name| {
        let object = world.seed.get("deployments", "a", name).unwrap();
        let value = &object["metadata"]["annotations"][key];
        value.as_str().map(str::to_owned)
    })
}

/// Which dependents are marked.
pub fn is_marked(world: &World) -> [bool; 3] {
    annotations(world, MARK).map(|mark| mark.is_some())
}

/// Restored; what is back may keep its mark for now.
pub fn assert_back(world: &World) {
    assert_eq!(world.replicas("a"), RUNNING, "{}", world.health("a"));
    for (recorded, replicas) in annotations(world, RECORD).into_iter().zip(RUNNING) {
        assert!(recorded.is_none_or(|recorded| recorded == replicas.to_string()));
    }
}

/// Restored, without anything of ours left behind.
pub fn assert_restored(world: &World) {
    assert_eq!(world.replicas("a"), RUNNING, "{}", world.health("a"));
    assert_eq!(is_marked(world), [false; 3]);
    assert_eq!(annotations(world, RECORD), [None, None, None]);
}

/// Without marks, at zero, with the numbers that were there.
pub fn assert_released(world: &World) {
    assert_eq!(world.replicas("a"), DOWN);
    assert_eq!(is_marked(world), [false; 3]);
    let recorded = RUNNING.map(|replicas| Some(replicas.to_string()));
    assert_eq!(annotations(world, RECORD), recorded);
}

/// At zero, and marked.
pub fn assert_kept(world: &World) {
    assert_eq!(world.replicas("a"), DOWN, "{}", world.health("a"));
    assert_eq!(is_marked(world), [true; 3]);
}
