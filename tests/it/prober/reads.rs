//! The prober against a scripted seed and scripted shoots: each read fails in each way.

use std::{num::NonZeroU32, time::Duration};

use crate::support::{
    Failure, INTERVAL, Read, World, change_policy, change_shoot, condition, policy, put_cluster,
    run,
};
use dependency_watchdog::runtime::seed::{Budget, LEAST_QPS, Seed};
use futures::FutureExt as _;
use tokio::task::unconstrained;

/// Longer than the limit of any request, and than any pause after a failure.
const LONG: Duration = Duration::from_secs(45);

/// Time passes in steps of this length.
const STEP: Duration = Duration::from_millis(250);

/// The reason that a failed read of a shoot is given.
fn reason(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused | Failure::Reset | Failure::Truncated => "ConnectionClosed",
        Failure::Hang => "Timeout",
        Failure::Status(401) => "Unauthorized",
        Failure::Status(403) => "Forbidden",
        Failure::Status(404) | Failure::Unserved => "NotFound",
        Failure::Status(429) | Failure::RetryAfter(_) => "TooManyRequests",
        Failure::Status(_) => "ServerError",
        Failure::Html | Failure::WrongKind => "Unreadable",
    }
}

/// What a status must say while a read fails.
fn assert_blind(status: &serde_json::Value, reason: &str, case: &str) {
    for (kind, holds, why) in [
        ("Ready", "False", reason),
        ("Protecting", "False", "NotProtected"),
        ("Degraded", "True", reason),
    ] {
        let condition = condition(status, kind);
        assert_eq!(condition["status"], holds, "{case}: {status}");
        assert_eq!(condition["reason"], why, "{case}: {status}");
    }
    assert_eq!(status["protection"], "None", "{case}: {status}");
    assert_eq!(status["dependents"].as_array().unwrap().len(), 3, "{case}");
}

#[test]
fn a_secret_that_cannot_be_read() {
    for failure in Failure::ALL {
        run(secret_fails(failure));
    }
}

async fn secret_fails(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(failure, (0, usize::MAX), |it| it.resource == "secrets");
    world.start();
    let case = format!("{failure:?}");
    let expected = match failure {
        // A list without Secrets, whatever its kind, is one in which there are none.
        Failure::WrongKind => "SecretMissing",
        _ => "SeedUnreadable",
    };
    let status = world.reason("a", expected).await;
    assert_blind(&status, expected, &case);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("the Secret a/dwd"), "{case}: {message}");
    world.seed.heal();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

#[test]
fn machines_that_cannot_be_read() {
    for failure in Failure::ALL {
        run(machines_fail(failure));
    }
}

async fn machines_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(failure, (0, usize::MAX), |it| it.resource == "machines");
    world.start();
    let case = format!("{failure:?}");
    let status = world.reason("a", "SeedUnreadable").await;
    assert_blind(&status, "SeedUnreadable", &case);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("the Machines in namespace a"),
        "{case}: {message}"
    );
    world.seed.heal();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

/// Only the seed itself knows that it does not serve them: that a path is not found may be the word of a proxy.
#[tokio::test]
async fn machines_are_not_served_if_the_groups_lack_them() {
    let mut world = World::new(&["a"]).await;
    world.seed.serve_machines(&[]);
    world.start();
    let told = |status: &serde_json::Value| {
        let message = status["message"].as_str().unwrap_or_default();
        message.contains("does not serve Machines")
    };
    let status = world.health_where("a", "it is said", told).await;
    assert_eq!(status["reason"], "Healthy");
    assert_eq!(status["leases"]["candidates"], 4);
}

#[test]
fn machines_that_are_not_found_while_the_groups_cannot_be_read() {
    for failure in Failure::ALL {
        run(groups_fail(failure));
    }
}

async fn groups_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world.seed.serve_machines(&[]);
    world
        .seed
        .fail(failure, (0, usize::MAX), |it| it.resource == "/apis");
    world.start();
    let status = world.reason("a", "SeedUnreadable").await;
    assert_blind(&status, "SeedUnreadable", &format!("{failure:?}"));
}

