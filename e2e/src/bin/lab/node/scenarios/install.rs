//! What is installed as docs/install.md says, where Pod Security is restricted, and uninstalled.

use super::{
    network::{SETTLED, state},
    steps::{
        GARDEN, PROBER, WEEDER, container, container_id, documented, is_available, pods_of, seconds,
    },
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    node::Cluster,
    wait::{self, seen},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::EvictParams};
use std::{fs, time::Instant};

const OURS: &str = "app.kubernetes.io/name=dependency-watchdog";
/// The kinds that are installed.
const KINDS: &str = "clusterrolebindings,clusterroles,customresourcedefinitions,deployments,flowschemas,\
    networkpolicies,poddisruptionbudgets,priorityclasses,rolebindings,roles,serviceaccounts,services,pods";

/// What is shipped runs as it says.
pub(super) async fn restricted(cluster: &Cluster) -> Result<String> {
    cluster
        .apply(
            "{apiVersion: v1, kind: Namespace, metadata: {name: garden, \
             labels: {pod-security.kubernetes.io/enforce: restricted}}}",
        )
        .await?;
    let begun = Instant::now();
    documented(cluster, "kubectl apply --server-side -k manifests\n").await?;
    let took = begun.elapsed();
    for component in [PROBER, WEEDER] {
        is_available(cluster, GARDEN, component).await?;
    }
    runs(cluster).await?;
    evicts_one_at_a_time(cluster).await?;
    Ok(format!(
        "both components ready {} after the first command",
        seconds(took)
    ))
}

/// All that is installed runs, as it should.
pub(super) async fn runs(cluster: &Cluster) -> Result<()> {
    for component in [PROBER, WEEDER] {
        let pods = pods_of(cluster, component).await?;
        ensure!(pods.len() == 2, "{} pods of {component}", pods.len());
        for pod in &pods {
            runs_confined(cluster, pod)?;
            answers(cluster, pod).await?;
        }
    }
    Ok(())
}

/// Its process has no more than the manifests give it.
fn runs_confined(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let name = pod.name_any();
    ensure!(container(pod)?.restart_count == 0, "{name} was restarted");
    let processes = cluster.node.processes(container_id(pod)?)?;
    let [process] = processes[..] else {
        anyhow::bail!("{name} has these processes: {processes:?}");
    };
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|it| it.strip_prefix(&format!("{name}:")));
        line.unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (name, expected) in [
        ("Uid", "65532 65532 65532 65532"),
        ("Gid", "65532 65532 65532 65532"),
        ("NoNewPrivs", "1"),
        // A filter: of the runtime's default.
        ("Seccomp", "2"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
    ] {
        ensure!(
            field(name) == expected,
            "{name} of {process} is {:?}, not {expected}",
            field(name)
        );
    }
    let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo"))?;
    let mut root = mounts.lines().map(|it| it.split(' ').collect::<Vec<_>>());
    let root = root.find(|it| it.get(4) == Some(&"/")).context("no root")?;
    let options = root.get(5).copied().unwrap_or_default();
    ensure!(
        options.split(',').any(|it| it == "ro"),
        "the root of {process} is {options}"
    );
    Ok(())
}

/// Its log, its metrics and a command in it are had through the API server.
async fn answers(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let (kubectl, name) = (cluster.kubectl(), pod.name_any());
    let log = kubectl.run(&["-n", GARDEN, "logs", &name]).await?;
    ensure!(
        log.contains("dependency-watchdog") || log.contains("dependency_watchdog"),
        "the log of {name}: {log}"
    );
    let metrics = format!("/api/v1/namespaces/{GARDEN}/pods/{name}:9643/proxy/metrics");
    let metrics = kubectl.run(&["get", "--raw", &metrics]).await?;
    ensure!(
        metrics.contains("dependency_watchdog_"),
        "the metrics of {name}: {metrics}"
    );
    let version = [
        "-n",
        GARDEN,
        "exec",
        &name,
        "--",
        "/usr/local/bin/dependency-watchdog",
        "--version",
    ];
    let version = kubectl.run(&version).await?;
    ensure!(version.starts_with("dependency-watchdog "), "{version}");
    Ok(())
}

/// The second pod stays until another has come for the first.
async fn evicts_one_at_a_time(cluster: &Cluster) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client()?, GARDEN);
    let budgets = async || {
        let path = "-o=jsonpath={.items[*].status.disruptionsAllowed}";
        cluster
            .kubectl()
            .run(&["-n", GARDEN, "get", "pdb", "-l", OURS, path])
            .await
    };
    wait::until("the budgets to know their pods", async || {
        let allowed = budgets().await?;
        seen(allowed == "1 1", allowed)
    })
    .await?;
    let pods = pods_of(cluster, WEEDER).await?;
    let [first, second] = &pods[..] else {
        anyhow::bail!("not two pods");
    };
    api.evict(&first.name_any(), &EvictParams::default())
        .await?;
    match api.evict(&second.name_any(), &EvictParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 429 => {}
        other => anyhow::bail!("the second pod was evicted at the same time: {other:?}"),
    }
    is_available(cluster, GARDEN, WEEDER).await?;
    ensure!(
        api.get_opt(&second.name_any()).await?.is_some(),
        "the second pod is gone"
    );
    Ok(())
}

/// By the commands of the guide nothing is left, and nothing of the shoot at zero. Its policy waits until all
/// is given back that there still is to give back.
pub(super) async fn uninstalled(cluster: &Cluster, shoot: bool) -> Result<String> {
    let begun = Instant::now();
    let before = if shoot {
        format!(", of a shoot at {},", state(cluster).await?)
    } else {
        String::new()
    };
    documented(cluster, "kubectl delete probepol --all\n").await?;
    let took = begun.elapsed();
    if shoot {
        let after = state(cluster).await?;
        ensure!(after == SETTLED, "left at {after}");
    }
    documented(cluster, "kubectl delete -k manifests\n").await?;
    nothing_is_left(cluster).await?;
    Ok(format!(
        "no object, no pod, no Lease, nothing at zero; the policy{before} was gone after {}",
        seconds(took)
    ))
}

pub(super) async fn nothing_is_left(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.kubectl();
    wait::until("nothing to be left", async || {
        let left = kubectl
            .run(&["get", KINDS, "-A", "-l", OURS, "-o", "name"])
            .await?;
        let leases = kubectl
            .run(&["-n", GARDEN, "get", "leases,pods", "-o", "name"])
            .await?;
        seen(
            left.is_empty() && leases.is_empty(),
            format!("{left}{leases}"),
        )
    })
    .await
}
