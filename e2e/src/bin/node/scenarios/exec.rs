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
/// So many runs show whether something grows with each.
const RUNS: u64 = 8;

/// It fails at its timeout, each time, and its container holds no more afterwards than of some runs.
pub(super) async fn is_cut(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
    let kubectl = cluster.kubectl();
    kubectl.apply("manifests/examples/exec-checks").await?;
    let labels = "app=cluster-autoscaler";
    is_available(cluster, shoot.namespace, "cluster-autoscaler").await?;
    let found = pods(cluster, shoot.namespace, labels).await?;
    let pod = found.first().context("no pod to run commands in")?;
    let before = cluster.node.processes(container_id(pod)?)?.len();
    let checks = json!({"spec": {"checks": [{
        "name": CHECK,
        "periodSeconds": PERIOD,
        "timeoutSeconds": TIMEOUT,
        "exec": {
            "podSelector": {"matchLabels": {"app": "cluster-autoscaler"}},
            // It also writes without end.
            "command": ["yes"],
        },
    }]}});
    kubectl
        .run(&[
            "patch",
            "pp",
            "shoots",
            "--type",
            "merge",
            "-p",
            &checks.to_string(),
        ])
        .await?;
    let health: Api<ClusterHealth> = Api::all(cluster.client()?);
    let mut most = 0;
    let limit = Duration::from_secs(PERIOD * RUNS * 3);
    let message = wait::until_within(limit, "enough runs of the check", async || {
        most = most.max(cluster.node.processes(container_id(pod)?)?.len());
        let runs = runs(cluster)?;
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
    // Out of the policy again: nothing is left of any run.
    let none = r#"{"spec": {"checks": null}}"#;
    kubectl
        .run(&["patch", "pp", "shoots", "--type", "merge", "-p", none])
        .await?;
    let left = wait::until("the last run to end", async || {
        let processes = cluster.node.processes(container_id(pod)?)?;
        seen(processes.len() <= before, names(&processes))
    })
    .await;
    kubectl
        .run(&["delete", "-k", "manifests/examples/exec-checks"])
        .await?;
    left?;
    ensure!(
        most <= before + 2,
        "{most} processes at the same time, {before} before"
    );
    Ok(format!(
        "{RUNS} runs: {message}; at most {} processes of it at the same time, none afterwards",
        most - before
    ))
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
