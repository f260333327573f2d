//! The rights to run commands in pods: not installed, missed on the policy that has such a check, and
//! granted as the guide says, everywhere or in a namespace.

use super::{PROBER, Scenario, apply, is_granted, section, staffed, without};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    Env, Operator, Policy, Seed,
    wait::{self, seen},
};
use serde_json::json;
use std::collections::BTreeSet;

pub(super) const ROLE: &str = include_str!("../../../../manifests/examples/exec-checks/rbac.yaml");
const EXAMPLE: &str = "manifests/examples/exec-checks";
/// By resource and verb, as they are told.
const RIGHTS: [(&str, &str); 3] = [
    ("pods", "list"),
    ("pods/exec", "create"),
    ("pods/exec", "get"),
];

pub(super) fn all() -> Vec<Scenario> {
    super::super::scenarios![e2e_commands_in_pods_need_rights_of_their_own]
}

/// Resource and verb of each.
pub(super) fn tried() -> BTreeSet<(&'static str, &'static str)> {
    RIGHTS.into()
}

async fn e2e_commands_in_pods_need_rights_of_their_own(env: Env) -> Result<()> {
    let seed = env.own_seed("exec-rights").await?;
    let shoot = staffed(env.shoot("exec-rights").on(&seed)).await?;
    let (client, namespace) = (seed.client()?, shoot.namespace());
    let _operator = Operator::start(&seed, "prober", "prober", &[])?;
    // Whoever changes the policy gets an answer.
    let policy = |period: u32| -> Result<Policy> {
        let check = json!({
            "name": "etcd",
            "exec": {"podSelector": {"matchLabels": {"role": "main"}}, "command": ["true"]},
            "initialDelaySeconds": 3600,
            "periodSeconds": period,
        });
        Ok(shoot.policy()?.with(&json!({"checks": [check]})))
    };
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.policy()?.says("Degraded", "AsExpected").await?;

    policy(1)?.apply().await?;
    let all = RIGHTS.map(|(resource, verb)| format!("{verb} {resource} in {namespace}"));
    lacks(&policy(1)?, &all).await?;

    seed.kubectl().apply(EXAMPLE).await?;
    for (place, (resource, verb)) in (0..).zip(RIGHTS) {
        let right = (ROLE, resource, verb);
        is_granted(&client, PROBER, right, true).await?;
        policy(10 + place)?.apply().await?;
        policy(10 + place)?.says("Degraded", "AsExpected").await?;
        apply(&client, &without(ROLE, resource, verb)?).await?;
        is_granted(&client, PROBER, right, false).await?;
        policy(20 + place)?.apply().await?;
        lacks(
            &policy(20 + place)?,
            &[format!("{verb} {resource} in {namespace}")],
        )
        .await?;
        apply(&client, ROLE).await?;
    }

    // In the namespaces of some control planes only.
    let binding = "delete clusterrolebinding dwd-prober-exec-checks";
    seed.kubectl().run(&words(binding, namespace)).await?;
    is_granted(&client, PROBER, (ROLE, "pods", "list"), false).await?;
    granted_as_documented(&seed, namespace).await?;
    policy(30)?.apply().await?;
    policy(30)?.says("Degraded", "AsExpected").await?;
    Ok(())
}

/// Waits until the policy tells that these rights are missing, and no others of pods.
async fn lacks(policy: &Policy, rights: &[String]) -> Result<()> {
    wait::until(&format!("the policy to miss {rights:?}"), async || {
        let message = policy.says("Degraded", "RightsMissing").await?;
        let told = rights.iter().all(|right| message.contains(right));
        let others = message.matches(" pods").count() > rights.len();
        seen(told && !others && message.contains("exec-checks"), message)
    })
    .await
}

/// Runs the command of the guide in this namespace, and waits until it has come into force.
async fn granted_as_documented(seed: &Seed, namespace: &str) -> Result<()> {
    let guide = section("### Checks that run commands")?;
    let script = guide.split_once("```sh\n").context("no command")?.1;
    let (script, _) = script.split_once("```").context("no end")?;
    let script = script.replace("\\\n", " ");
    let command = script
        .trim()
        .strip_prefix("kubectl")
        .context("no kubectl")?;
    ensure!(command.contains("<namespace>"), "{command}");
    seed.kubectl().run(&words(command, namespace)).await?;
    let question =
        format!("auth can-i create pods --subresource=exec --as {PROBER} -n <namespace>");
    wait::until("the right to be granted", async || {
        let answer = seed.kubectl().run(&words(&question, namespace)).await;
        seen(answer.is_ok(), format!("{answer:?}"))
    })
    .await
}

/// The words of a command, in this namespace.
fn words<'a>(command: &'a str, namespace: &'a str) -> Vec<&'a str> {
    let words = command.split_whitespace();
    let named = words.map(|word| match word {
        "<namespace>" => namespace,
        word => word,
    });
    named.collect()
}
