//! The whole prober against scripted shoots: what it says of their states, and that no probe waits for
//! what it looks at for that.

use std::time::Duration;

use crate::support::{Failure, INTERVAL, Read, World, change_policy, run};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// The clock goes in steps of this length where it matters.
const STEP: Duration = Duration::from_millis(5);

/// A world of the cluster `a`, observed so.
async fn observed(observer: Value) -> World {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["observer"] = observer.clone();
    });
    world.start();
    world
}

/// Waits until a cluster is in this state.
async fn state(world: &World, cluster: &str, state: &str) -> Value {
    let what = format!("the state of {cluster} is {state}");
    world
        .health_where(cluster, &what, |status| status["state"] == state)
        .await
}

/// The state of the cluster `a`, and its message, after that much time.
async fn state_after(world: &World, time: Duration) -> Value {
    world.clock.pass(time).await;
    world.health("a")["state"].clone()
}

fn says(status: &Value, what: &str) {
    let message = status["stateMessage"].as_str().unwrap();
    assert!(message.contains(what), "{message}");
}

#[tokio::test]
async fn pressure_on_one_node_is_shown() {
    let world = observed(json!({"nodeInterval": "30s"})).await;
    state(&world, "a", "ONLINE").await;
    world.shoot("a").conditions(2, &["Ready", "MemoryPressure"]);
    let status = state(&world, "a", "UNHEALTHY").await;
    assert_eq!(status["nodes"], "3/4");
    assert_eq!(status["nodesMemoryPressure"], "1/4");
    assert_eq!(status["nodesPidPressure"], "0/4");
    let unhealthy = json!([{"name": "node-2", "problems": ["MemoryPressure"]}]);
    assert_eq!(status["unhealthyNodes"], unhealthy);
    says(&status, "1 of 4 nodes is under memory pressure (node-2)");
    // A node that is not ready is worse.
    world.shoot("a").conditions(0, &["DiskPressure"]);
    let status = state(&world, "a", "NOTREADY").await;
    assert_eq!(status["nodes"], "2/4");
    world.shoot("a").conditions(0, &["Ready"]);
    world.shoot("a").conditions(2, &["Ready"]);
    let status = state(&world, "a", "ONLINE").await;
    assert_eq!(status["unhealthyNodes"], Value::Null);
    // Nothing of it is a reason to scale.
    assert_eq!(status["reason"], "Healthy");
}

#[tokio::test]
async fn a_provider_of_metrics_dies_and_returns() {
    let world = observed(json!({"metricsProviders": [{
        "name": "metrics-server", "apiService": "v1beta1.metrics.k8s.io",
        "periodSeconds": 10, "failureThreshold": 2,
    }]}))
    .await;
    let status = state(&world, "a", "ONLINE").await;
    assert_eq!(status["checks"][0]["name"], "metrics-server");
    world.shoot("a").fail(Read::Api, Failure::Status(503));
    let status = state(&world, "a", "FAILING_METRICS").await;
    says(&status, "its provider of metrics metrics-server: ");
    let check = &status["checks"][0];
    assert_eq!(
        (&check["result"], &check["type"], &check["role"]),
        (&json!("Failing"), &json!("ApiService"), &Value::Null)
    );
    world.shoot("a").mend(Read::Api);
    let status = state(&world, "a", "ONLINE").await;
    assert_eq!(status["checks"][0]["result"], "Passing");
    // A timeout is a failure; whoever may not ask does not know.
    world.shoot("a").fail(Read::Api, Failure::Hang);
    state(&world, "a", "FAILING_METRICS").await;
    world.shoot("a").fail(Read::Api, Failure::Status(403));
    let status = state(&world, "a", "ONLINE").await;
    assert_eq!(status["checks"][0]["result"], "Unknown");
}

#[tokio::test]
async fn an_api_server_goes_away_and_comes_back() {
    let world = observed(json!({"backoffLimit": 3})).await;
    state(&world, "a", "ONLINE").await;
    let shoot = world.shoot("a");
    for read in [Read::Cached, Read::Ready, Read::Nodes] {
        shoot.fail(read, Failure::Refused);
    }
    let mut found = vec![];
    for _ in 0..5 {
        // A read on a new connection follows the first that fails.
        world.more_reads("a", Read::Cached, 1).await;
        found.push(state_after(&world, Duration::from_secs(1)).await);
    }
    let states = ["DEGRADED", "DEGRADED", "DEGRADED", "OFFLINE", "OFFLINE"];
    assert_eq!(found, states);
    let status = world.health("a");
    says(&status, "it is not reached: ");
    assert_eq!(status["nodes"], "4/4", "as last seen");
    // Its nodes are not to be had at first.
    shoot.heal();
    shoot.fail(Read::Nodes, Failure::Status(503));
    state(&world, "a", "CONNECTING").await;
    shoot.mend(Read::Nodes);
    state(&world, "a", "ONLINE").await;
}

