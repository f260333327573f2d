//! What checks with a role do to a cluster, on a scripted seed and shoot: a Gate that does not pass
//! holds a restore back, a Trigger that fails protects.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use dependency_watchdog::{
    checks::CheckMetrics,
    prober::plan::{MARK, RECORD},
};
use serde_json::{Value, json};
use support::{
    DEPENDENTS, DOWN, Failure, INTERVAL, LONG, RUNNING, Read, Target, World, api, assert_back,
    assert_kept, change_policy, change_shoot, condition, deselect, ended, exit, first_write, gone,
    http, is_marked, put_cluster, run, runner, scale_by_hand,
};

const SECOND: Duration = Duration::from_secs(1);
/// The answer is the end of time.
const NEVER: u16 = 0;

/// What a check asks, and the status that it gives.
struct Patient {
    target: Target,
    status: Arc<AtomicU16>,
}

impl Patient {
    async fn new(world: &World, status: u16) -> Self {
        let status = Arc::new(AtomicU16::new(status));
        let shared = status.clone();
        let target = Target::start(&world.activity, move |mut stream| {
            let status = shared.load(Ordering::SeqCst);
            async move {
                match status {
                    NEVER => gone(&mut stream).await,
                    status => {
                        let answer = format!("HTTP/1.1 {status} It\r\nContent-Length: 0\r\n\r\n");
                        http(stream, |_| answer.clone()).await;
                    }
                }
            }
        })
        .await;
        Self { target, status }
    }

    fn answers(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// A check of it that is run every second, and of which each run counts.
    fn check(&self, role: &str) -> Value {
        json!({
            "name": "etcd", "role": role, "periodSeconds": 1, "failureThreshold": 1,
            "httpGet": {"service": "s", "port": self.target.address.port()},
        })
    }
}

fn leases_fail(world: &World) {
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
}

/// A command in a pod that does not exist.
fn unable(role: &str) -> Value {
    json!({
        "name": "etcd", "role": role, "periodSeconds": 1, "failureThreshold": 1,
        "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": ["true"]},
    })
}

fn ask(world: &World, checks: &[Value]) {
    change_policy(world, "p", |policy| {
        policy["spec"]["checks"] = json!(checks)
    });
}

async fn passes(world: &World, cluster: &str) {
    let passes = |status: &Value| status["checks"][0]["result"] == "Passing";
    world
        .health_where(cluster, "its check passes", passes)
        .await;
}

/// The healthy cluster `a`, with one such check, which has passed if that is what it does.
async fn checked(role: &str, status: u16) -> (World, Patient) {
    let mut world = World::new(&["a"]).await;
    let patient = Patient::new(&world, status).await;
    ask(&world, &[patient.check(role)]);
    world.start();
    if status == 200 {
        passes(&world, "a").await;
    }
    (world, patient)
}