/// A Cluster may be created in the same second as its Machines.
#[tokio::test]
async fn machines_that_the_cache_lacks_are_listed_consistently() {
    let mut world = World::new(&["a"]).await;
    world.seed.outdate("machines");
    world.start();
    let status = world.reason("a", "Healthy").await;
    assert_eq!(status["leases"]["candidates"], 4);
    world.shoot("a").silence(0);
    world.protection("a", "Active").await;
    let calls = world.seed.calls();
    let lists: Vec<bool> = calls
        .iter()
        .filter(|it| it.resource == "machines")
        .map(|it| it.parameter("resourceVersion") == Some("0"))
        .collect();
    // The last is for the proof.
    assert_eq!(lists, [true, false, false]);
    assert_eq!(world.replicas("a"), [0, 0, 0]);
}

#[tokio::test]
async fn a_cluster_without_a_candidate_is_undetermined_until_there_is_one() {
    let mut world = World::new(&["a"]).await;
    let names = (0..4).map(|index| format!("machine-{index}"));
    let machines: Vec<_> = names
        .map(|name| {
            let machine = world.seed.get("machines", "a", &name).unwrap();
            world.seed.delete("machines", "a", &name);
            machine
        })
        .collect();
    world.start();
    let status = world.reason("a", "NoCandidates").await;
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("4 without a Machine"), "{message}");
    let looked = || {
        world
            .seed
            .briefs()
            .contains(&"GET deployments/kcm".to_owned())
    };
    world
        .clock
        .until("its marks are looked for", || looked().then_some(()))
        .await;
    assert_eq!(condition(&status, "Ready")["status"], "False");
    // They are silent before it is known that they count.
    world.shoot("a").silence(0);
    world.clock.pass(LONG).await;
    assert_eq!(world.health("a")["reason"], "NoCandidates");
    for machine in machines {
        world.seed.put(&machine);
    }
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("a"), [0, 0, 0]);
}

#[test]
fn a_read_of_a_shoot_that_fails() {
    for read in [Read::Cached, Read::Nodes] {
        for failure in Failure::ALL {
            run(read_fails(read, failure));
        }
    }
}

async fn read_fails(read: Read, failure: Failure) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(read, failure);
    world.start();
    let case = format!("{read:?} {failure:?}");
    let status = world.reason("a", reason(failure)).await;
    assert_blind(&status, reason(failure), &case);
    world.shoot("a").heal();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

/// A suspect shoot is read consistently, and each read is tried once more on a new connection.
#[test]
fn a_consistent_read_that_fails_twice() {
    for failure in Failure::ALL {
        run(consistent_reads_fail(failure));
    }
}

async fn consistent_reads_fail(failure: Failure) {
    let mut world = World::new(&["a"]).await;
    let shoot = world.shoot("a");
    shoot.fail(Read::Consistent, failure);
    shoot.silence(20);
    world.start();
    let case = format!("{failure:?}");
    let status = world.reason("a", reason(failure)).await;
    assert_blind(&status, reason(failure), &case);
    let shoot = world.shoot("a");
    let reads = shoot.reads();
    let connections: Vec<usize> = reads
        .iter()
        .filter(|(_, read, _)| *read == Read::Consistent)
        .map(|(_, _, connection)| *connection)
        .collect();
    let tries = match failure {
        Failure::Status(429) | Failure::RetryAfter(_) => 1,
        _ => 2,
    };
    assert_eq!(connections.len(), tries, "{case}");
    assert!(connections.windows(2).all(|it| it[0] != it[1]), "{case}");
    // However long the silence lasts, nothing is scaled without evidence.
    world.clock.pass(LONG).await;
    let status = world.health("a");
    assert_blind(&status, reason(failure), &case);
    assert_eq!(world.seed.writes().len(), 0, "{case}");
    let shoot = world.shoot("a");
    shoot.heal();
    shoot.renew();
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.writes().len(), 0, "{case}");
}

/// The evidence that was missing comes: what it shows is acted on.
#[tokio::test]
async fn an_outage_behind_failing_reads_is_found_when_they_succeed() {
    let mut world = World::new(&["a"]).await;
    let shoot = world.shoot("a");
    shoot.silence(100);
    shoot.fail(Read::Consistent, Failure::Status(503));
    world.start();
    world.reason("a", "ServerError").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [1, 2, 3]);
    world.shoot("a").heal();
    let status = world.protection("a", "Active").await;
    assert_eq!(status["reason"], "Outage");
    assert_eq!(world.replicas("a"), [0, 0, 0]);
}