/// Whatever a look meets with, probes come to the millisecond, and pay for each that hangs with one connection.
#[test]
fn a_look_that_hangs_delays_no_probe() {
    for read in [Read::Ready, Read::Nodes, Read::Api] {
        run(hangs(read));
    }
}

async fn hangs(read: Read) {
    let world = observed(json!({"nodeInterval": "10s", "metricsProviders": [{
        "name": "metrics-server", "apiService": "v1beta1.metrics.k8s.io",
        "periodSeconds": 5, "timeoutSeconds": 30,
    }]}))
    .await;
    state(&world, "a", "ONLINE").await;
    let shoot = world.shoot("a");
    world.clock.pass(MINUTE).await;
    assert_eq!(shoot.connections(), 1, "{read:?}: looks share it");
    shoot.fail(read, Failure::Hang);
    let from = shoot.reads().len();
    let end = world.clock.elapsed() + 4 * MINUTE;
    while world.clock.elapsed() < end {
        world.clock.pass(STEP).await;
    }
    let reads = shoot.reads();
    let of = |wanted: Read| reads[from..].iter().filter(move |(_, of, _)| *of == wanted);
    let probes: Vec<_> = of(Read::Cached).collect();
    assert!(probes.len() >= 23, "{read:?}: {}", probes.len());
    for pair in probes.windows(2) {
        let late = (pair[1].0 - pair[0].0).saturating_sub(INTERVAL);
        // A handshake takes real time, in which the clock goes on.
        let allowed = match pair[0].2 == pair[1].2 {
            true => STEP,
            false => 20 * STEP,
        };
        assert!(late <= allowed, "{read:?}: {late:?}");
    }
    let mut connections: Vec<_> = probes.iter().map(|(_, _, it)| *it).collect();
    connections.dedup();
    let looks = of(read).count();
    assert!((3..=40).contains(&looks), "{read:?}: {looks}");
    assert!(connections.len() <= looks + 1, "{read:?}: {connections:?}");
}

/// While kube-controller-manager is down nobody marks a silent node: its leases tell.
#[tokio::test]
async fn a_cluster_whose_kubelets_are_silent_is_not_online() {
    let world = World::running(&["a"]).await;
    state(&world, "a", "ONLINE").await;
    world.shoot("a").silence(0);
    let status = world.protection("a", "Active").await;
    assert_eq!(status["state"], "NOTREADY", "{status}");
    assert_eq!(status["nodes"], "4/4", "as they were marked last");
    says(&status, "silent: 4 of 4 node leases that count are expired");
    // It lasts for as long, also where it cannot be judged meanwhile, and no longer.
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    state(&world, "a", "DEGRADED").await;
    world.shoot("a").heal();
    state(&world, "a", "NOTREADY").await;
    assert_eq!(state_after(&world, 2 * MINUTE).await, "NOTREADY");
    world.shoot("a").renew();
    state(&world, "a", "ONLINE").await;
    world.protection("a", "None").await;
}

/// Without Machines its silence is never proven; what else is amiss shows all the same.
#[tokio::test]
async fn a_cluster_that_cannot_be_judged_is_looked_at() {
    let provider = json!({
        "name": "metrics-server", "apiService": "v1beta1.metrics.k8s.io", "failureThreshold": 1,
    });
    let world = observed(json!({"metricsProviders": [provider]})).await;
    state(&world, "a", "ONLINE").await;
    world.clock.pass(2 * MINUTE).await;
    let (seed, forbidden) = (&world.seed, Failure::Status(403));
    seed.fail(forbidden, (0, usize::MAX), |it| it.resource == "machines");
    world.shoot("a").silence(20);
    world.reason("a", "SeedUnreadable").await;
    world.shoot("a").fail(Read::Api, Failure::Status(503));
    state(&world, "a", "FAILING_METRICS").await;
}