/// The cluster `a`, protected since its Trigger fails.
async fn triggered() -> (World, Patient) {
    let (world, patient) = checked("Trigger", 200).await;
    world.reason("a", "Healthy").await;
    patient.answers(500);
    world.protection("a", "Active").await;
    (world, patient)
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

/// It is protected, its leases are fresh, and it is not restored, for this reason.
async fn assert_held_back(world: &World, why: &str) {
    world.clock.pass(LONG).await;
    assert_kept(world);
    let status = world.health("a");
    assert_eq!(status["reason"], "Healthy");
    let protecting = condition(&status, "Protecting");
    assert_eq!(protecting["status"], "True");
    assert_eq!(protecting["reason"], "HeldBack");
    assert!(message(&status).contains(why), "{status}");
}

#[test]
fn a_gate_that_does_not_pass_holds_a_restore_back_and_delays_no_protection() {
    for (status, why) in [
        (500, "the Gate etcd fails: the server answered 500"),
        (NEVER, "the Gate etcd fails: it had not ended after 1s"),
    ] {
        run(async move {
            let (world, patient) = checked("Gate", status).await;
            world.reason("a", "Healthy").await;
            world.shoot("a").silence(100);
            world.protection("a", "Active").await;
            assert_kept(&world);
            world.shoot("a").renew();
            assert_held_back(&world, why).await;
            let check = &world.health("a")["checks"][0];
            assert_eq!(
                (&check["role"], &check["result"]),
                (&json!("Gate"), &json!("Failing"))
            );
            patient.answers(200);
            world.protection("a", "None").await;
            assert_back(&world);
        });
    }
}

#[test]
fn a_check_that_cannot_be_made_holds_a_restore_back_and_takes_nothing() {
    for role in ["Gate", "Trigger"] {
        run(async move {
            let mut world = World::new(&["a"]).await;
            ask(&world, &[unable(role)]);
            world.start();
            world.reason("a", "Healthy").await;
            world.clock.pass(LONG).await;
            assert_eq!(world.replicas("a"), RUNNING);
            assert_eq!(world.health("a")["checks"][0]["result"], "Unknown");
            world.shoot("a").silence(100);
            world.protection("a", "Active").await;
            world.shoot("a").renew();
            assert_held_back(&world, &format!("the {role} etcd tells nothing")).await;
            // The policy is told otherwise.
            ask(&world, &[unable("Observe")]);
            world.protection("a", "None").await;
            assert_back(&world);
        });
    }
}

#[tokio::test]
async fn a_gate_that_fails_in_the_middle_of_a_restore_holds_back_the_rest() {
    let (world, patient) = checked("Gate", 200).await;
    change_policy(&world, "p", |policy| {
        // kcm, the last.
        policy["spec"]["dependentResourceInfos"][0]["scaleUp"]["initialDelay"] = json!("30s");
    });
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    let halfway = || (world.replicas("a") == [0, 2, 3]).then_some(());
    world.clock.until("two of three are back", halfway).await;
    patient.answers(500);
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [0, 2, 3]);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    patient.answers(200);
    world.protection("a", "None").await;
    assert_back(&world);
}

/// The seconds from the first healthy verdict after a protection to the first write. In the middle of its
/// delay of 30 seconds the check fails, until the cluster is in this state.
async fn restored_over(role: &str, holds: impl Fn(&Value) -> bool) -> (u64, u64) {
    let (world, patient) = checked(role, 200).await;
    change_policy(&world, "p", |policy| {
        // ca, the first.
        policy["spec"]["dependentResourceInfos"][2]["scaleUp"]["initialDelay"] = json!("30s");
    });
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    world.reason("a", "Healthy").await;
    world.seed.forget_calls();
    let begin = world.clock.elapsed();
    world.clock.pass(SECOND * 5).await;
    patient.answers(500);
    world.health_where("a", "its check fails", holds).await;
    assert!(world.clock.elapsed() - begin < SECOND * 20);
    patient.answers(200);
    let passed = world.clock.elapsed();
    let written = || (world.replicas("a")[2] > 0).then(|| world.clock.elapsed());
    let at = world.clock.until("ca is back", written).await;
    ((at - begin).as_secs(), (at - passed).as_secs())
}

/// Nothing is written while it fails; the delay goes on all the same.
#[tokio::test]
async fn a_gate_that_fails_does_not_begin_a_delay_anew() {
    let holds = |status: &Value| condition(status, "Protecting")["reason"] == "HeldBack";
    let (since_begin, _) = restored_over("Gate", holds).await;
    assert!((29..=31).contains(&since_begin), "{since_begin}");
}

#[tokio::test]
async fn a_trigger_that_fails_begins_a_delay_anew() {
    let holds = |status: &Value| status["reason"] == "TriggerFailed";
    let (_, since_passed) = restored_over("Trigger", holds).await;
    // The next verdict on the leases is waited for.
    assert!((30..=41).contains(&since_passed), "{since_passed}");
}

#[tokio::test]
async fn what_somebody_else_pays_is_seen_while_a_gate_fails() {
    let (world, _patient) = checked("Gate", 500).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    assert_held_back(&world, "the Gate etcd fails").await;
    for (name, replicas) in DEPENDENTS.into_iter().zip([1, 2, 3]) {
        scale_by_hand(&world, name, replicas, true);
    }
    world.protection("a", "None").await;
    assert_back(&world);
}

