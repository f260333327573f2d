//! The prober against scripted shoots whose connections, or whose Nodes, are not as they should be:
//! what is kept may be dead, or lead where nobody writes, and what is read may take long.

use std::time::Duration;

use crate::support::{
    Failure, INTERVAL, RUNNING, Read, World, assert_back, first_write, policy, run,
};

const SECOND: Duration = Duration::from_secs(1);
/// That of [`policy`].
const GRACE: Duration = Duration::from_secs(40);

/// The cluster `a`, healthy for a while, under a policy whose probes may take that long.
async fn healthy(timeout: &str) -> World {
    let mut world = World::new(&["a"]).await;
    let mut patient = policy("p");
    patient["spec"]["probeTimeout"] = timeout.into();
    world.seed.put(&patient);
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

/// Nothing is wrong with the cluster, and nobody is told that anything were.
#[tokio::test]
async fn a_kept_connection_that_dies_without_a_word_is_no_news() {
    let world = healthy("30s").await;
    world.clock.settle().await;
    let before = world.health("a");
    world.shoot("a").mute();
    for _ in 0..60 {
        world.clock.pass(SECOND).await;
        assert_eq!(world.health("a")["reason"], "Healthy");
        assert_eq!(world.health("a")["state"], before["state"]);
    }
    assert_eq!(world.shoot("a").connections(), 2);
    assert_eq!(world.shoot("a").count(Read::Version), 0);
}

/// One that is slow each time is asked once each time, over the connection that is kept.
#[tokio::test]
async fn a_server_that_is_slow_is_not_asked_twice() {
    let world = healthy("30s").await;
    let shoot = world.shoot("a");
    shoot.slow(Read::Cached, 6 * SECOND);
    world.more_reads("a", Read::Cached, 2).await;
    world.clock.pass(7 * SECOND).await;
    let settled = shoot.connections();
    let (from, began) = (shoot.count(Read::Cached), world.clock.elapsed());
    world.more_reads("a", Read::Cached, 4).await;
    assert!(world.clock.elapsed() - began <= 4 * INTERVAL + SECOND);
    assert_eq!(shoot.count(Read::Cached), from + 4);
    assert_eq!(shoot.connections(), settled);
    assert_eq!(world.health("a")["reason"], "Healthy");
}

/// What has taken too long for a kept connection has all the time at the next probe.
#[tokio::test]
async fn a_server_that_becomes_slow_fails_one_probe() {
    let world = healthy("8s").await;
    let shoot = world.shoot("a");
    let from = shoot.count(Read::Cached);
    shoot.slow(Read::Cached, 6 * SECOND);
    world.reason("a", "Timeout").await;
    assert_eq!(shoot.count(Read::Cached), from + 2);
    world.reason("a", "Healthy").await;
    assert_eq!(shoot.count(Read::Cached), from + 3);
}

/// The time of a probe is that of both tries.
#[tokio::test]
async fn a_dead_server_costs_the_timeout_of_a_probe() {
    let world = healthy("8s").await;
    let shoot = world.shoot("a");
    let from = shoot.reads().len();
    shoot.fail(Read::Cached, Failure::Hang);
    shoot.fail(Read::Version, Failure::Hang);
    let status = world.reason("a", "Timeout").await;
    let reads = shoot.reads();
    // The version is asked for when both tries are over. A handshake takes real time, in which the clock
    // goes on.
    let over = from
        + reads[from..]
            .iter()
            .position(|it| it.1 == Read::Version)
            .unwrap();
    let tries = reads[from..over].iter();
    let tries: Vec<_> = tries.filter(|it| it.1 == Read::Cached).collect();
    assert_eq!(tries.len(), 2, "{tries:?}");
    assert_ne!(tries[0].2, tries[1].2, "on a new connection");
    let took = reads[over].0 - tries[0].0;
    assert!(took <= 10 * SECOND, "{took:?}");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("no whole answer within 8000 ms"),
        "{message}"
    );
    // It is no other message after a try that had all the time.
    world.more_reads("a", Read::Cached, 1).await;
    world.clock.pass(9 * SECOND).await;
    assert_eq!(world.health("a")["message"], message);
}

/// A refusal is an answer: the connection is as good as ever.
#[test]
fn a_refusal_costs_no_connection() {
    for code in [401, 403, 404, 429, 500, 503] {
        run(refused(Failure::Status(code)));
    }
}

async fn refused(failure: Failure) {
    let world = healthy("5s").await;
    let shoot = world.shoot("a");
    shoot.fail(Read::Cached, failure);
    world.more_reads("a", Read::Cached, 4).await;
    assert_ne!(world.health("a")["reason"], "Healthy");
    shoot.heal();
    world.reason("a", "Healthy").await;
    assert_eq!(shoot.connections(), 1, "{failure:?}");
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

/// Where nobody writes wherever it leads, not every read has a connection of its own.
#[tokio::test]
async fn where_nobody_writes_connections_are_few() {
    let world = healthy("5s").await;
    let shoot = world.shoot("a");
    shoot.stand_still();
    world.reason("a", "NoWrites").await;
    let (reads, connections) = (shoot.count(Read::Consistent), shoot.connections());
    world.clock.pass(60 * SECOND).await;
    assert_eq!(world.health("a")["reason"], "NoWrites");
    // One each 15 s, and the looks may have had one meanwhile.
    assert!(shoot.count(Read::Consistent) - reads >= 18);
    assert!((3..=5).contains(&(shoot.connections() - connections)));
    assert_eq!(world.replicas("a"), RUNNING);
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

/// What takes the way of the kubelets may take that to the seed: the connections that are kept are dead,
/// and nobody tells.
#[test]
fn dead_connections_to_the_seed_cost_no_protection() {
    // Before the silence, while it is proven, and just before it is.
    for after in [0, 15, 29] {
        run(seed_dies_in_an_outage(after));
    }
}

async fn seed_dies_in_an_outage(after: u32) {
    let mut world = World::new(&["a"]).await;
    world.start_connected();
    world.reason("a", "Healthy").await;
    world.more_reads("a", Read::Cached, 2).await;
    world.shoot("a").silence(0);
    let began = world.clock.elapsed();
    world.clock.pass(after * SECOND).await;
    world.seed.lose_connections();
    first_write(&world).await;
    let took = world.clock.elapsed() - began;
    assert!(took <= GRACE * 3 / 4 + 4 * SECOND, "{after}: {took:?}");
    assert_eq!(world.seed.writes().len(), 1, "{after}");
}
