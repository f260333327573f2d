//! Before something is taken, the Cluster and its policy are read past every cache.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::{
    Call, DOWN, Failure, LONG, RUNNING, World, change_policy, change_shoot, condition, deleting,
    deselect, first_write, run,
};
use rstest::rstest;
use serde_json::{Value, json};

/// The time that it takes to prove an outage of leases that are long expired, and as much again.
const PROVEN: Duration = Duration::from_secs(40);

/// Whether it reads one Cluster, or the policies, past every cache.
fn confirms(call: &Call, resource: &str) -> bool {
    let reads = match resource {
        "clusters" => call.query.contains("metadata.name"),
        _ => call.only_metadata && !call.is_watch(),
    };
    call.method == "GET" && call.resource == resource && reads
}

fn confirmations(world: &World, resource: &str, only_metadata: bool) -> usize {
    let calls = world.seed.calls();
    let reads = calls
        .iter()
        .filter(|call| confirms(call, resource) && call.only_metadata == only_metadata);
    reads.count()
}

fn protecting(world: &World) -> Value {
    condition(&world.health("a"), "Protecting")["reason"].clone()
}

/// What becomes of a Cluster or its policy while its watch tells nothing.
#[rstest]
#[case::hibernated("clusters", |world: &World| change_shoot(world, |shoot| {
    shoot["spec"]["hibernation"] = json!({"enabled": true});
}))]
#[case::deleted("clusters", |world: &World| change_shoot(world, deleting))]
#[case::migrated("clusters", |world: &World| change_shoot(world, |shoot| {
    shoot["status"]["lastOperation"] = json!({"type": "Migrate", "state": "Processing"});
}))]
#[case::without_workers("clusters", |world: &World| change_shoot(world, |shoot| {
    shoot["spec"]["provider"]["workers"] = json!([]);
}))]
#[case::suspended("probepolicies", |world: &World| change_policy(world, "p", |policy| {
    policy["spec"]["suspend"] = json!(true);
}))]
#[case::in_dry_run("probepolicies", |world: &World| change_policy(world, "p", |policy| {
    policy["spec"]["mode"] = json!("DryRun");
}))]
#[case::deselected("probepolicies", |world: &World| change_policy(world, "p", deselect))]
#[case::being_deleted("probepolicies", |world: &World| {
    world.seed.ask_to_delete("probepolicies", "", "p");
})]
#[case::overruled("probepolicies", |world: &World| {
    let mut policy = world.seed.get("probepolicies", "", "p").unwrap();
    policy["metadata"] = json!({"name": "q"});
    policy["spec"]["priority"] = json!(10);
    policy["spec"]["suspend"] = json!(true);
    world.seed.put(&policy);
})]
fn nothing_is_taken_from_what_a_watch_shows_too_late(
    #[case] resource: &'static str,
    #[case] change: fn(&World),
) {
    run(async move {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        world.seed.silence_watches(resource);
        change(&world);
        world.shoot("a").silence(100);
        world.clock.pass(PROVEN).await;
        assert_eq!(world.health("a")["reason"], "Outage");
        assert_eq!(protecting(&world), "Unconfirmed");
        world.clock.pass(LONG).await;
        assert_eq!(world.seed.writes().len(), 0);
    });
}

/// The watch is late, and what it will show makes no difference.
#[tokio::test]
async fn what_changes_nothing_delays_nothing() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.seed.silence_watches("clusters");
    change_shoot(&world, |shoot| shoot["status"]["conditions"] = json!([]));
    change_policy(&world, "p", |policy| policy["status"] = json!({}));
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    assert_eq!(confirmations(&world, "clusters", false), 1);
    assert_eq!(world.replicas("a"), DOWN);
}

/// The first write comes no later than where the reads are answered.
#[test]
fn reads_that_are_not_answered_delay_nothing_while_the_watches_are_up_to_date() {
    let took = Arc::new(Mutex::new(vec![]));
    for failure in [None, Some(Failure::Hang), Some(Failure::Status(503))] {
        let took = took.clone();
        run(async move {
            let world = World::running(&["a"]).await;
            world.reason("a", "Healthy").await;
            // Nothing changes, and the watches are asked for again each minute.
            world.clock.pass(LONG * 3).await;
            if let Some(failure) = failure {
                world.seed.fail(failure, (0, usize::MAX), |call| {
                    confirms(call, "clusters") || confirms(call, "probepolicies")
                });
            }
            world.shoot("a").silence(100);
            let began = world.clock.elapsed();
            first_write(&world).await;
            took.lock().unwrap().push(world.clock.elapsed() - began);
            assert!(confirmations(&world, "clusters", true) > 0);
        });
    }
    let took = took.lock().unwrap();
    assert!(took.iter().all(|it| *it == took[0]), "{took:?}");
}

/// Neither of them can be read, and nothing is heard of them.
#[rstest]
#[case::of_the_cluster("clusters")]
#[case::of_the_policy("probepolicies")]
fn nothing_is_taken_while_nothing_is_known(#[case] resource: &'static str) {
    run(async move {
        let world = World::running(&["a"]).await;
        world.reason("a", "Healthy").await;
        let failing = move |call: &Call| call.method == "GET" && call.resource == resource;
        world
            .seed
            .fail(Failure::Status(503), (0, usize::MAX), failing);
        world.seed.silence_watches(resource);
        world.clock.pass(LONG + LONG).await;
        world.shoot("a").silence(100);
        world.clock.pass(PROVEN).await;
        assert_eq!(protecting(&world), "Unconfirmed");
        assert_eq!(world.seed.writes().len(), 0);
        assert_eq!(world.replicas("a"), RUNNING);
        world.seed.heal();
        first_write(&world).await;
        world.protection("a", "Active").await;
        assert_eq!(protecting(&world), "Protected");
    });
}

/// Each Cluster is read once, and the policy once for all of them.
#[tokio::test]
async fn clusters_of_a_policy_share_its_reads() {
    let names = ["a", "b", "c", "d", "e"];
    let world = World::running(&names).await;
    for name in names {
        world.reason(name, "Healthy").await;
    }
    for name in names {
        world.shoot(name).silence(100);
    }
    for name in names {
        world.protection(name, "Active").await;
    }
    assert_eq!(confirmations(&world, "clusters", true), names.len());
    assert_eq!(confirmations(&world, "clusters", false), 0);
    let of_policies = confirmations(&world, "probepolicies", true);
    assert!((1..=2).contains(&of_policies), "{of_policies}");
}