/// What nobody took need not be given back, and is not asked for again and again.
#[tokio::test]
async fn a_gate_that_fails_costs_a_healthy_cluster_nothing() {
    let (world, _patient) = checked("Gate", 500).await;
    world.reason("a", "Healthy").await;
    // A write of an earlier process might still arrive at first.
    world.clock.pass(LONG * 2).await;
    world.seed.forget_calls();
    world.clock.pass(LONG).await;
    let is_watch = |call: &String| call.ends_with("(watch)");
    assert!(world.seed.briefs().iter().all(is_watch));
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "NotProtected");
}

/// The record may be gone; the mark tells that it is owed.
#[tokio::test]
async fn marks_are_found_although_a_gate_fails() {
    let mut world = World::new(&["a"]).await;
    let patient = Patient::new(&world, 500).await;
    ask(&world, &[patient.check("Gate")]);
    world.seed.change("deployments", "a", "mcm", |object| {
        object["spec"]["replicas"] = json!(0);
        object["metadata"]["annotations"] = json!({MARK: "", RECORD: "2"});
    });
    world.start();
    let status = world.protection("a", "Active").await;
    assert_eq!(status["dependents"][2]["owed"], true, "{status}");
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [1, 0, 3]);
    patient.answers(200);
    world.protection("a", "None").await;
    assert_back(&world);
}

#[test]
fn a_trigger_that_fails_protects_and_one_that_passes_restores() {
    for (status, why) in [
        (500, "the Trigger etcd fails: the server answered 500"),
        (NEVER, "the Trigger etcd fails: it had not ended after 1s"),
    ] {
        run(async move {
            let (world, patient) = checked("Trigger", 200).await;
            world.reason("a", "Healthy").await;
            world.clock.pass(LONG).await;
            assert_eq!(world.replicas("a"), RUNNING);
            patient.answers(status);
            let status = world.protection("a", "Active").await;
            assert_kept(&world);
            assert_eq!(status["reason"], "TriggerFailed");
            assert_eq!(condition(&status, "Ready")["status"], "True");
            assert_eq!(condition(&status, "Protecting")["reason"], "Protected");
            assert!(message(&status).contains(why), "{status}");
            assert!(
                message(&status).contains("none of 4 node leases is expired"),
                "{status}"
            );
            assert_eq!(status["leases"]["candidates"], 4);
            let done = status["lastAction"]["message"].as_str().unwrap();
            assert!(done.contains(why), "{done}");
            // The leases are fresh all the while.
            world.clock.pass(LONG).await;
            assert_kept(&world);
            patient.answers(200);
            world.protection("a", "None").await;
            assert_back(&world);
            assert_eq!(world.health("a")["reason"], "Healthy");
        });
    }
}

/// Its port may be wrong, or nothing let through to it.
#[tokio::test]
async fn a_trigger_that_has_never_passed_takes_nothing() {
    let (world, patient) = checked("Trigger", 500).await;
    world.reason("a", "Healthy").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), RUNNING);
    let told = |status: &Value| {
        let check = &status["checks"][0];
        let why = "it has not passed since it was set up";
        check["result"] == "Unknown" && message(check).starts_with(why)
    };
    world.health_where("a", "it tells nothing", told).await;
    patient.answers(200);
    passes(&world, "a").await;
    patient.answers(500);
    world.protection("a", "Active").await;
}

/// That it has passed outlives the operator.
#[tokio::test]
async fn a_trigger_that_passed_before_a_restart_counts() {
    let (mut world, patient) = checked("Trigger", 200).await;
    world.stop().await;
    patient.answers(500);
    world.start();
    world.protection("a", "Active").await;
    assert_eq!(world.health("a")["reason"], "TriggerFailed");
}

/// And nothing of it holds for one that is set up otherwise, under the same name.
#[tokio::test]
async fn a_trigger_that_was_set_up_otherwise_before_a_restart_has_not_passed() {
    let (mut world, patient) = checked("Trigger", 200).await;
    world.stop().await;
    patient.answers(500);
    let mut check = patient.check("Trigger");
    check["httpGet"]["path"] = json!("/other");
    ask(&world, &[check]);
    world.start();
    world.clock.pass(Duration::from_secs(120)).await;
    let status = world.health("a");
    assert_eq!(status["protection"], "None", "{status}");
    let message = status["checks"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("it has not passed since it was set up"),
        "{message}"
    );
}

