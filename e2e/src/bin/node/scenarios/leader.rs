//! The prober that leads is deleted, dies and stands still, in one outage: each time the other acts, and
//! nothing is done twice.

use super::{
    network::{newest, replicas, since, writes, written},
    steps::{GARDEN, PROBER, container_id, is_available, leader, lease, seconds},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    node::{Cluster, RealShoot},
    wait::{self, seen},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Another scales down, another one is killed meanwhile, another one restores.
pub(super) async fn is_followed(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
    let begun = writes(cluster)?.len();
    shoot.cut(true).await?;
    let deleted = is_deleted(cluster).await?;
    replicas(cluster, 0).await?;
    let zero = since(newest(shoot).await?)?;
    is_available(cluster, GARDEN, PROBER).await?;

    let killed = is_killed(cluster).await?;
    is_available(cluster, GARDEN, PROBER).await?;

    let second = leader(cluster, PROBER).await?;
    let container = container_id(&second)?;
    let since = Instant::now();
    cluster.node.freeze(container, true)?;
    let found = async {
        let frozen = another_leads(cluster, since).await?;
        is_unready(cluster, &second).await?;
        anyhow::Ok((frozen, since.elapsed()))
    };
    let found = found.await;
    // It comes back just when there is something to do again.
    shoot.cut(false).await?;
    cluster.node.freeze(container, false)?;
    let (frozen, unready) = found?;
    replicas(cluster, 1).await?;
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
    // Down and up.
    written(cluster, begun, 2)?;
    Ok(format!(
        "another led {} after the pod was deleted whose kubelet stood still, {} after SIGKILL, {} after its cgroup was \
         frozen, which its probe showed after {}; at zero {} after the last renewal, each dependent scaled once each way",
        seconds(deleted),
        seconds(killed),
        seconds(frozen),
        seconds(unready),
        seconds(zero)
    ))
}

/// Its pod is deleted while its kubelet stands still, so its container goes on.
async fn is_deleted(cluster: &Cluster) -> Result<Duration> {
    let name = leader(cluster, PROBER).await?.name_any();
    let delete = [
        "-n",
        GARDEN,
        "delete",
        "pod",
        &name,
        "--force",
        "--grace-period=0",
    ];
    let begun = Instant::now();
    cluster.node.kubelet.pause()?;
    let told = cluster.kubectl().run(&delete).await;
    let led = another_leads(cluster, begun).await;
    cluster.node.kubelet.resume()?;
    told?;
    led
}

async fn is_killed(cluster: &Cluster) -> Result<Duration> {
    let pod = leader(cluster, PROBER).await?;
    let begun = Instant::now();
    for process in cluster.node.processes(container_id(&pod)?)? {
        let process = Pid::from_raw(process).context("no process")?;
        kill_process(process, Signal::KILL)?;
    }
    another_leads(cluster, begun).await
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

/// Waits until its kubelet has found it not ready.
async fn is_unready(cluster: &Cluster, pod: &Pod) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client()?, GARDEN);
    wait::until("the frozen pod not to be ready", async || {
        let status = api.get(&pod.name_any()).await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|it| it.type_ == "Ready");
        seen(
            ready.is_some_and(|it| it.status == "False"),
            format!("{ready:?}"),
        )
    })
    .await
}
