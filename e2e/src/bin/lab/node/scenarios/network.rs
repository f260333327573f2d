//! A shoot of real kubelets loses the way to its API server, on which packets are dropped.

use super::steps::{documented, documented_line, script, seconds};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::prober::step::MARK;
use dependency_watchdog_e2e::{
    DEPENDENTS, Request,
    node::{Cluster, GRACE, RealShoot},
    wait::{self, seen},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use std::time::Duration;
use tokio::sync::oneshot::Sender;

pub(super) const NAMESPACE: &str = "shoot--node--real";
/// After the grace, how much later kube-controller-manager would have marked the nodes at the latest: it
/// looks every 5 s.
const MARKED: Duration = Duration::from_secs(8);
/// Has the shoot probed by the policy of the guide.
pub(super) async fn is_probed(cluster: &Cluster, shoot: &RealShoot) -> Result<()> {
    let variables = shoot.variables();
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    cluster
        .kubectl()
        .script(script("SERVER=$(kubectl")?, &variables)
        .await?;
    documented(cluster, "kubectl apply -f docs/examples/probe-policy.yaml").await?;
    documented_line(cluster, "kubectl patch probepol shoots").await?;
    is_found(cluster, shoot, "Healthy").await
}

/// It is protected before its nodes are marked, and has all back when the way is free again: that is told,
/// since others need not wait until its marks have fallen.
pub(super) async fn is_cut(
    cluster: &Cluster,
    shoot: &RealShoot,
    is_restored: Sender<()>,
) -> Result<String> {
    let before = shoot.readiness().await?;
    let begun = writes(cluster)?.len();
    shoot.cut(true).await?;
    let last = newest(shoot).await?;
    replicas(cluster, 0).await?;
    // From here on nothing is told by the kubelets, so this is the last renewal for certain.
    let silent = newest(shoot).await?.max(last);
    let zero = since(silent)?;
    ensure!(zero < GRACE, "at zero {zero:?} after the last renewal");
    wait::until_within(2 * GRACE, "the grace to be over", async || {
        let past = since(silent)?;
        seen(past > GRACE + MARKED, format!("{past:?}"))
    })
    .await?;
    let during = shoot.readiness().await?;
    ensure!(before == during, "marked: {during:?}, {before:?} before");

    let back = Timestamp::now();
    shoot.cut(false).await?;
    renewed_after(shoot, back).await?;
    let heard = since(back)?;
    replicas(cluster, 1).await?;
    let restored = since(back)?;
    let after = shoot.readiness().await?;
    ensure!(before == after, "marked: {after:?}, {before:?} before");
    let _ = is_restored.send(());
    wait::until("the marks to fall", async || {
        let state = state(cluster).await?;
        seen(state == SETTLED, state)
    })
    .await?;
    // Scaled down, then up, and its mark fell.
    written(cluster, begun, 3)?;
    Ok(format!(
        "at zero {} after the last renewal, no node marked; the kubelets were heard {} after the network was \
         back, all was restored after {}",
        seconds(zero),
        seconds(heard),
        seconds(restored)
    ))
}

/// Waits until the leases of all nodes count, and the verdict on them is this one.
async fn is_found(cluster: &Cluster, shoot: &RealShoot, reason: &str) -> Result<()> {
    let path = "-o=jsonpath={.status.reason} {.status.leases.candidates}";
    let wanted = format!("{reason} {}", shoot.nodes.len());
    wait::until(&format!("{NAMESPACE} to be {wanted}"), async || {
        let found = cluster
            .kubectl()
            .run(&["get", "chealth", NAMESPACE, path])
            .await?;
        seen(found == wanted, found)
    })
    .await
}

/// How many replicas each dependent is to have, with a star if it is marked: `1 0* 0*`.
pub(super) async fn state(cluster: &Cluster) -> Result<String> {
    let api: Api<Deployment> = Api::namespaced(cluster.client()?, NAMESPACE);
    let mut state = Vec::new();
    for name in DEPENDENTS {
        let dependent = api.get(name).await?;
        let replicas = dependent.spec.as_ref().and_then(|it| it.replicas);
        let star = match dependent.annotations().contains_key(MARK) {
            true => "*",
            false => "",
        };
        state.push(format!("{}{star}", replicas.unwrap_or(1)));
    }
    Ok(state.join(" "))
}

/// Waits until all dependents are to have so many replicas.
pub(super) async fn replicas(cluster: &Cluster, wanted: i32) -> Result<()> {
    wait::until(&format!("all dependents at {wanted}"), async || {
        let state = state(cluster).await?;
        let wanted = wanted.to_string();
        let all = state
            .split(' ')
            .all(|it| it.trim_end_matches('*') == wanted);
        seen(all, state)
    })
    .await
}

/// All have their replicas, and no mark.
pub(super) const SETTLED: &str = "1 1 1";

/// What the prober has written to dependents and had accepted.
pub(super) fn writes(cluster: &Cluster) -> Result<Vec<Request>> {
    let mut requests = cluster.prober_requests()?;
    requests.retain(|it| it.is_write() && it.resource.starts_with("deployments") && it.code < 300);
    Ok(requests)
}

/// Fails unless each dependent was written so often, after so many writes.
pub(super) fn written(cluster: &Cluster, after: usize, times: usize) -> Result<()> {
    let writes = writes(cluster)?;
    let writes = writes.get(after..).unwrap_or_default();
    for name in DEPENDENTS {
        let of: Vec<_> = writes.iter().filter(|it| it.name == name).collect();
        ensure!(
            of.len() == times,
            "{name} was written {} times: {of:?}",
            of.len()
        );
    }
    Ok(())
}

/// When a kubelet renewed last.
pub(super) async fn newest(shoot: &RealShoot) -> Result<Timestamp> {
    shoot
        .renewals()
        .await?
        .into_iter()
        .max()
        .context("no nodes")
}

async fn renewed_after(shoot: &RealShoot, moment: Timestamp) -> Result<()> {
    wait::until("all kubelets to renew", async || {
        let renewals = shoot.renewals().await?;
        seen(
            renewals.iter().all(|it| *it > moment),
            format!("{renewals:?}"),
        )
    })
    .await
}

/// How long ago that was.
pub(super) fn since(moment: Timestamp) -> Result<Duration> {
    Ok(Duration::try_from(Timestamp::now().duration_since(moment))?)
}