#[tokio::test]
async fn a_trigger_counts_also_while_the_leases_cannot_be_read() {
    let (world, patient) = triggered().await;
    leases_fail(&world);
    world.clock.pass(LONG).await;
    scale_by_hand(&world, "kcm", 4, false);
    world.clock.pass(LONG).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(status["reason"], "TriggerFailed");
    assert_eq!(condition(&status, "Protecting")["reason"], "Protected");
    scale_by_hand(&world, "kcm", 1, false);
    world.clock.pass(LONG).await;
    // That it passes is no evidence of fresh leases.
    patient.answers(200);
    world.reason("a", "ServerError").await;
    world.clock.pass(LONG).await;
    assert_kept(&world);
    world.shoot("a").heal();
    world.protection("a", "None").await;
    assert_back(&world);
}

/// What keeps the check from passing may keep everything else from being reached, too.
#[tokio::test]
async fn a_trigger_waits_until_the_api_server_has_answered() {
    let (world, patient) = checked("Trigger", 200).await;
    world.reason("a", "Healthy").await;
    leases_fail(&world);
    world.reason("a", "ServerError").await;
    patient.answers(500);
    let status = world.reason("a", "TriggerFailed").await;
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), RUNNING);
    let status = world.health("a");
    assert!(
        message(&status).contains("has answered no list of leases"),
        "{status}"
    );
    world.shoot("a").heal();
    world.protection("a", "Active").await;
    assert_kept(&world);
    assert_eq!(world.health("a")["reason"], "TriggerFailed");
}

/// Others may fail as well, and have one period to show it.
#[tokio::test]
async fn a_trigger_whose_first_failure_counts_waits_one_period() {
    let mut world = World::new(&["a"]).await;
    let patient = Patient::new(&world, 200).await;
    let mut check = patient.check("Trigger");
    check["periodSeconds"] = json!(30);
    ask(&world, &[check]);
    world.start();
    passes(&world, "a").await;
    patient.answers(500);
    let status = world.reason("a", "TriggerFailed").await;
    assert_eq!(condition(&status, "Protecting")["reason"], "HeldBack");
    assert!(
        message(&status).contains("less than one period ago"),
        "{status}"
    );
    world.clock.pass(SECOND * 29).await;
    assert_eq!(world.replicas("a"), RUNNING);
    world.clock.pass(SECOND * 2).await;
    assert_eq!(world.replicas("a")[0], 0);
    world.protection("a", "Active").await;
}

const FOUR: [&str; 4] = ["a", "b", "c", "d"];

/// A command in the control plane of each of four clusters, of which a test says whether it fails.
struct Commands {
    failing: Arc<Mutex<BTreeSet<String>>>,
    /// In these it cannot be run.
    broken: Arc<Mutex<BTreeSet<String>>>,
    _api: Target,
}

impl Commands {
    /// Run by a Trigger that fails by its first failure; it passes everywhere.
    async fn new(period: i32) -> (World, Self) {
        Self::failing(period, &[]).await
    }

    /// The same, which has failed in these from the beginning.
    async fn failing(period: i32, clusters: &[&str]) -> (World, Self) {
        let mut world = World::new(&FOUR).await;
        let names = clusters.iter().map(|it| (*it).to_owned());
        let failing: Arc<Mutex<BTreeSet<String>>> = Arc::new(Mutex::new(names.collect()));
        let broken: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let shared = (failing.clone(), broken.clone());
        let pods = json!([{
            "metadata": {"name": "etcd-0"}, "spec": {"containers": [{"name": "etcd"}]},
            "status": {"phase": "Running"},
        }]);
        let api = api(&world.activity, pods, move |path, socket| {
            // After /api/v1/namespaces/.
            let cluster = path.split('/').nth(4).unwrap();
            let code = i32::from(shared.0.lock().unwrap().contains(cluster));
            let status = match shared.1.lock().unwrap().contains(cluster) {
                true => json!({"metadata": {}, "status": "Failure", "reason": "InternalError"}),
                false => exit(code),
            };
            async move { ended(socket, &[], &status).await }
        })
        .await;
        world.runner = Some(runner(Some(&api), "", CheckMetrics::default()));
        let mut check = unable("Trigger");
        check["periodSeconds"] = json!(period);
        ask(&world, &[check]);
        world.start();
        for cluster in FOUR {
            if !clusters.contains(&cluster) {
                passes(&world, cluster).await;
            }
            world.reason(cluster, "Healthy").await;
        }
        let commands = Self {
            failing,
            broken,
            _api: api,
        };
        (world, commands)
    }

