//! What a Gate does to a cluster: it holds a restore back. By commands that a real API server leads to the
//! kubelet of a pod.

use super::{
    Scenario, checks,
    prober::{COUNTS, all_are_restored},
    steps::{are, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::{CheckResult, CheckStatus, ClusterHealthStatus, Protection};
use dependency_watchdog_e2e::{
    Env, Execs, Operator, Play, Seed, Shoot,
    wait::{self, seen},
};
use serde_json::{Value, json};
use std::sync::Arc;

const GATE_OFF: &str = "--feature-gates=ExecProbeTimeout=false";

pub(super) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_gate_holds_a_restore_back,
        e2e_a_command_that_hangs_counts_by_the_feature_gate,
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

async fn e2e_a_gate_holds_a_restore_back(env: Env) -> Result<()> {
    env.operator().await?;
    let stage = Stage::new(&env, &env.seed().await?, "roles").await?;
    let (shoot, execs) = (&stage.shoot, &stage.execs);
    execs.play("gate", Play::Ends(1, "no leader".to_owned()));
    stage.ask(&[command("gate", "Gate")]).await?;
    shoot.is_found("Healthy").await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    let why = "the Gate gate fails: the command ended with exit code 1";
    let status = stage.says(Protection::Active, why).await?;
    ensure!(status.reason.as_deref() == Some("Healthy"), "{status:?}");
    are(shoot, COUNTS.map(taken)).await?;
    execs.play("gate", passes());
    stage.is_restored().await
}

/// A Gate that hangs keeps a restore back, and one that is observed is reported; neither with the gate off.
async fn e2e_a_command_that_hangs_counts_by_the_feature_gate(env: Env) -> Result<()> {
    let seed = env.own_seed("gates").await?;
    let stage = Stage::new(&env, &seed, "gates").await?;
    let shoot = &stage.shoot;
    for program in ["gate", "observed"] {
        stage.execs.play(program, Play::Hangs);
    }
    stage
        .ask(&[command("gate", "Gate"), command("observed", "Observe")])
        .await?;
    let operator = Operator::start(&seed, "gate-off", "prober", &[GATE_OFF])?;
    let both = |status: &ClusterHealthStatus, result: CheckResult, text: &str| {
        let is = |it: &CheckStatus| {
            it.result == result && it.message.as_deref().is_some_and(|it| it.contains(text))
        };
        status.checks.len() == 2 && status.checks.iter().all(is)
    };
    shoot
        .reports("the timeouts to be tolerated", |status| {
            both(status, CheckResult::Passing, "would have failed")
        })
        .await?;
    let events = "get events --field-selector reason=ExecTimeoutTolerated -o \
                  jsonpath={.items[*].message}";
    let events: Vec<&str> = events.split_whitespace().collect();
    wait::until("an event", async || {
        let told = stage.seed.kubectl().run(&events).await?;
        seen(told.contains("the command of check gate"), told)
    })
    .await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    stage.is_restored().await?;
    stop(&operator).await?;

    let operator = Operator::start(&seed, "gate-on", "prober", &[])?;
    shoot
        .reports("both to fail", |status| {
            both(status, CheckResult::Failing, "it had not ended after 3s")
        })
        .await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    let why = "nothing is restored before each Gate passes, and the Gate gate";
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