/// What `/version` adds to a failure.
#[test]
fn a_failure_is_explained_by_the_version() {
    for (leases, version, sequel) in [
        (Failure::Status(503), None, ANSWERS),
        (Failure::Hang, None, ANSWERS),
        (Failure::Html, None, ANSWERS),
        (
            Failure::Hang,
            Some(Failure::Hang),
            "; /version is not answered either",
        ),
        (
            Failure::Hang,
            Some(Failure::Reset),
            "; /version is not answered either",
        ),
        (
            Failure::Status(404),
            Some(Failure::Status(404)),
            "; /version fails as well (NotFound)",
        ),
    ] {
        run(explained(leases, version, sequel));
    }
}

const ANSWERS: &str = "; the API server v1.33.1 answers /version, so it runs: ";

async fn explained(leases: Failure, version: Option<Failure>, sequel: &str) {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let shoot = world.shoot("a");
    shoot.fail(Read::Cached, leases);
    if let Some(version) = version {
        shoot.fail(Read::Version, version);
    }
    let status = world.reason("a", reason(leases)).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(sequel),
        "{leases:?} {version:?}: {message}"
    );
    // It is asked once, and said as long as the failure lasts.
    world.more_reads("a", Read::Cached, 2).await;
    world.clock.settle().await;
    assert_eq!(world.health("a")["message"], message, "{leases:?}");
    assert_eq!(world.shoot("a").count(Read::Version), 1, "{leases:?}");
    world.shoot("a").heal();
    world.reason("a", "Healthy").await;
    world.shoot("a").fail(Read::Cached, leases);
    world.reason("a", reason(leases)).await;
    assert_eq!(world.shoot("a").count(Read::Version), 2, "{leases:?}");
}

#[test]
fn a_failure_that_says_it_all_is_not_explained() {
    for failure in [
        Failure::Refused,
        Failure::Reset,
        Failure::Truncated,
        Failure::Status(401),
        Failure::Status(403),
        Failure::Status(429),
    ] {
        run(unexplained(Read::Cached, failure, 0));
    }
}

/// Nothing delays a proof.
#[test]
fn a_failure_of_a_suspect_cluster_is_not_explained() {
    run(unexplained(Read::Consistent, Failure::Status(503), 20));
}

async fn unexplained(read: Read, failure: Failure, silent: i64) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(read, failure);
    if silent > 0 {
        world.shoot("a").silence(silent);
    }
    world.start();
    world.reason("a", reason(failure)).await;
    world.more_reads("a", read, 2).await;
    assert_eq!(world.shoot("a").count(Read::Version), 0, "{failure:?}");
}

/// 429 is answered by patience: what the server asks for, else ten seconds. Nodes that are put off put off no
/// leases.
#[test]
fn an_overloaded_server_is_left_alone() {
    for read in [Read::Cached, Read::Nodes] {
        for (failure, wait) in [
            (Failure::RetryAfter(7), 7),
            (Failure::RetryAfter(25), 25),
            (Failure::RetryAfter(3_600), 30),
            (Failure::Status(429), 10),
        ] {
            run(overloaded(read, failure, Duration::from_secs(wait)));
        }
    }
}

async fn overloaded(read: Read, failure: Failure, wait: Duration) {
    let mut world = World::new(&["a"]).await;
    world.shoot("a").fail(read, failure);
    world.start();
    world.reason("a", "TooManyRequests").await;
    world.shoot("a").heal();
    let of = |read| {
        let reads = world.shoot("a").reads().into_iter();
        let of = reads.filter(|it| it.1 == read).map(|it| it.0);
        of.collect::<Vec<_>>()
    };
    let throttled_at = *of(read).last().unwrap();
    world.more_reads("a", read, 1).await;
    let waited = *of(read).last().unwrap() - throttled_at;
    // Without suspicion they are read beside the leases.
    let late = if read == Read::Nodes { INTERVAL } else { STEP };
    assert!(
        wait <= waited && waited <= wait + late,
        "{read:?} {failure:?}: {waited:?}"
    );
    if read == Read::Nodes {
        for gap in of(Read::Cached).windows(2) {
            assert!(gap[1] - gap[0] <= INTERVAL + STEP, "{gap:?}");
        }
    }
}

