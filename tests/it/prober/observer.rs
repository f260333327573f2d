//! The whole prober against scripted shoots: what it says of their states, and that no probe waits for
//! what it looks at for that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{
    DOWN, Failure, INTERVAL, Read, Reply, ScriptedServer, World, change_policy, change_shoot, run,
};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// The clock goes in steps of this length where it matters.
const STEP: Duration = Duration::from_millis(5);

/// Sets how the policy has its clusters observed; the prober is not started yet.
fn observed_by(world: &World, observer: &Value) {
    change_policy(world, "p", |policy| {
        policy["spec"]["observer"] = observer.clone();
    });
}

/// A world of the cluster `a`, observed so.
async fn observed(observer: Value) -> World {
    let mut world = World::new(&["a"]).await;
    observed_by(&world, &observer);
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

/// What the metric says, as `STATE count` of all that are not zero.
fn counted(world: &World) -> Vec<String> {
    let mut registry = dependency_watchdog::runtime::metrics::Registry::default();
    world.instruments.prober.register(&mut registry);
    let text = registry.render().unwrap();
    let name = "dependency_watchdog_observed_clusters{state=\"";
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let lines: Vec<String> = lines.map(|line| line.replace("\"}", "")).collect();
    assert_eq!(lines.len(), 8, "each state is there: {text}");
    let some = lines.into_iter().filter(|line| !line.ends_with(" 0"));
    some.collect()
}

#[tokio::test]
async fn a_healthy_cluster_is_online() {
    let world = World::running(&["a"]).await;
    let status = state(&world, "a", "ONLINE").await;
    assert_eq!(status["nodes"], "4/4");
    for pressure in [
        "nodesPidPressure",
        "nodesMemoryPressure",
        "nodesDiskPressure",
    ] {
        assert_eq!(status[pressure], "0/4");
    }
    says(&status, "its 4 nodes are well");
    assert!(!status["lastStateTransitionTime"].is_null());
    assert_eq!(world.shoot("a").connections(), 1);
    assert_eq!(counted(&world), ["ONLINE 1"]);
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
async fn an_api_server_that_is_not_ready_says_why() {
    let world = World::running(&["a"]).await;
    state(&world, "a", "ONLINE").await;
    world.shoot("a").unready(&["etcd", "ping"]);
    let status = state(&world, "a", "NOTREADY").await;
    says(&status, "not ready: etcd, ping failed");
    world.shoot("a").unready(&[]);
    state(&world, "a", "ONLINE").await;
    // One that does not say is no evidence.
    for (read, failure) in [
        (Read::Ready, Failure::Status(403)),
        (Read::Ready, Failure::Html),
    ] {
        world.shoot("a").fail(read, failure);
        assert_eq!(
            state_after(&world, 2 * MINUTE).await,
            "ONLINE",
            "{failure:?}"
        );
    }
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

/// One that is asked over HTTP, such as Prometheus.
#[tokio::test]
async fn a_provider_of_metrics_is_asked_over_http() {
    let up = Arc::new(AtomicBool::new(true));
    let answers = up.clone();
    let prometheus = ScriptedServer::start(move |request| {
        assert_eq!(request.path, "/-/ready");
        let code = if answers.load(Ordering::SeqCst) {
            200
        } else {
            503
        };
        Reply::body(code, "text/plain", "")
    })
    .await;
    let url = prometheus.url();
    let (_, port) = url.rsplit_once(':').unwrap();
    let world = observed(json!({"metricsProviders": [{
        "name": "prometheus", "periodSeconds": 10, "timeoutSeconds": 60,
        "httpGet": {
            "scheme": "HTTPS", "service": "s", "port": port.parse::<u16>().unwrap(),
            "path": "/-/ready",
        },
    }]}))
    .await;
    let passing = |status: &Value| status["checks"][0]["result"] == "Passing";
    let status = world.health_where("a", "it passes", passing).await;
    assert_eq!(status["checks"][0]["type"], "HttpGet");
    up.store(false, Ordering::SeqCst);
    let status = state(&world, "a", "FAILING_METRICS").await;
    says(&status, "prometheus: the server answered 503");
    up.store(true, Ordering::SeqCst);
    state(&world, "a", "ONLINE").await;
}

/// An API server that goes away and comes back, by the number of retries.
#[test]
fn an_api_server_goes_away_and_comes_back() {
    for (limit, states) in [
        (
            -1,
            ["DEGRADED", "DEGRADED", "DEGRADED", "DEGRADED", "DEGRADED"],
        ),
        (0, ["OFFLINE", "OFFLINE", "OFFLINE", "OFFLINE", "OFFLINE"]),
        (
            3,
            ["DEGRADED", "DEGRADED", "DEGRADED", "OFFLINE", "OFFLINE"],
        ),
    ] {
        run(away_and_back(limit, states));
    }
}

async fn away_and_back(limit: i32, states: [&str; 5]) {
    let world = observed(json!({"backoffLimit": limit})).await;
    state(&world, "a", "ONLINE").await;
    let shoot = world.shoot("a");
    for read in [Read::Cached, Read::Ready, Read::Nodes, Read::Version] {
        shoot.fail(read, Failure::Refused);
    }
    let mut seen = shoot.count(Read::Cached);
    let mut found = vec![];
    for _ in states {
        // A read on a new connection follows the first that fails.
        world.more_reads("a", Read::Cached, 1).await;
        world.clock.pass(Duration::from_secs(1)).await;
        let reads = shoot.count(Read::Cached);
        assert!(reads > seen);
        seen = reads;
        found.push(world.health("a")["state"].clone());
    }
    assert_eq!(found, states, "{limit}");
    let status = world.health("a");
    says(&status, "it is not reached: ");
    assert_eq!(status["nodes"], "4/4", "as last seen");
    // Its nodes are not to be had at first.
    for read in [Read::Cached, Read::Ready, Read::Version] {
        shoot.mend(read);
    }
    shoot.fail(Read::Nodes, Failure::Status(503));
    let (between, nodes) = match states[4] {
        "OFFLINE" => ("CONNECTING", "DEGRADED"),
        _ => ("ONLINE", "DEGRADED"),
    };
    state(&world, "a", between).await;
    assert_ne!(world.health("a")["state"], nodes);
    shoot.mend(Read::Nodes);
    state(&world, "a", "ONLINE").await;
}

#[tokio::test]
async fn nodes_that_may_not_be_read_leave_a_new_cluster_pending() {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(Read::Nodes, Failure::Status(403));
    world.start();
    world.clock.pass(MINUTE).await;
    let status = world.health("a");
    assert_eq!(status["state"], "PENDING");
    assert_eq!(status["nodes"], Value::Null);
    says(&status, "may not list nodes (403)");
    world.shoot("a").mend(Read::Nodes);
    state(&world, "a", "ONLINE").await;
    // What is known stays when the right is taken away.
    world.shoot("a").fail(Read::Nodes, Failure::Status(403));
    assert_eq!(state_after(&world, 7 * MINUTE).await, "ONLINE");
    assert_eq!(world.health("a")["nodes"], "4/4");
}

#[test]
fn a_cluster_that_changes_is_observed_anew() {
    run(observed_anew(|world| {
        change_shoot(world, |shoot| {
            let manager = json!({"nodeMonitorGracePeriod": "50s"});
            shoot["spec"]["kubernetes"] = json!({"kubeControllerManager": manager});
        });
    }));
    run(observed_anew(|world| {
        let another = |cluster: &mut Value| cluster["metadata"]["uid"] = json!("another");
        world.seed.change("clusters", "", "a", another);
    }));
}

async fn observed_anew(change: impl Fn(&World)) {
    let world = World::running(&["a"]).await;
    state(&world, "a", "ONLINE").await;
    world.clock.pass(MINUTE).await;
    let shoot = world.shoot("a");
    let (nodes, ready) = (shoot.count(Read::Nodes), shoot.count(Read::Ready));
    // Before the change: the nodes may be read at any moment of the minute after it.
    shoot.conditions(0, &[]);
    change(&world);
    world.clock.settle().await;
    assert_eq!(world.health("a")["state"], "ONLINE", "what is shown stays");
    state(&world, "a", "NOTREADY").await;
    assert!(
        world.clock.elapsed() < 4 * MINUTE,
        "not only when nodes are due"
    );
    assert!(shoot.count(Read::Nodes) > nodes);
    assert!(shoot.count(Read::Ready) > ready);
}

#[tokio::test]
async fn a_cluster_that_is_not_probed_has_no_state() {
    let world = World::running(&["a"]).await;
    state(&world, "a", "ONLINE").await;
    let hibernate = |enabled: bool| {
        change_shoot(&world, |shoot| {
            shoot["spec"]["hibernation"] = json!({"enabled": enabled});
            shoot["status"]["hibernated"] = json!(enabled);
        });
    };
    hibernate(true);
    let status = world.reason("a", "Hibernated").await;
    for field in [
        "state",
        "stateMessage",
        "lastStateTransitionTime",
        "nodes",
        "checks",
    ] {
        assert_eq!(status[field], Value::Null, "{field}");
    }
    assert_eq!(counted(&world), Vec::<String>::new());
    let reads = world.shoot("a").reads().len();
    world.clock.pass(2 * MINUTE).await;
    assert_eq!(world.shoot("a").reads().len(), reads);
    hibernate(false);
    state(&world, "a", "ONLINE").await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    let status = world.reason("a", "Suspended").await;
    assert_eq!(status["state"], Value::Null);
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(false)
    });
    state(&world, "a", "ONLINE").await;
}

/// A restart says nothing until there is something to say.
#[tokio::test]
async fn a_restart_keeps_the_state() {
    let mut world = observed(json!({"nodeInterval": "30s"})).await;
    world.shoot("a").conditions(1, &["Ready", "PIDPressure"]);
    state(&world, "a", "UNHEALTHY").await;
    world.clock.pass(MINUTE).await;
    world.stop().await;
    world.seed.forget_calls();
    world.start();
    world.clock.pass(3 * MINUTE).await;
    let patched = world.seed.briefs();
    assert!(
        !patched
            .iter()
            .any(|brief| brief.starts_with("PATCH clusterhealths")),
        "{patched:?}"
    );
    assert_eq!(counted(&world), ["UNHEALTHY 1"]);
    world.shoot("a").conditions(1, &["Ready"]);
    state(&world, "a", "ONLINE").await;
}

/// Whatever a look meets with, probes come to the millisecond, and pay for it with one connection.
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
    assert_eq!(
        shoot.connections(),
        1,
        "{read:?}: looks share the connection"
    );
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
    // The first look that hangs takes the connection; those that follow have their own.
    let mut connections: Vec<_> = probes
        .iter()
        .map(|(_, _, connection)| *connection)
        .collect();
    connections.dedup();
    assert!(connections.len() <= 2, "{read:?}: {connections:?}");
    let looks = of(read).count();
    assert!((3..=40).contains(&looks), "{read:?}: {looks}");
    shoot.heal();
    state(&world, "a", "ONLINE").await;
    world.clock.pass(2 * MINUTE).await;
    let settled = shoot.connections();
    world.clock.pass(2 * MINUTE).await;
    assert_eq!(
        shoot.connections(),
        settled,
        "{read:?}: no handshake any more"
    );
}

