//! A shoot of real kubelets loses the way to its API server, on which packets are dropped.

use super::steps::{PROBER, leader, lease, script, seconds};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::prober::plan::MARK;
use dependency_watchdog_e2e::{
    DEPENDENTS, Request,
    node::{Cluster, GRACE, RealShoot},
    wait::{self, seen},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _};
use std::time::Duration;

const NAMESPACE: &str = "shoot--node--real";
/// After the grace, how much later kube-controller-manager would have marked the nodes at the latest: it
/// looks every 5 s.
const MARKED: Duration = Duration::from_secs(8);
/// How long a kubelet may be silent whose connections have died.
const SILENT: Duration = Duration::from_secs(120);

/// Starts the shoot, and has it probed by the policy of the guide.
pub(super) async fn shoot(cluster: &Cluster) -> Result<RealShoot> {
    let shoot = RealShoot::start(cluster, NAMESPACE).await?;
    let variables = shoot.variables();
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    cluster
        .kubectl()
        .script(script("SERVER=$(kubectl")?, &variables)
        .await?;
    for word in [
        "kubectl apply -f docs/examples/probe-policy.yaml",
        "kubectl patch probepol shoots",
    ] {
        cluster.kubectl().script(script(word)?, &[]).await?;
    }
    is_found(cluster, &shoot, "Healthy").await?;
    Ok(shoot)
}

/// It is protected before its nodes are marked, and has all back when the way is free again.
pub(super) async fn is_cut(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
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
    settled(cluster).await?;
    once(writes(cluster)?.get(begun..).unwrap_or_default())?;
    Ok(format!(
        "at zero {} after the last renewal, no node marked; the kubelets were heard {} after the network was \
         back, all was restored after {}",
        seconds(zero),
        seconds(heard),
        seconds(restored)
    ))
}

/// Their connections die without a word, new ones can be made: how long the kubelets are silent. If that is
/// longer than the leases take to expire, the shoot is protected for that time.
pub(super) async fn connections_die(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
    let before = shoot.readiness().await?;
    let begun = writes(cluster)?.len();
    let mut cut = Vec::new();
    for node in &shoot.nodes {
        let ports = node.ports_to(&shoot.server()).await?;
        ensure!(!ports.is_empty(), "{} is not connected", node.name);
        node.cut_ports(&ports, true).await?;
        cut.push(ports);
    }
    let last = shoot.renewals().await?;
    let mut gaps: Vec<Duration> = Vec::new();
    let renewed = wait::until_within(
        SILENT,
        "all kubelets to renew over other connections",
        async || {
            let now = shoot.renewals().await?;
            let pairs = last.iter().zip(&now).zip(0..);
            for ((then, now), place) in pairs {
                let gap = between(*then, *now)?;
                match gaps.get_mut(place) {
                    // The first renewal after the silence, not the newest.
                    Some(known) if known.is_zero() => *known = gap,
                    Some(_) => {}
                    None => gaps.push(gap),
                }
            }
            seen(gaps.iter().all(|it| !it.is_zero()), format!("{gaps:?}"))
        },
    )
    .await;
    for (node, ports) in shoot.nodes.iter().zip(&cut) {
        node.cut_ports(ports, false).await?;
    }
    renewed?;
    settled(cluster).await?;
    let after = shoot.readiness().await?;
    ensure!(before == after, "marked: {after:?}, {before:?} before");
    let scaled = match writes(cluster)?.len() - begun {
        0 => "nothing was scaled",
        _ => "scaled down meanwhile, and restored",
    };
    let gaps: Vec<String> = gaps.into_iter().map(seconds).collect();
    Ok(format!(
        "from the last renewal over a dead connection to the next one {}; {scaled}",
        gaps.join(" and ")
    ))
}

/// In an outage the pod that leads is deleted while its kubelet stands still, so that its container goes
/// on: the other one acts, and nothing is done twice.
pub(super) async fn leader_is_deleted(cluster: &Cluster, shoot: &RealShoot) -> Result<String> {
    let begun = writes(cluster)?.len();
    let old = leader(cluster, PROBER).await?;
    let before = lease(cluster, PROBER).await?.holder_identity;
    shoot.cut(true).await?;
    let deleted = Timestamp::now();
    cluster.node.kubelet.pause()?;
    let name = old.name_any();
    let delete = [
        "-n",
        "garden",
        "delete",
        "pod",
        &name,
        "--force",
        "--grace-period=0",
    ];
    let told = cluster.kubectl().run(&delete).await;
    let led = wait::until("another prober to lead", async || {
        let now = lease(cluster, PROBER).await?.holder_identity;
        let other = now != before && now.as_ref().is_some_and(|it| !it.is_empty());
        seen(other, format!("{now:?}"))
    })
    .await;
    cluster.node.kubelet.resume()?;
    told?;
    led?;
    let led = since(deleted)?;
    replicas(cluster, 0).await?;
    let zero = since(newest(shoot).await?)?;
    shoot.cut(false).await?;
    replicas(cluster, 1).await?;
    settled(cluster).await?;
    once(writes(cluster)?.get(begun..).unwrap_or_default())?;
    Ok(format!(
        "another led after {}, at zero {} after the last renewal, each dependent scaled once each way",
        seconds(led),
        seconds(zero)
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

/// Waits until all dependents are to have so many replicas.
async fn replicas(cluster: &Cluster, wanted: i32) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(cluster.client()?, NAMESPACE);
    wait::until(&format!("all dependents at {wanted}"), async || {
        let mut found = Vec::new();
        for name in DEPENDENTS {
            found.push(api.get(name).await?.spec.and_then(|it| it.replicas));
        }
        seen(
            found.iter().all(|it| *it == Some(wanted)),
            format!("{found:?}"),
        )
    })
    .await
}

/// Waits until all dependents have their replicas, and no mark any more.
async fn settled(cluster: &Cluster) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(cluster.client()?, NAMESPACE);
    wait::until("nothing to be scaled or marked", async || {
        let mut open = Vec::new();
        for name in DEPENDENTS {
            let dependent = api.get(name).await?;
            let replicas = dependent.spec.as_ref().and_then(|it| it.replicas);
            if replicas != Some(1) || dependent.annotations().contains_key(MARK) {
                open.push(name);
            }
        }
        seen(open.is_empty(), open.join(", "))
    })
    .await
}

/// What the prober has written to dependents and had accepted.
fn writes(cluster: &Cluster) -> Result<Vec<Request>> {
    let mut requests = cluster.prober_requests()?;
    requests.retain(|it| it.is_write() && it.resource.starts_with("deployments") && it.code < 300);
    Ok(requests)
}

/// Fails unless each dependent was written three times: it was scaled down, then up, and its mark fell.
fn once(writes: &[Request]) -> Result<()> {
    for name in DEPENDENTS {
        let of: Vec<_> = writes.iter().filter(|it| it.name == name).collect();
        ensure!(
            of.len() == 3,
            "{name} was written {} times: {of:?}",
            of.len()
        );
    }
    Ok(())
}

async fn newest(shoot: &RealShoot) -> Result<Timestamp> {
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

fn since(moment: Timestamp) -> Result<Duration> {
    between(moment, Timestamp::now())
}

fn between(from: Timestamp, to: Timestamp) -> Result<Duration> {
    Ok(Duration::try_from(to.duration_since(from))?)
}