/// A suspect's list must come within a third of a renewal period, so such a cluster could not be protected.
#[tokio::test]
async fn lists_of_leases_that_take_too_long_for_a_proof_are_told_of() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    let told = |status: &serde_json::Value| {
        let message = status["message"].as_str().unwrap_or_default();
        message.contains("the last lists of leases took too long, 4.")
    };
    world.shoot("a").slow(Read::Cached, Duration::from_secs(4));
    world.more_reads("a", Read::Cached, 2).await;
    assert!(!told(&world.health("a")), "it may have been a hiccup");
    let status = world.health_where("a", "it is told", told).await;
    assert_eq!(status["reason"], "Healthy");
    let ready = condition(&status, "Ready")["message"].as_str().unwrap();
    assert!(
        ready.contains("within a third of a renewal period, 3.3 s"),
        "{ready}"
    );
    world.shoot("a").slow(Read::Cached, Duration::ZERO);
    let status = world
        .health_where("a", "it is over", |status| !told(status))
        .await;
    assert_eq!(status["reason"], "Healthy");
}

/// A consistent list of Nodes is what an API server refuses first when all kubelets come back.
#[tokio::test]
async fn nodes_that_are_refused_delay_no_proof() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(0);
    world.shoot("a").fail(Read::Nodes, Failure::RetryAfter(5));
    world.reason("a", "TooManyRequests").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [1, 2, 3]);
    let nodes = world.shoot("a").count(Read::Nodes);
    world.shoot("a").heal();
    world.clock.pass(Duration::from_secs(6)).await;
    assert_eq!(world.shoot("a").count(Read::Nodes), nodes + 1);
    assert_eq!(world.replicas("a"), [0, 0, 0], "proven long before");
}

#[tokio::test]
async fn a_cluster_that_hangs_delays_no_other() {
    let world = World::running(&["a", "b"]).await;
    world.reason("a", "Healthy").await;
    world.reason("b", "Healthy").await;
    world.shoot("a").fail(Read::Cached, Failure::Hang);
    world.more_reads("a", Read::Cached, 1).await;
    // Beside these its state is looked at.
    let probes = || {
        let reads = world.shoot("b").reads().into_iter();
        let probes = reads.filter(|(_, read, _)| *read == Read::Cached);
        probes.collect::<Vec<_>>()
    };
    let seen = probes().len();
    for more in 1..=5 {
        world.clock.pass(INTERVAL + STEP).await;
        assert_eq!(probes().len(), seen + more);
    }
    let probes = probes();
    let gaps = probes.windows(2).skip(1).map(|it| it[1].0 - it[0].0);
    for gap in gaps {
        assert!(gap <= INTERVAL + STEP, "{gap:?}");
    }
    assert_eq!(world.health("a")["reason"], "Timeout");
    assert_eq!(world.health("b")["reason"], "Healthy");
}

/// The other cluster's outage is acted on while one cluster hangs in every read.
#[tokio::test]
async fn a_cluster_that_hangs_does_not_keep_another_unprotected() {
    let mut world = World::new(&["a", "b"]).await;
    world
        .seed
        .fail(Failure::Hang, (0, usize::MAX), |it| it.namespace == "a");
    world.start();
    world.reason("b", "Healthy").await;
    world.shoot("b").silence(100);
    world.protection("b", "Active").await;
    assert_eq!(world.replicas("b"), [0, 0, 0]);
    world.shoot("b").renew();
    world.protection("b", "None").await;
    assert_eq!(world.replicas("b"), [1, 2, 3]);
    assert_eq!(world.replicas("a"), [1, 2, 3]);
}

/// Shoots that never finish their lists of Nodes.
struct Hanging {
    world: World,
    names: Vec<String>,
}

