//! The prober against scripted shoots whose connections, or whose Nodes, are not as they should be:
//! what is kept may be dead, or lead where nobody writes, and what is read may take long.

use std::time::Duration;

use crate::support::{Failure, Read, World, assert_back, change_policy, first_write, run};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);
/// That of the policy.
const GRACE: Duration = Duration::from_secs(40);

/// The cluster `a`, healthy for a while, under a policy whose probes may take that long.
async fn healthy(timeout: &str) -> World {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeTimeout"] = timeout.into();
    });
    world.start();
    world.reason("a", "Healthy").await;
    world.more_reads("a", Read::Cached, 2).await;
    world
}

/// The leases of the cluster `a` fall silent now; how long it takes until it is protected.
async fn time_to_protect(world: &World) -> Duration {
    world.shoot("a").silence(0);
    let began = world.clock.elapsed();
    first_write(world).await;
    world.clock.elapsed() - began
}

/// What breaks the way of the kubelets may break ours: the connection that was kept is dead, and nobody
/// tells. Another one leads to a server that lives.
#[test]
fn a_kept_connection_that_dies_without_a_word_costs_no_protection() {
    for timeout in ["30s", "5s", "2s"] {
        run(dies_in_an_outage(timeout));
    }
}

async fn dies_in_an_outage(timeout: &str) {
    let world = healthy(timeout).await;
    world.shoot("a").mute();
    let took = time_to_protect(&world).await;
    assert!(took < GRACE - 4 * SECOND, "{timeout}: {took:?}");
    assert_eq!(world.shoot("a").connections(), 2, "{timeout}");
}

/// The connection still leads to a server that was replaced, whose etcd stands still: what it shows is
/// no evidence, and the name leads elsewhere now.
#[tokio::test]
async fn where_nobody_writes_another_connection_is_made() {
    let world = healthy("5s").await;
    world.shoot("a").leave_behind();
    world.reason("a", "NoWrites").await;
    world.reason("a", "Healthy").await;
    assert_eq!(world.shoot("a").connections(), 2);
    assert_back(&world);
}

/// Nodes and Machines that take longer than kubelets take to renew put the proof off, but do not
/// prevent it: the leases are read meanwhile.
#[test]
fn facts_that_take_long_do_not_prevent_protection() {
    // The first list is given up after 5 s, and tried again a second later, among those that are slow.
    for (seconds, latest) in [(12, 34), (20, 42)] {
        run(facts_take(seconds, latest));
    }
}

async fn facts_take(seconds: u32, latest: u32) {
    let world = healthy("30s").await;
    let shoot = world.shoot("a");
    shoot.slow(Read::Nodes, seconds * SECOND);
    let took = time_to_protect(&world).await;
    assert!(took <= latest * SECOND, "{seconds} s: {took:?}");
    // None of the reads of leases was later than a third of a period.
    let reads = shoot.reads().into_iter();
    let consistent: Vec<_> = reads.filter(|(_, it, _)| *it == Read::Consistent).collect();
    assert!(consistent.len() >= 4, "{consistent:?}");
    for pair in consistent.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!(gap <= 4 * SECOND, "{seconds} s: {gap:?}");
    }
}

/// Looks that hang neither pile up, nor keep the Nodes that a proof needs waiting.
#[tokio::test]
async fn looks_that_hang_do_not_prevent_protection() {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        let api = "v1beta1.metrics.k8s.io";
        let provider = |name| json!({"name": name, "apiService": api, "periodSeconds": 1});
        let providers = ["a", "b", "c", "d", "e", "f", "g", "h"].map(provider);
        policy["spec"]["probeInterval"] = json!("5s");
        policy["spec"]["observer"] = json!({"metricsProviders": providers});
    });
    world.start();
    world.reason("a", "Healthy").await;
    world.shoot("a").fail(Read::Api, Failure::Hang);
    world.clock.pass(240 * SECOND).await;
    let took = time_to_protect(&world).await;
    assert!(took < GRACE - 4 * SECOND, "{took:?}");
}
