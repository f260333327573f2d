//! The prober that leads dies or stands still: the other acts.

use super::steps::{GARDEN, PROBER, container_id, is_available, leader, lease, seconds};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    node::Cluster,
    wait::{self, seen},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Its container is killed, then that of the next is frozen.
pub(super) async fn is_followed(cluster: &Cluster) -> Result<String> {
    let first = leader(cluster, PROBER).await?;
    let begun = Instant::now();
    for process in cluster.node.processes(container_id(&first)?)? {
        let process = Pid::from_raw(process).context("no process")?;
        kill_process(process, Signal::KILL)?;
    }
    let killed = another_leads(cluster, begun).await?;
    is_available(cluster, GARDEN, PROBER).await?;

    let second = leader(cluster, PROBER).await?;
    let container = container_id(&second)?;
    let begun = Instant::now();
    cluster.node.freeze(container, true)?;
    let frozen = another_leads(cluster, begun).await;
    cluster.node.freeze(container, false)?;
    let frozen = frozen?;
    // It finds out that it does not lead, or its kubelet restarts it; neither takes the Lease back.
    is_available(cluster, GARDEN, PROBER).await?;
    let third = leader(cluster, PROBER).await?;
    ensure!(
        third.name_any() != second.name_any(),
        "the frozen one leads again"
    );
    let api: Api<Pod> = Api::namespaced(cluster.client()?, GARDEN);
    ensure!(
        api.get_opt(&second.name_any()).await?.is_some(),
        "the frozen pod is gone"
    );
    Ok(format!(
        "another led {} after SIGKILL, {} after it was frozen",
        seconds(killed),
        seconds(frozen)
    ))
}

/// How long after the beginning another process holds the Lease: maybe of the same pod, which was
/// restarted.
async fn another_leads(cluster: &Cluster, begun: Instant) -> Result<Duration> {
    let before = lease(cluster, PROBER).await?.holder_identity;
    wait::until("another prober to lead", async || {
        let now = lease(cluster, PROBER).await?.holder_identity;
        let holder = now.clone().unwrap_or_default();
        seen(now != before && !holder.is_empty(), holder)
    })
    .await?;
    Ok(begun.elapsed())
}