/// An outage is proven and acted on as if nothing were looked at.
#[test]
fn looks_that_hang_delay_no_protection() {
    let mut taken = Vec::new();
    for hang in [false, true] {
        let (sender, receiver) = std::sync::mpsc::channel();
        run(async move { sender.send(protected_after(hang).await).unwrap() });
        taken.push(receiver.recv().unwrap());
    }
    assert_eq!(taken[0], taken[1]);
}

/// How long it takes until the dependents are down.
async fn protected_after(hang: bool) -> Duration {
    let world = observed(json!({"nodeInterval": "10s", "metricsProviders": [{
        "name": "metrics-server", "apiService": "v1beta1.metrics.k8s.io", "periodSeconds": 1,
    }]}))
    .await;
    state(&world, "a", "ONLINE").await;
    world.clock.pass(MINUTE).await;
    let shoot = world.shoot("a");
    if hang {
        shoot.fail(Read::Ready, Failure::Hang);
        shoot.fail(Read::Api, Failure::Hang);
    }
    let began = world.clock.elapsed();
    shoot.silence(0);
    let down = || (world.replicas("a") == DOWN).then_some(());
    world.clock.until("the dependents are down", down).await;
    world.clock.elapsed() - began
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

/// Whoever takes over in an outage shows it as soon as it is proven, and its end as soon as it is seen.
#[tokio::test]
async fn a_restart_in_an_outage_shows_no_older_state() {
    let mut world = World::running(&["a"]).await;
    state(&world, "a", "ONLINE").await;
    world.shoot("a").silence(0);
    world.stop().await;
    world.start();
    let status = world.protection("a", "Active").await;
    assert_eq!(status["state"], "NOTREADY", "{status}");
    says(&status, "silent: 4 of 4 node leases that count are expired");
    world.stop().await;
    world.shoot("a").renew();
    let began = world.clock.elapsed();
    world.start();
    state(&world, "a", "ONLINE").await;
    let taken = world.clock.elapsed() - began;
    assert!(taken < INTERVAL, "{taken:?}");
    world.protection("a", "None").await;
}

/// What its nodes said in the silence is not how they are after it.
#[tokio::test]
async fn a_list_of_nodes_that_began_in_a_silence_tells_nothing_of_what_follows() {
    let world = observed(json!({"nodeInterval": "10s"})).await;
    state(&world, "a", "ONLINE").await;
    let shoot = world.shoot("a");
    shoot.silence(0);
    world.protection("a", "Active").await;
    // It ends after the next probe.
    shoot.slow(Read::Nodes, Duration::from_secs(15));
    let list = async |count: usize| {
        let begun = || (shoot.count(Read::Nodes) > count).then_some(());
        world.clock.until("a list begins", begun).await;
    };
    // The first takes longer than it may, the next one has all its time.
    list(shoot.count(Read::Nodes)).await;
    list(shoot.count(Read::Nodes)).await;
    shoot.conditions(0, &[]);
    shoot.renew();
    let seen = world
        .health_where("a", "the nodes are seen", |status| {
            status["state"] != "NOTREADY" || status["nodes"] != "4/4"
        })
        .await;
    assert_eq!(
        (&seen["state"], &seen["nodes"]),
        (&json!("NOTREADY"), &json!("3/4"))
    );
    says(&seen, "1 of 4 nodes is not ready (node-0)");
}

/// Where reads take as long as their interval there is no pause to look in.
#[tokio::test]
async fn a_cluster_that_leaves_no_pause_is_observed_all_the_same() {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = json!("1s");
    });
    let shoot = world.shoot("a");
    shoot.slow(Read::Cached, Duration::from_millis(1200));
    world.start();
    state(&world, "a", "ONLINE").await;
    world.shoot("a").unready(&["etcd"]);
    world.clock.pass(MINUTE).await;
    state(&world, "a", "NOTREADY").await;
    // Probes keep their connection.
    let reads = world.shoot("a").reads();
    let probes = reads.iter().filter(|(_, of, _)| *of == Read::Cached);
    let mut connections: Vec<usize> = probes.map(|(_, _, connection)| *connection).collect();
    connections.dedup();
    assert_eq!(connections.len(), 1);
}