    fn fail_in(&self, clusters: &[&str]) {
        *self.failing.lock().unwrap() = clusters.iter().map(|it| (*it).to_owned()).collect();
    }
}

async fn is_widespread(world: &World, cluster: &str) -> Value {
    let held = |status: &Value| {
        let conditions = status["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|it| it["reason"] == "Widespread"))
    };
    let what = format!("the Trigger of {cluster} is held");
    world.health_where(cluster, &what, held).await
}

/// Waits until its check passes in one of these clusters.
async fn one_passes(world: &World, clusters: &[&str]) {
    let passes = |cluster: &&str| world.health(cluster)["checks"][0]["result"] == "Passing";
    let one = || clusters.iter().any(passes).then_some(());
    world.clock.until("the check passes in one", one).await;
}

/// They share what is checked.
#[test]
fn a_trigger_that_fails_in_many_clusters_takes_nothing() {
    for (status, threshold) in [(500, 1), (NEVER, 1), (500, 3), (NEVER, 3)] {
        run(async move {
            let mut world = World::new(&FOUR).await;
            let patient = Patient::new(&world, 200).await;
            let mut check = patient.check("Trigger");
            check["failureThreshold"] = json!(threshold);
            ask(&world, &[check]);
            world.start();
            for cluster in FOUR {
                passes(&world, cluster).await;
            }
            patient.answers(status);
            for cluster in FOUR {
                let status = is_widespread(&world, cluster).await;
                assert_eq!(status["reason"], "TriggerFailed");
                let protecting = condition(&status, "Protecting");
                assert_eq!(protecting["status"], "False");
                let why = "the check etcd fails in 4 of 4 clusters of the policy p";
                assert!(message(&status).contains(why), "{status}");
            }
            world.clock.pass(LONG).await;
            patient.answers(200);
            for cluster in FOUR {
                world.reason(cluster, "Healthy").await;
                assert_eq!(world.replicas(cluster), RUNNING);
            }
            assert!(world.seed.writes().is_empty());
        });
    }
}

/// It may be unable to pass there, which tells nothing of the others.
#[tokio::test]
async fn a_check_that_has_never_passed_holds_no_trigger_of_another_cluster() {
    let (world, commands) = Commands::failing(1, &["a", "c", "d"]).await;
    world.clock.pass(LONG).await;
    commands.fail_in(&FOUR);
    world.protection("b", "Active").await;
    assert_eq!(world.replicas("b"), DOWN);
    for cluster in ["a", "c", "d"] {
        assert_eq!(world.replicas(cluster), RUNNING);
    }
}

/// One that has said nothing for long tells nothing, either.
#[tokio::test]
async fn a_check_that_cannot_be_run_any_more_holds_no_trigger_of_another_cluster() {
    let (world, commands) = Commands::new(1).await;
    commands.fail_in(&FOUR);
    is_widespread(&world, "b").await;
    for cluster in ["a", "c", "d"] {
        commands.broken.lock().unwrap().insert(cluster.to_owned());
    }
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("b"), RUNNING, "the hold lingers");
    world.protection("b", "Active").await;
    for cluster in ["a", "c", "d"] {
        assert_eq!(world.replicas(cluster), RUNNING);
    }
}

#[tokio::test]
async fn a_trigger_that_fails_in_one_of_four_clusters_protects_that_one() {
    let (world, commands) = Commands::new(1).await;
    commands.fail_in(&["b"]);
    world.protection("b", "Active").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("b"), DOWN);
    for cluster in ["a", "c", "d"] {
        assert_eq!(world.replicas(cluster), RUNNING);
    }
    commands.fail_in(&[]);
    world.protection("b", "None").await;
    assert_eq!(world.replicas("b"), RUNNING);
}

