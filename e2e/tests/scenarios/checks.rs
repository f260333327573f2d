//! Checks by a command: through a real API server, with its rights and refusals, to a kubelet that
//! plays what the command does.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored},
    scenarios,
    steps::{are, shown, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::{
    api::{CheckResult, ClusterHealthStatus, HealthCheck, Protection},
    checks::{CheckMetrics, Cuts, FeatureGates, Outcome, Runner, outcome::Said},
    runtime::{names::Names, seed},
};
use dependency_watchdog_e2e::{
    Env, Execs, Operator, Play, Seed,
    wait::{self, seen},
};
use serde_json::json;

pub(super) fn all() -> Vec<Scenario> {
    scenarios![
        e2e_a_command_is_run_in_a_pod,
        e2e_a_command_that_hangs_counts_by_the_feature_gate,
    ]
}

const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: exec, namespace: NAMESPACE}
rules:
  - {apiGroups: [''], resources: [pods], verbs: [list]}
  - {apiGroups: [''], resources: [pods/exec], verbs: [VERBS]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: exec, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: exec}
subjects: [{kind: ServiceAccount, name: dwd-prober, namespace: garden}]
";

/// A pod of a control plane on a node of its own, and a check of it.
struct Stage {
    execs: Execs,
    namespace: String,
    check: HealthCheck,
}

impl Stage {
    async fn new(seed: &Seed, name: &str) -> Result<Self> {
        let namespace = format!("exec--{name}");
        seed.apply(&format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"
        ))
        .await?;
        let execs = Execs::start(&seed.client()?, &format!("node-{name}")).await?;
        execs
            .pod(&namespace, "etcd-0", "etcd", &json!({"app": "etcd"}))
            .await?;
        execs
            .pod(&namespace, "other-0", "other", &json!({"app": "other"}))
            .await?;
        let check = serde_json::from_value(json!({
            "name": "etcd",
            "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": ["health", "a&b"]},
            "timeoutSeconds": 30,
        }))?;
        Ok(Self {
            execs,
            namespace,
            check,
        })
    }

    async fn grant(&self, seed: &Seed, verbs: &str) -> Result<()> {
        grant(seed, &self.namespace, verbs).await
    }

    async fn runs(&self, runner: &Runner) -> Outcome {
        let mut cuts = Cuts::default();
        let run = runner.run(&self.namespace, &self.check, &mut cuts);
        run.await.outcome
    }
}

/// Lets the prober run commands in the pods of a namespace, as far as these verbs go.
async fn grant(seed: &Seed, namespace: &str, verbs: &str) -> Result<()> {
    let rights = RIGHTS.replace("NAMESPACE", namespace);
    seed.apply(&rights.replace("VERBS", verbs)).await
}

/// As the prober, with its rights and no others.
async fn prober(seed: &Seed, gates: FeatureGates) -> Result<Runner> {
    let client = seed.operator_kubeconfig()?.client().await?;
    let seed = seed::Seed::unlimited(client);
    let (metrics, names) = (CheckMetrics::default(), Names::default());
    Ok(Runner::new(seed, gates, metrics, names))
}

async fn e2e_a_command_is_run_in_a_pod(env: Env) -> Result<()> {
    let seed = env.seed().await?;
    it_ends(&seed).await?;
    it_may_not_be_run(&seed).await
}

async fn it_ends(seed: &Seed) -> Result<()> {
    let stage = Stage::new(seed, "run").await?;
    stage.grant(seed, "get, create").await?;
    let runner = prober(seed, FeatureGates::default()).await?;
    for (play, expected) in [
        (Play::Ends(0, "fine".to_owned()), Outcome::Success),
        (
            Play::Ends(3, "no leader\npassword=hunter2".to_owned()),
            Outcome::Failure("the command ended with exit code 3".to_owned()),
        ),
        (Play::Ends(0, "y\n".repeat(100_000)), Outcome::Success),
    ] {
        stage.execs.play("health", play);
        let outcome = stage.runs(&runner).await;
        ensure!(outcome == expected, "{outcome}");
    }
    stage.execs.play("health", Play::Missing);
    let outcome = stage.runs(&runner).await;
    ensure!(
        outcome.said() == Said::Nothing && outcome.to_string().contains("not found in $PATH"),
        "{outcome}"
    );
    let asked = stage.execs.asked();
    let path = format!("/exec/{}/etcd-0/etcd?", stage.namespace);
    ensure!(
        asked.len() == 4
            && asked
                .iter()
                .all(|it| it.starts_with(&path) && it.contains("a%26b")),
        "{asked:?}"
    );
    Ok(())
}