/// The list of a large cluster would still have the connection.
#[tokio::test]
async fn nodes_are_not_listed_shortly_before_a_probe() {
    let world = observed(json!({"nodeInterval": "10s"})).await;
    state(&world, "a", "ONLINE").await;
    let from = world.shoot("a").reads().len();
    world.clock.pass(20 * MINUTE).await;
    let reads = world.shoot("a").reads();
    let mut lists = 0;
    for pair in reads[from..].windows(2) {
        if pair[0].1 == Read::Nodes && pair[1].1 == Read::Cached {
            lists += 1;
            let room = pair[1].0 - pair[0].0;
            assert!(room >= Duration::from_secs(2), "{room:?}");
        }
    }
    assert!(lists > 20, "{lists}");
}

/// A list of Nodes that takes longer than others are given has a connection of its own from then on.
#[tokio::test]
async fn slow_lists_of_nodes_are_read_whole_each_time() {
    let world = observed(json!({"nodeInterval": "30s"})).await;
    state(&world, "a", "ONLINE").await;
    let shoot = world.shoot("a");
    shoot.slow(Read::Nodes, Duration::from_secs(8));
    world.clock.pass(3 * MINUTE).await;
    for _ in 0..8 {
        world.clock.pass(MINUTE / 2).await;
        let status = world.health("a");
        let message = status["stateMessage"].as_str().unwrap();
        assert!(!message.contains("could not be read"), "{message}");
    }
}

/// An API server that breaks connections, or has too much to do, is no evidence against what serves
/// its metrics.
#[test]
fn what_the_api_server_does_not_pass_on_tells_nothing_of_a_provider() {
    for failure in [Failure::Reset, Failure::Status(429)] {
        run(async move {
            let world = observed(json!({"metricsProviders": [{
                "name": "metrics-server", "apiService": "v1beta1.metrics.k8s.io",
                "periodSeconds": 10, "failureThreshold": 1,
            }]}))
            .await;
            state(&world, "a", "ONLINE").await;
            let shoot = world.shoot("a");
            for (before, answer, result) in [
                ("ONLINE", None, "Passing"),
                ("FAILING_METRICS", Some(Failure::Status(503)), "Failing"),
            ] {
                if let Some(answer) = answer {
                    shoot.fail(Read::Api, answer);
                }
                state(&world, "a", before).await;
                shoot.fail(Read::Api, failure);
                let asked = shoot.count(Read::Api);
                assert_eq!(state_after(&world, MINUTE).await, before, "{failure:?}");
                assert!(shoot.count(Read::Api) > asked + 3);
                assert_eq!(world.health("a")["checks"][0]["result"], result);
            }
        });
    }
}