/// Silent leases have a proof. What is taken by it is not given back while the Trigger fails.
#[tokio::test]
async fn what_the_leases_prove_is_acted_on_however_many_triggers_fail() {
    let (world, commands) = Commands::new(1).await;
    commands.fail_in(&FOUR);
    is_widespread(&world, "a").await;
    for cluster in FOUR {
        world.shoot(cluster).silence(100);
    }
    for cluster in FOUR {
        world.protection(cluster, "Active").await;
        assert_eq!(world.health(cluster)["reason"], "Outage");
    }
    for cluster in FOUR {
        world.shoot(cluster).renew();
    }
    let status = is_widespread(&world, "a").await;
    assert_eq!(condition(&status, "Protecting")["status"], "True");
    // Nor is anything taken again.
    scale_by_hand(&world, "kcm", 4, false);
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), [4, 0, 0]);
    assert_eq!(world.replicas("b"), DOWN);
    commands.fail_in(&[]);
    for cluster in FOUR {
        world.protection(cluster, "None").await;
    }
    assert_eq!(world.replicas("a"), [4, 2, 3]);
    assert_eq!(world.replicas("b"), RUNNING);
}

/// No run of a check and no list of leases is waited for.
#[tokio::test]
async fn a_hold_ends_a_minute_after_few_fail() {
    let (world, commands) = Commands::new(50).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = json!("50s");
    });
    commands.fail_in(&FOUR);
    for cluster in FOUR {
        is_widespread(&world, cluster).await;
    }
    world.clock.pass(LONG).await;
    commands.fail_in(&["a"]);
    one_passes(&world, &["b", "c", "d"]).await;
    let fell = world.clock.elapsed();
    first_write(&world).await;
    let took = world.clock.elapsed() - fell;
    assert!((LONG - SECOND..=LONG + SECOND).contains(&took), "{took:?}");
    world.protection("a", "Active").await;
    assert_eq!(world.replicas("b"), RUNNING);
}

/// What is taken stays, marked. When the hold ends, the rest follows.
#[tokio::test]
async fn a_hold_that_begins_in_the_middle_of_a_scale_down_stops_it() {
    let (world, commands) = Commands::new(1).await;
    change_policy(&world, "p", |policy| {
        // mcm, the second. What a run of the check has said counts for longer.
        policy["spec"]["dependentResourceInfos"][1]["scaleDown"]["initialDelay"] = json!("4s");
    });
    world.more_reads("a", Read::Cached, 2).await;
    commands.fail_in(&["a"]);
    first_write(&world).await;
    commands.fail_in(&FOUR);
    let status = is_widespread(&world, "a").await;
    assert_eq!(status["protection"], "ScalingDown");
    world.clock.pass(LONG * 2).await;
    assert_eq!(world.replicas("a"), [0, 2, 3]);
    assert_eq!(is_marked(&world), [true, false, false]);
    commands.fail_in(&["a"]);
    world.clock.pass(LONG - SECOND).await;
    assert_eq!(world.replicas("a"), [0, 2, 3]);
    world.protection("a", "Active").await;
    assert_kept(&world);
    for cluster in ["b", "c", "d"] {
        assert_eq!(world.replicas(cluster), RUNNING);
    }
    commands.fail_in(&[]);
    world.protection("a", "None").await;
    assert_back(&world);
}

/// One whose loop has ended fails no more. With three the others are too few to be held.
#[tokio::test]
async fn a_cluster_that_is_gone_counts_no_more() {
    let (world, commands) = Commands::new(1).await;
    commands.fail_in(&FOUR);
    for cluster in FOUR {
        is_widespread(&world, cluster).await;
    }
    world.seed.delete("clusters", "", "d");
    world.clock.pass(LONG - SECOND).await;
    assert!(world.seed.writes().is_empty());
    for cluster in ["a", "b", "c"] {
        world.protection(cluster, "Active").await;
    }
}