async fn it_may_not_be_run(seed: &Seed) -> Result<()> {
    let stage = Stage::new(seed, "rights").await?;
    stage.execs.play("health", Play::Ends(0, String::new()));
    let runner = prober(seed, FeatureGates::default()).await?;
    let outcome = stage.runs(&runner).await;
    ensure!(
        outcome.said() == Said::Nothing && outcome.to_string().contains("cannot be listed"),
        "{outcome}"
    );
    for verb in ["get", "create"] {
        stage.grant(seed, verb).await?;
        let what = format!("the command to be refused with {verb} alone");
        wait::until(&what, async || {
            let outcome = stage.runs(&runner).await;
            let refused = outcome
                .to_string()
                .contains("grant get and create on pods/exec");
            seen(
                refused && outcome.said() == Said::Nothing,
                outcome.to_string(),
            )
        })
        .await?;
    }
    ensure!(stage.execs.asked().is_empty());
    stage.grant(seed, "get, create").await?;
    wait::until("the command to be run", async || {
        let outcome = stage.runs(&runner).await;
        seen(outcome == Outcome::Success, outcome.to_string())
    })
    .await
}

const GATE_OFF: &str = "--feature-gates=ExecProbeTimeout=false";

/// Of each command: its role as a check, and its timeout in seconds.
const HANGING: [(&str, u32); 2] = [("Gate", 3), ("Observe", 2)];

/// A Gate that hangs keeps a restore back, and a check that is observed is reported, each within its timeout; neither
/// with the gate off, and both at once when it is on again.
async fn e2e_a_command_that_hangs_counts_by_the_feature_gate(env: Env) -> Result<()> {
    let seed = env.own_seed("gates").await?;
    let shoot = staffed(env.shoot("gates").on(&seed)).await?;
    let execs = Execs::start(&seed.client()?, "node-gates").await?;
    let (namespace, labels) = (shoot.namespace(), json!({"app": "etcd"}));
    execs.pod(namespace, "etcd-0", "etcd", &labels).await?;
    execs.play("hangs", Play::Hangs);
    grant(&seed, namespace, "get, create").await?;
    let checks = HANGING.map(|(role, timeout)| {
        json!({
            "name": role.to_lowercase(), "role": role,
            "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": ["hangs"]},
            "periodSeconds": 1, "timeoutSeconds": timeout, "failureThreshold": 1,
        })
    });
    let policy = shoot.policy()?.with(&json!({"checks": checks}));
    policy.apply().await?;
    let both = async |result: CheckResult, text: fn(u32) -> String| {
        let is = |status: &ClusterHealthStatus, (role, timeout): (&str, u32)| {
            let mut checks = status.checks.iter();
            let check = checks.find(|it| it.name == role.to_lowercase());
            let message = |it: &str| it.contains(&text(timeout));
            check
                .is_some_and(|it| it.result == result && it.message.as_deref().is_some_and(message))
        };
        let what = format!("both checks to be {result:?}");
        let met = |status: &ClusterHealthStatus| HANGING.iter().all(|it| is(status, *it));
        shoot.reports(&what, met).await
    };
    let late = |timeout| format!("it had not ended after {timeout}s");

    let operator = Operator::start(&seed, "gate-on", "prober", &[])?;
    both(CheckResult::Failing, late).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    let held = "nothing is restored before each Gate passes, and the Gate gate";
    shoot
        .reports(held, |status| {
            let message = status.message.as_deref().unwrap_or_default();
            status.protection == Protection::Active && message.contains(held)
        })
        .await?;
    are(&shoot, COUNTS.map(taken)).await?;
    stop(&operator).await?;

    let operator = Operator::start(&seed, "gate-off", "prober", &[GATE_OFF])?;
    both(CheckResult::Passing, |_| "would have failed".to_owned()).await?;
    let events = "get events -A --field-selector reason=ExecTimeoutTolerated";
    let events: Vec<&str> = events.split(' ').collect();
    let told = HANGING.map(|(role, _)| format!("the command of check {}", role.to_lowercase()));
    let told = told.each_ref().map(|it| [it.as_str()]);
    shown(&seed, &events, &told.each_ref().map(|it| &it[..])).await?;
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await?;
    stop(&operator).await?;

    let _operator = Operator::start(&seed, "gate-on-again", "prober", &[])?;
    both(CheckResult::Failing, late).await?;
    Ok(())
}

async fn stop(operator: &Operator) -> Result<()> {
    let ended = operator.process.terminate(wait::LIMIT).await?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
