//! A check that runs a command which never ends, through a real runtime.

use super::steps::{container_id, is_available, pods};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{CheckResult, ClusterHealth};
use dependency_watchdog_e2e::{
    node::{Cluster, RealShoot},
    wait::{self, Look, seen},
};
use jiff::Timestamp;
use kube::Api;
use serde_json::json;
use std::{collections::BTreeSet, fs, time::Duration};

const CHECK: &str = "never-ends";
const TIMEOUT: u64 = 2;
const PERIOD: u64 = 5;
/// So many runs show whether something grows with each. Further ones come ever more rarely.
const RUNS: u64 = 3;

/// It fails at its timeout, each time. The runtime does not end the command then, as docs/checks.md says: one
/// process of each run stays. Of a command with a limit of its own none does.
pub(super) async fn is_cut(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
    let kubectl = cluster.kubectl();
    kubectl.apply("manifests/examples/exec-checks").await?;
    let labels = "app=cluster-autoscaler";
    is_available(cluster, shoot.namespace, "cluster-autoscaler").await?;
    let found = pods(cluster, shoot.namespace, labels).await?;
    let pod = found.first().context("no pod to run commands in")?;
    let count = || anyhow::Ok(cluster.node.processes(container_id(pod)?)?.len());

    let before = count()?;
    let limited = json!(["timeout", "1", "yes"]);
    failing(cluster, shoot, &limited).await?;
    wait::until("the last limited run to end", async || {
        let left = cluster.node.processes(container_id(pod)?)?;
        seen(left.len() <= before, names(&left))
    })
    .await?;

    // It also writes without end.
    let message = failing(cluster, shoot, &json!(["yes"])).await?;
    let left = count()?.saturating_sub(before);
    kubectl
        .run(&["delete", "-k", "manifests/examples/exec-checks"])
        .await?;
    let runs = runs(cluster)?;
    ensure!(
        left <= usize::try_from(runs)?,
        "{left} processes are left of {runs} runs"
    );
    Ok(format!(
        "{RUNS} runs each: {message}; none is left of a command with a limit of its own, {left} of one without"
    ))
}

/// Has the check run this command often enough, until it fails, and takes it out of the policy again.
async fn failing(
    cluster: &Cluster,
    shoot: &RealShoot,
    command: &serde_json::Value,
) -> Result<String> {
    let checks = json!({"spec": {"checks": [{
        "name": CHECK,
        "periodSeconds": PERIOD,
        "timeoutSeconds": TIMEOUT,
        "exec": {
            "podSelector": {"matchLabels": {"app": "cluster-autoscaler"}},
            "command": command,
        },
    }]}});
    let begun = runs(cluster)?;
    patch(cluster, &checks.to_string()).await?;
    let health: Api<ClusterHealth> = Api::all(cluster.client()?);
    let limit = Duration::from_secs(PERIOD * RUNS * 6);
    let message = wait::until_within(limit, "enough runs of the check", async || {
        let runs = runs(cluster)?.saturating_sub(begun);
        let status = health
            .get(shoot.namespace)
            .await?
            .status
            .unwrap_or_default();
        let check = status.checks.into_iter().find(|it| it.name == CHECK);
        Ok(match check {
            Some(check) if check.result == CheckResult::Failing && runs >= RUNS => {
                Look::Met(check.message.unwrap_or_default())
            }
            other => Look::Not(format!("{runs} runs: {other:?}")),
        })
    })
    .await?;
    patch(cluster, r#"{"spec": {"checks": null}}"#).await?;
    Ok(message)
}

async fn patch(cluster: &Cluster, change: &str) -> Result<()> {
    let words = [
        "patch", "probepol", "shoots", "--type", "merge", "-p", change,
    ];
    cluster.kubectl().run(&words).await.map(|_| ())
}

/// How many commands the API server has taken. It tells of each when it begins, and when it ends.
fn runs(cluster: &Cluster) -> Result<u64> {
    let requests = cluster.prober_requests()?;
    let runs = requests
        .iter()
        .filter(|it| it.resource == "pods/exec" && it.code == 101);
    let begun: BTreeSet<Timestamp> = runs.map(|it| it.received).collect();
    Ok(begun.len().try_into()?)
}

fn names(processes: &[i32]) -> String {
    let name = |it: &i32| fs::read_to_string(format!("/proc/{it}/comm")).unwrap_or_default();
    processes
        .iter()
        .map(|it| name(it).trim().to_owned())
        .collect::<Vec<_>>()
        .join(", ")
}
