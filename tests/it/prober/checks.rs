//! What checks do to a cluster, on a scripted seed and shoot: a Gate that does not pass holds a restore
//! back, and nothing else is decided by a check.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use crate::support::{
    DEPENDENTS, LONG, RUNNING, Target, World, assert_back, assert_kept, change_policy,
    change_shoot, condition, deselect, gone, http, run, scale_by_hand,
};
use dependency_watchdog::prober::plan::{MARK, RECORD};
use serde_json::{Value, json};

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

/// The cluster `a`, protected since its leases are silent, with a Gate that gives this status.
async fn protected(status: u16) -> (World, Patient) {
    let (world, patient) = checked("Gate", status).await;
    world.reason("a", "Healthy").await;
    world.shoot("a").silence(100);
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
            let (world, patient) = protected(status).await;
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

#[tokio::test]
async fn a_check_that_cannot_be_made_holds_a_restore_back_and_takes_nothing() {
    let mut world = World::new(&["a"]).await;
    ask(&world, &[unable("Gate")]);
    world.start();
    world.reason("a", "Healthy").await;
    world.clock.pass(LONG).await;
    assert_eq!(world.replicas("a"), RUNNING);
    assert_eq!(world.health("a")["checks"][0]["result"], "Unknown");
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.shoot("a").renew();
    assert_held_back(&world, "the Gate etcd tells nothing").await;
    // The policy is told otherwise.
    ask(&world, &[unable("Observe")]);
    world.protection("a", "None").await;
    assert_back(&world);
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

/// Nothing is written while it fails; the delay goes on all the same.
#[tokio::test]
async fn a_gate_that_fails_does_not_begin_a_delay_anew() {
    let (world, patient) = checked("Gate", 200).await;
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
    let holds = |status: &Value| condition(status, "Protecting")["reason"] == "HeldBack";
    world.health_where("a", "its check fails", holds).await;
    assert!(world.clock.elapsed() - begin < SECOND * 20);
    patient.answers(200);
    let written = || (world.replicas("a")[2] > 0).then(|| world.clock.elapsed());
    let at = world.clock.until("ca is back", written).await;
    let took = (at - begin).as_secs();
    assert!((29..=31).contains(&took), "{took}");
}

#[tokio::test]
async fn what_somebody_else_pays_is_seen_while_a_gate_fails() {
    let (world, _patient) = protected(500).await;
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

#[tokio::test]
async fn a_suspended_policy_runs_no_checks() {
    let (world, _patient) = protected(200).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["suspend"] = json!(true)
    });
    world.reason("a", "Suspended").await;
    world.shoot("a").renew();
    world.clock.pass(LONG).await;
    assert_kept(&world);
    assert_eq!(world.health("a")["checks"], Value::Null);
}

#[tokio::test]
async fn a_cluster_that_is_let_go_waits_for_its_gate() {
    let (world, patient) = protected(500).await;
    change_policy(&world, "p", deselect);
    world.shoot("a").renew();
    assert_held_back(&world, "the Gate etcd fails").await;
    patient.answers(200);
    let let_go = || world.health("a").is_null().then_some(());
    world.clock.until("it is let go", let_go).await;
    assert_back(&world);
}

/// Whether a Gate still passes is not known before it has been run.
#[tokio::test]
async fn a_gate_has_to_pass_anew_after_a_restart() {
    let (mut world, patient) = protected(200).await;
    world.stop().await;
    world.shoot("a").renew();
    let mut check = patient.check("Gate");
    check["initialDelaySeconds"] = json!(100);
    ask(&world, &[check]);
    world.start();
    world.reason("a", "Healthy").await;
    let why = "the Gate etcd tells nothing: it has not been run yet";
    assert_held_back(&world, why).await;
    world.protection("a", "None").await;
    assert_back(&world);
}

/// There is nothing to protect, or its nodes are taken down, for which the controllers are needed.
#[test]
fn checks_keep_no_cluster_that_goes_to_sleep_or_loses_its_workers() {
    for (field, value) in [
        ("provider", json!({"workers": []})),
        ("hibernation", json!({"enabled": true})),
    ] {
        run(async move {
            let (world, _patient) = protected(500).await;
            change_shoot(&world, |shoot| shoot["spec"][field] = value.clone());
            world.protection("a", "None").await;
            assert_back(&world);
        });
    }
}

/// What a check has come to is about the Cluster that was.
#[tokio::test]
async fn a_cluster_that_is_replaced_is_checked_anew() {
    let (world, _patient) = protected(200).await;
    let mut cluster = world.seed.get("clusters", "", "a").unwrap();
    cluster["metadata"]["uid"] = json!("uid-anew");
    world.seed.put(&cluster);
    let begins = |status: &Value| status["checks"][0]["result"] == "Unknown";
    world.health_where("a", "it is checked anew", begins).await;
    world.clock.pass(LONG).await;
    assert_kept(&world);
}