/// Each is enough to protect, and both are needed to restore.
#[tokio::test]
async fn a_trigger_and_the_leases_are_both_heard() {
    let (world, patient) = triggered().await;
    world.shoot("a").silence(100);
    world.reason("a", "Outage").await;
    patient.answers(200);
    world.clock.pass(LONG).await;
    assert_kept(&world);
    assert_eq!(world.health("a")["reason"], "Outage");
    patient.answers(500);
    world.clock.pass(INTERVAL).await;
    assert_eq!(world.health("a")["reason"], "Outage");
    for read in [Read::Cached, Read::Consistent] {
        world.shoot("a").fail(read, Failure::Status(503));
    }
    world.reason("a", "TriggerFailed").await;
    world.shoot("a").heal();
    world.reason("a", "Outage").await;
    world.shoot("a").renew();
    world.reason("a", "TriggerFailed").await;
    world.clock.pass(LONG).await;
    assert_kept(&world);
    patient.answers(200);
    world.protection("a", "None").await;
    assert_back(&world);
}

#[tokio::test]
async fn a_trigger_that_passes_stops_a_scale_down_and_restores() {
    let (world, patient) = checked("Trigger", 200).await;
    change_policy(&world, "p", |policy| {
        // mcm, the second.
        policy["spec"]["dependentResourceInfos"][1]["scaleDown"]["initialDelay"] = json!("4s");
    });
    world.reason("a", "Healthy").await;
    // The leases are not read again before mcm would be scaled down.
    world.more_reads("a", Read::Cached, 1).await;
    patient.answers(500);
    first_write(&world).await;
    world.clock.pass(SECOND).await;
    assert_eq!(world.replicas("a"), [0, 2, 3]);
    patient.answers(200);
    world.protection("a", "None").await;
    assert_back(&world);
    let taken: Vec<String> = world.seed.writes().into_iter().map(|it| it.name).collect();
    assert_eq!(taken, ["kcm", "kcm"]);
}

/// Each run that fails is newer evidence: no verdict on the leases comes in time for that, but for the first.
#[tokio::test]
async fn a_scale_down_goes_on_as_long_as_its_trigger_fails() {
    let (world, patient) = checked("Trigger", 200).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["probeInterval"] = json!("60s");
        policy["spec"]["dependentResourceInfos"][1]["scaleDown"]["initialDelay"] = json!("20s");
    });
    world.reason("a", "Healthy").await;
    world.more_reads("a", Read::Cached, 1).await;
    patient.answers(500);
    first_write(&world).await;
    world.clock.pass(SECOND * 30).await;
    assert_kept(&world);
}

/// A dependent that is missing ends each scale-down; the next verdict takes it up, not the next run of
/// a check.
#[tokio::test]
async fn a_trigger_that_goes_on_failing_tries_no_more_often_than_leases_would() {
    let (world, patient) = checked("Trigger", 200).await;
    world.reason("a", "Healthy").await;
    world.seed.delete("deployments", "a", "kcm");
    patient.answers(500);
    world.reason("a", "TriggerFailed").await;
    world.clock.pass(INTERVAL).await;
    world.seed.forget_calls();
    world.clock.pass(INTERVAL * 6).await;
    let calls = world.seed.calls();
    let looks = calls.iter().filter(|call| call.name == "kcm").count();
    assert!((5..=7).contains(&looks), "{looks}");
}

#[tokio::test]
async fn nothing_is_taken_in_a_dry_run() {
    let (world, patient) = checked("Trigger", 200).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("DryRun")
    });
    world.reason("a", "Healthy").await;
    patient.answers(500);
    world.reason("a", "TriggerFailed").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), RUNNING);
    let status = world.health("a");
    assert_eq!(condition(&status, "Protecting")["reason"], "DryRun");
    let would = "these would be scaled to zero: ca, kcm, mcm";
    assert!(message(&status).contains(would), "{status}");
    change_policy(&world, "p", |policy| {
        policy["spec"]["mode"] = json!("Enforce")
    });
    world.protection("a", "Active").await;
}

