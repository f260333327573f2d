//! What checks do to a cluster, on a scripted seed and shoot: a Gate that does not pass holds a restore
//! back, and nothing else is decided by a check.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use crate::support::{
    LONG, RUNNING, Target, World, assert_back, assert_kept, change_policy, condition, gone, http,
    run,
};
use serde_json::{Value, json};

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

/// Whether a Gate still passes is not known before it has been run.
#[tokio::test]
async fn a_gate_has_to_pass_anew_after_a_restart() {
    let (mut world, patient) = protected(200).await;
    world.stop().await;
    world.shoot("a").renew();
    let mut check = patient.check("Gate");
    check["initialDelaySeconds"] = json!(150);
    ask(&world, &[check]);
    world.start();
    world.reason("a", "Healthy").await;
    let why = "the Gate etcd tells nothing: it has not been run yet";
    assert_held_back(&world, why).await;
    world.protection("a", "None").await;
    assert_back(&world);
}
