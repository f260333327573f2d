//! What waits for the nodes before it is given back.

use std::time::Duration;

use crate::support::{Call, Failure, NODES, Read, World, change_policy, condition, run};
use serde_json::{Value, json};
use tokio::time::Instant;

/// So long `mcm` waits.
const AWAIT: Duration = Duration::from_secs(90);

/// The cluster `a`, protected; none of its nodes is ready any more, and `mcm` waits for them.
async fn protected() -> World {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["awaitNodes"] = json!("1m30s");
    });
    world.start();
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    for node in 0..NODES {
        world.shoot("a").conditions(node, &[]);
    }
    world.seed.forget_calls();
    world
}

/// The nodes are heard again: when what does not wait was given back.
async fn recover(world: &World) -> Instant {
    world.shoot("a").renew();
    written(world, "ca").await
}

/// When this dependent was written.
async fn written(world: &World, name: &str) -> Instant {
    let written = || {
        let calls = world.seed.writes().into_iter();
        calls
            .filter(|call| call.name == name)
            .map(|call| call.at)
            .next()
    };
    world
        .clock
        .until(&format!("{name} is written"), written)
        .await
}

fn ready(world: &World, nodes: std::ops::Range<usize>) {
    for node in nodes {
        world.shoot("a").conditions(node, &["Ready"]);
    }
}

/// It comes back soon after the last of them is ready, and those after it in their order.
#[tokio::test]
async fn what_waits_for_nodes_is_given_back_when_they_are_ready() {
    let world = protected().await;
    let begin = recover(&world).await;
    ready(&world, 0..3);
    let waits = |status: &Value| condition(status, "Protecting")["reason"] == "AwaitingNodes";
    world.health_where("a", "it says so", waits).await;
    let three = |status: &Value| {
        let message = status["message"].as_str().unwrap();
        message.contains("3 of the 4 nodes that count are ready")
    };
    world.health_where("a", "it says how many", three).await;
    world.clock.pass(Duration::from_secs(30)).await;
    assert_eq!(world.replicas("a"), [0, 0, 3]);
    ready(&world, 3..4);
    let ready_at = Instant::now();
    let (mcm, kcm) = (written(&world, "mcm").await, written(&world, "kcm").await);
    assert!(mcm <= kcm && mcm - begin < AWAIT);
    assert!(
        mcm - ready_at <= Duration::from_secs(21),
        "{:?}",
        mcm - ready_at
    );
    world.protection("a", "None").await;
    assert!(!world.seed.events().iter().any(is_unready));
}

/// A Node that says nothing, or cannot be read, is not ready; but nobody waits for ever.
#[test]
fn a_wait_for_nodes_that_do_not_come_back_ends() {
    run(ends(false));
    run(ends(true));
}

async fn ends(unreadable: bool) {
    let world = protected().await;
    if unreadable {
        ready(&world, 0..4);
        world.shoot("a").fail(Read::Nodes, Failure::Status(503));
    }
    let begin = recover(&world).await;
    let waited = written(&world, "mcm").await - begin;
    let second = Duration::from_secs(1);
    assert!(
        (AWAIT - second..AWAIT + second).contains(&waited),
        "{waited:?}"
    );
    let reads = world.shoot("a").reads().into_iter();
    let lists = reads.filter(|(at, read, _)| *read == Read::Nodes && *at >= begin);
    let lists: Vec<u64> = lists.map(|(at, ..)| (at - begin).as_secs()).collect();
    // One each ten seconds, and those that are read anyway.
    assert!((6..=12).contains(&lists.len()), "{lists:?}");
    let told = || world.seed.events().iter().any(is_unready).then_some(());
    world.clock.until("an event", told).await;
    world.protection("a", "None").await;
}

fn is_unready(event: &Call) -> bool {
    event.body["reason"] == "NodesNotReady"
}

/// Whoever comes in the midst of it waits as well.
#[tokio::test]
async fn a_new_leader_waits_for_all_nodes() {
    let mut world = protected().await;
    recover(&world).await;
    ready(&world, 0..3);
    world.clock.pass(Duration::from_secs(30)).await;
    world.stop().await;
    world.start();
    let begin = Instant::now();
    world.clock.pass(Duration::from_secs(60)).await;
    assert_eq!(world.replicas("a")[1], 0);
    ready(&world, 3..4);
    assert!(written(&world, "mcm").await - begin < AWAIT);
    world.clock.pass(Duration::from_secs(5)).await;
}