impl Hanging {
    /// So many, and the healthy `b`, under a policy whose probes may take a minute.
    async fn new(count: usize) -> Self {
        let names: Vec<String> = (0..count).map(|index| format!("hanging-{index}")).collect();
        let all = names.iter().map(String::as_str).chain(["b"]);
        let world = World::new(&all.collect::<Vec<_>>()).await;
        let mut patient = policy("p");
        patient["spec"]["probeTimeout"] = "60s".into();
        world.seed.put(&patient);
        for name in &names {
            world.shoot(name).fail(Read::Nodes, Failure::Hang);
        }
        Self { world, names }
    }

    /// How many lists of Nodes they were asked for.
    fn lists(&self) -> usize {
        let lists = self.names.iter();
        lists
            .map(|it| self.world.shoot(it).count(Read::Nodes))
            .sum()
    }
}

/// They are read before the Nodes, at leisure or for a verdict, and for nothing else.
fn lists_of_machines(world: &World, cluster: &str) -> usize {
    let calls = world.seed.calls();
    let lists = calls
        .iter()
        .filter(|it| it.resource == "machines" && it.namespace == cluster);
    lists.count()
}

/// Lists of Nodes are large. Shoots that never finish theirs take no room from others.
#[tokio::test]
async fn clusters_whose_nodes_hang_do_not_keep_another_unprotected() {
    let mut hanging = Hanging::new(24).await;
    for name in &hanging.names {
        hanging.world.shoot(name).silence(20);
    }
    hanging.world.start();
    hanging.world.clock.pass(Duration::from_secs(4)).await;
    assert_eq!(hanging.lists(), 16, "at once");
    // Each is tried once more among its like, and has all its time there.
    hanging.world.clock.pass(Duration::from_secs(16)).await;
    assert_eq!(hanging.lists(), 24 + 4);
    let world = &hanging.world;
    world.reason("b", "Healthy").await;
    let (before, begin) = (hanging.lists(), world.clock.elapsed());
    world.shoot("b").silence(0);
    world.protection("b", "Active").await;
    let took = world.clock.elapsed() - begin;
    assert!(took <= Duration::from_secs(32), "{took:?}");
    assert!(hanging.lists() - before <= 4);
}

/// Nor is there room for many as long as nothing depends on them. Who finds none is looked at for its
/// state meanwhile, for which there is a room of its own.
#[tokio::test]
async fn few_lists_of_nodes_are_read_at_leisure() {
    let mut hanging = Hanging::new(24).await;
    hanging.world.start();
    hanging.world.clock.pass(Duration::from_secs(4)).await;
    assert_eq!(hanging.lists(), 4 + 8);
}

/// However few find room at once, and however seldom they are probed.
#[tokio::test]
async fn the_nodes_of_each_cluster_are_read_soon() {
    let names: Vec<String> = (0..40).map(|index| format!("b{index}")).collect();
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = "10m".into();
    });
    world.shoot("a").slow(Read::Nodes, Duration::from_secs(1));
    for name in &names {
        put_cluster(&world.seed, name, &world.shoot("a").kubeconfig());
    }
    world.start();
    world.clock.pass(Duration::from_secs(60)).await;
    for name in &names {
        assert_eq!(lists_of_machines(&world, name), 1, "{name}");
    }
}

/// Who finds no room there spends nothing of the budget on which statuses are written.
#[tokio::test]
async fn no_turn_on_the_seed_is_spent_on_waiting_for_room() {
    const BURST: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
    let mut hanging = Hanging::new(24).await;
    let budget = Budget {
        qps: LEAST_QPS,
        burst: BURST,
    };
    let seed = Seed::new(hanging.world.seed.unlimited().client().clone(), budget);
    hanging.world.start_on(seed.clone());
    hanging.world.clock.pass(Duration::from_secs(4)).await;
    let mut left = 0;
    while unconstrained(seed.turn()).now_or_never().is_some() {
        left += 1;
    }
    // What is asked of dependents has another budget.
    let calls = hanging.world.seed.calls();
    let asked = calls.iter().filter(|it| {
        let resources = ["machines", "clusterhealths", "probepolicies", "events"];
        let resource = it.resource.split('/').next().unwrap();
        resources.contains(&resource) && !it.is_watch()
    });
    assert_eq!(BURST.get() - left, u32::try_from(asked.count()).unwrap());
}

