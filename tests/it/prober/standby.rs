//! A replica that does not lead, against a scripted seed: it observes, writes nothing, and acts as soon as
//! it leads.

use std::time::Duration;

use crate::support::{Call, LONG, RUNNING, Read, World, assert_back};
use dependency_watchdog::{prober::instruments::Instruments, runtime::metrics};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);
/// Of the Lease.
const LEASE: Duration = Duration::from_secs(15);

/// Another replica has the Lease from now on.
fn give_lease(world: &World) {
    world.seed.put(&json!({
        "kind": "Lease",
        "metadata": {"name": "lease", "namespace": "garden"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 15, "leaseTransitions": 0},
    }));
}

/// The other replica lives on for so long.
async fn led_by_another(world: &World, time: Duration) {
    for _ in 0..time.as_secs() / 5 {
        world.seed.change("leases", "garden", "lease", |lease| {
            let renewed = lease["spec"]["leaseTransitions"].as_i64().unwrap();
            lease["spec"]["leaseTransitions"] = json!(renewed + 1);
        });
        world.clock.pass(5 * SECOND).await;
    }
}

/// A prober that stands by, in a world of these clusters.
async fn standing_by(clusters: &[&str]) -> World {
    let mut world = World::new(clusters).await;
    give_lease(&world);
    world.start_led();
    led_by_another(&world, LONG).await;
    world
}

/// Fails if a replica that does not lead has sent anything that may change something.
fn assert_reads_only(world: &World) {
    let sent = world.seed.calls().into_iter().chain(world.seed.events());
    let writes: Vec<String> = sent
        .filter(|call| call.method != "GET")
        .map(|call| call.brief())
        .collect();
    assert!(writes.is_empty(), "a standby wrote: {writes:?}");
}

fn is_scaled_down(call: &Call) -> bool {
    call.method == "PATCH" && call.resource == "deployments"
}

/// How long it takes from now on until something is scaled down.
async fn scaled_down(world: &World) -> Duration {
    let began = world.clock.elapsed();
    let scaled = || world.seed.calls().iter().any(is_scaled_down).then_some(());
    world
        .clock
        .until("a dependent is scaled down", scaled)
        .await;
    world.clock.elapsed() - began
}

/// The other was killed in the middle of the outage. A replica that begins to read when it leads needs another
/// 15 to 25 s to prove it.
#[tokio::test]
async fn an_outage_that_a_standby_has_watched_is_acted_on_when_it_leads() {
    let world = standing_by(&["a"]).await;
    world.shoot("a").silence(0);
    led_by_another(&world, LONG).await;
    assert_reads_only(&world);
    assert_eq!(world.replicas("a"), RUNNING);
    let took = scaled_down(&world).await;
    assert!(took <= LEASE + 3 * SECOND, "{took:?}");
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
}

/// Alerts judge the leader by what it counts.
#[tokio::test]
async fn a_standby_counts_nothing_of_what_it_observes() {
    let (instruments, registry) = Instruments::new();
    let mut world = World::new(&["a"]).await;
    world.instruments = instruments;
    give_lease(&world);
    world.start_led();
    let health = world.instruments.common.health().clone();
    led_by_another(&world, LONG).await;
    assert!(world.shoot("a").count(Read::Cached) > 1);
    let text = metrics::text(&registry);
    let none = "dependency_watchdog_verdicts_total{verdict=\"healthy\",reason=\"Healthy\"} 0";
    assert!(text.lines().any(|it| it == none), "{text}");
    assert!(health.results().iter().all(|(_, it)| it.is_ok()));
}