#[tokio::test]
async fn a_suspended_policy_runs_no_checks() {
    let (world, patient) = triggered().await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.reason("a", "Suspended").await;
    patient.answers(200);
    world.clock.pass(LONG).await;
    assert_kept(&world);
    assert_eq!(world.health("a")["checks"], Value::Null);
}

#[tokio::test]
async fn nothing_is_taken_before_the_initial_delay_has_passed() {
    let (world, patient) = checked("Trigger", 200).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["initialDelay"] = json!("60s")
    });
    world.reason("a", "Healthy").await;
    put_cluster(&world.seed, "b", &world.shoot("a").kubeconfig());
    passes(&world, "b").await;
    patient.answers(500);
    world.protection("a", "Active").await;
    world.reason("b", "TriggerFailed").await;
    world.clock.pass(SECOND * 30).await;
    assert_eq!(world.replicas("b"), RUNNING);
    let status = world.health("b");
    assert!(message(&status).contains("initialDelay"), "{status}");
    world.protection("b", "Active").await;
    patient.answers(200);
    world.protection("b", "None").await;
}

#[tokio::test]
async fn a_cluster_that_is_let_go_waits_for_its_trigger() {
    let (world, patient) = triggered().await;
    change_policy(&world, "p", deselect);
    world.clock.pass(LONG).await;
    assert_kept(&world);
    let status = world.health("a");
    assert_eq!(status["reason"], "TriggerFailed");
    assert!(
        message(&status).contains("no policy selects the cluster any more"),
        "{status}"
    );
    patient.answers(200);
    let let_go = || world.health("a").is_null().then_some(());
    world.clock.until("it is let go", let_go).await;
    assert_back(&world);
}

/// Whether a Trigger still fails is not known before it has been run.
#[tokio::test]
async fn a_restart_forgets_no_trigger() {
    let (mut world, patient) = triggered().await;
    world.stop().await;
    patient.answers(200);
    ask(
        &world,
        &[json!({
            "name": "etcd", "role": "Trigger", "initialDelaySeconds": 100, "periodSeconds": 1,
            "httpGet": {"service": "s", "port": patient.target.address.port()},
        })],
    );
    world.start();
    world.reason("a", "Healthy").await;
    assert_held_back(
        &world,
        "the Trigger etcd tells nothing: it has not been run yet",
    )
    .await;
    world.protection("a", "None").await;
    assert_back(&world);
}

#[tokio::test]
async fn a_trigger_that_is_taken_out_of_the_policy_counts_no_more() {
    let (world, _patient) = triggered().await;
    ask(&world, &[]);
    world.protection("a", "None").await;
    assert_back(&world);
    assert_eq!(world.health("a")["checks"], Value::Null);
}

/// There is nothing to protect, or its nodes are taken down, for which the controllers are needed.
#[test]
fn checks_keep_no_cluster_that_goes_to_sleep_or_loses_its_workers() {
    for role in ["Gate", "Trigger"] {
        for (field, value) in [
            ("provider", json!({"workers": []})),
            ("hibernation", json!({"enabled": true})),
        ] {
            run(async move {
                let (world, patient) = checked(role, 200).await;
                world.reason("a", "Healthy").await;
                patient.answers(500);
                world
                    .reason(
                        "a",
                        if role == "Gate" {
                            "Healthy"
                        } else {
                            "TriggerFailed"
                        },
                    )
                    .await;
                world.shoot("a").silence(100);
                world.protection("a", "Active").await;
                change_shoot(&world, |shoot| shoot["spec"][field] = value.clone());
                world.protection("a", "None").await;
                assert_back(&world);
            });
        }
    }
}

/// What a check has come to is about the Cluster that was.
#[tokio::test]
async fn a_cluster_that_is_replaced_is_checked_anew() {
    let (world, _patient) = triggered().await;
    let mut cluster = world.seed.get("clusters", "", "a").unwrap();
    cluster["metadata"]["uid"] = json!("uid-anew");
    world.seed.put(&cluster);
    let begins = |status: &Value| status["checks"][0]["result"] == "Unknown";
    world.health_where("a", "it is checked anew", begins).await;
    world.clock.pass(LONG).await;
    assert_kept(&world);
}