/// One whose list of Nodes takes long is read among its like alone, in time for the next verdict.
#[tokio::test]
async fn no_slow_list_of_nodes_is_read_at_leisure_again() {
    let mut world = World::new(&["a"]).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeTimeout"] = "60s".into();
    });
    world.shoot("a").slow(Read::Nodes, Duration::from_secs(8));
    world.start();
    let lists = || lists_of_machines(&world, "a");
    // At leisure, and for a verdict.
    world.clock.pass(Duration::from_secs(70)).await;
    assert_eq!(lists(), 2);
    world.reason("a", "Healthy").await;
    for more in 1..=3 {
        change_shoot(&world, |shoot| {
            shoot["spec"]["provider"]["workers"][0]["name"] = format!("w{more}").into();
        });
        world.clock.pass(Duration::from_secs(70)).await;
        assert_eq!(lists(), 2 + more);
        world.reason("a", "Healthy").await;
    }
    // Nor does it go unsaid if there is none.
    world.shoot("a").fail(Read::Nodes, Failure::Hang);
    change_shoot(&world, |shoot| {
        shoot["spec"]["provider"]["workers"][0]["name"] = "w".into();
    });
    world.reason("a", "Timeout").await;
}

/// Of a thousand that start at once each waits long for its turn on the seed.
#[tokio::test]
async fn a_start_is_not_blind_while_the_seed_has_no_time() {
    let mut world = World::new(&["a", "b"]).await;
    let budget = Budget {
        qps: LEAST_QPS,
        burst: NonZeroU32::MIN,
    };
    let busy = Seed::new(world.seed.unlimited().client().clone(), budget);
    busy.turn().await;
    world.shoot("a").silence(20);
    world.start_on(busy);
    let protected = || (world.replicas("a") == [0, 0, 0]).then_some(());
    world.clock.until("a is protected", protected).await;
    world.more_reads("b", Read::Cached, 3).await;
}

/// Nodes that are asked for since a lease has come wait for a turn on the seed that never comes. Then the cluster
/// is cut off, and they decide.
#[tokio::test]
async fn nodes_that_wait_at_leisure_do_not_keep_a_suspect_waiting() {
    let mut world = World::new(&["a"]).await;
    let budget = Budget {
        qps: LEAST_QPS,
        burst: NonZeroU32::new(1_000).unwrap(),
    };
    let busy = Seed::new(world.seed.unlimited().client().clone(), budget);
    world.start_on(busy.clone());
    world.reason("a", "Healthy").await;
    world.shoot("a").silence_first();
    world.clock.pass(Duration::from_secs(70)).await;
    while unconstrained(busy.turn()).now_or_never().is_some() {}
    let lists = lists_of_machines(&world, "a");
    world.shoot("a").join();
    world.clock.pass(INTERVAL * 2).await;
    assert_eq!(
        lists_of_machines(&world, "a"),
        lists,
        "it is not their turn"
    );
    world.shoot("a").silence(20);
    let protected = || (world.replicas("a") == [0, 0, 0]).then_some(());
    world.clock.until("a is protected", protected).await;
    assert!(lists_of_machines(&world, "a") > lists);
}

/// One that failed is no one that hangs.
#[tokio::test]
async fn a_failed_list_of_nodes_sends_nobody_among_those_that_hang() {
    let hanging: Vec<String> = (0..12).map(|index| format!("hanging-{index}")).collect();
    let mut names: Vec<&str> = hanging.iter().map(String::as_str).collect();
    names.push("b");
    let mut world = World::new(&names).await;
    for name in &hanging {
        world.shoot(name).fail(Read::Nodes, Failure::Hang);
    }
    let shoot = world.shoot("b");
    shoot.fail(Read::Nodes, Failure::Status(503));
    shoot.silence(20);
    world.start();
    world.reason("b", "ServerError").await;
    world.shoot("b").heal();
    world.protection("b", "Active").await;
    let reads = world.shoot("b").reads();
    let gaps = reads.windows(2).map(|it| it[1].0 - it[0].0);
    for gap in gaps {
        assert!(gap <= INTERVAL + STEP, "{gap:?}");
    }
}
