//! What checks with a role do to a cluster: a Gate holds a restore back, a Trigger protects. Both by
//! commands that a real API server leads to the kubelet of a pod.

use super::{
    Scenario, checks,
    prober::{COUNTS, all_are_restored},
    steps::{are, plain, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::{CheckResult, ClusterHealthStatus, Protection};
use dependency_watchdog_e2e::{
    Env, Execs, Operator, Play, Seed, Shoot,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::sync::Arc;

const GATE_OFF: &str = "--feature-gates=ExecProbeTimeout=false";

pub(super) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_gate_holds_a_restore_back_and_a_trigger_protects,
        e2e_a_trigger_that_hangs_counts_by_the_feature_gate,
    ]
}

/// A shoot whose control plane has a pod in which commands can be run.
struct Stage {
    seed: Arc<Seed>,
    shoot: Shoot,
    execs: Execs,
}

impl Stage {
    async fn new(env: &Env, seed: &Arc<Seed>, name: &str) -> Result<Self> {
        let shoot = staffed(env.shoot(name).on(seed)).await?;
        let execs = Execs::start(&seed.client()?, &format!("node-{name}")).await?;
        let labels = json!({"app": "etcd"});
        execs
            .pod(shoot.namespace(), "etcd-0", "etcd", &labels)
            .await?;
        checks::grant(seed, shoot.namespace(), "get, create").await?;
        Ok(Self {
            seed: seed.clone(),
            shoot,
            execs,
        })
    }

    async fn ask(&self, checks: &[Value]) -> Result<()> {
        let policy = self.shoot.policy()?;
        policy.with(&json!({"checks": checks})).apply().await
    }

    /// Waits until it is protected or not, and the message of its ClusterHealth says this.
    async fn says(&self, protection: Protection, text: &str) -> Result<ClusterHealthStatus> {
        let what = format!("{protection:?}: {text}");
        let message = |status: &ClusterHealthStatus| status.message.clone().unwrap_or_default();
        self.shoot
            .reports(&what, |status| {
                status.protection == protection && message(status).contains(text)
            })
            .await
    }

    async fn is_restored(&self) -> Result<()> {
        self.shoot.is_protected(Protection::None).await?;
        all_are_restored(&self.shoot).await
    }
}

/// A command of which each run counts.
fn command(program: &str, role: &str) -> Value {
    json!({
        "name": program, "role": role,
        "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": [program]},
        "periodSeconds": 1, "timeoutSeconds": 3, "failureThreshold": 1,
    })
}

fn passes() -> Play {
    Play::Ends(0, String::new())
}

async fn e2e_a_gate_holds_a_restore_back_and_a_trigger_protects(env: Env) -> Result<()> {
    env.operator().await?;
    let stage = Stage::new(&env, &env.seed().await?, "roles").await?;
    let (shoot, execs) = (&stage.shoot, &stage.execs);
    execs.play("gate", Play::Ends(1, "no leader".to_owned()));
    execs.play("trigger", passes());
    stage
        .ask(&[command("gate", "Gate"), command("trigger", "Trigger")])
        .await?;
    shoot.is_found("Healthy").await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    let why = "the Gate gate fails: the command ended with exit code 1 and wrote: no leader";
    let status = stage.says(Protection::Active, why).await?;
    ensure!(status.reason.as_deref() == Some("Healthy"), "{status:?}");
    are(shoot, COUNTS.map(taken)).await?;
    execs.play("gate", passes());
    stage.is_restored().await?;

    // The nodes are heard all the while.
    execs.play("trigger", Play::Ends(2, "no quorum".to_owned()));
    let why = "the Trigger trigger fails: the command ended with exit code 2 and wrote: no quorum";
    let status = stage.says(Protection::Active, why).await?;
    ensure!(
        status.reason.as_deref() == Some("TriggerFailed"),
        "{status:?}"
    );
    are(shoot, COUNTS.map(taken)).await?;
    execs.play("trigger", passes());
    stage.is_restored().await
}

async fn e2e_a_trigger_that_hangs_counts_by_the_feature_gate(env: Env) -> Result<()> {
    let seed = env.own_seed("gates").await?;
    let stage = Stage::new(&env, &seed, "gates").await?;
    let shoot = &stage.shoot;
    stage.execs.play("trigger", Play::Hangs);
    stage.ask(&[command("trigger", "Trigger")]).await?;
    let operator = Operator::start(&seed, "gate-off", "prober", &[GATE_OFF])?;
    shoot
        .reports("the timeout to be tolerated", |status| {
            let message = status.checks.first().and_then(|it| it.message.as_deref());
            message.is_some_and(|it| it.contains("would have failed"))
        })
        .await?;
    let events = "get events --field-selector reason=ExecTimeoutTolerated -o \
                  jsonpath={.items[*].message}";
    let events: Vec<&str> = events.split_whitespace().collect();
    wait::until("an event", async || {
        let told = stage.seed.kubectl().run(&events).await?;
        seen(told.contains("the command of check trigger"), told)
    })
    .await?;
    are(shoot, COUNTS.map(plain)).await?;
    stop(&operator).await?;

    // That it was tolerated is no proof that it can pass.
    let operator = Operator::start(&seed, "gate-on", "prober", &[])?;
    shoot
        .reports("the Trigger to tell nothing", |status| {
            let message = status.checks.first().and_then(|it| it.message.as_deref());
            message.is_some_and(|it| it.contains("has not passed since it was set up"))
        })
        .await?;
    are(shoot, COUNTS.map(plain)).await?;
    stage.execs.play("trigger", passes());
    shoot
        .reports("the Trigger to pass", |status| {
            let check = status.checks.first();
            check.is_some_and(|it| it.result == CheckResult::Passing)
        })
        .await?;
    stage.execs.play("trigger", Play::Hangs);
    let why = "the Trigger trigger fails: it had not ended after 3s";
    stage.says(Protection::Active, why).await?;
    are(shoot, COUNTS.map(taken)).await?;
    stop(&operator).await?;

    let _operator = Operator::start(&seed, "gate-off-again", "prober", &[GATE_OFF])?;
    stage.is_restored().await
}

async fn stop(operator: &Operator) -> Result<()> {
    let ended = operator.process.terminate(wait::LIMIT).await?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
