//! What several scenarios do and look at.

use anyhow::{Context as _, Result};
use dependency_watchdog_e2e::{
    node::Cluster,
    scripts,
    wait::{self, seen},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod},
};
use kube::{Api, ResourceExt as _, api::ListParams};
use std::time::Duration;

/// Where the operator is installed.
pub(super) const GARDEN: &str = "garden";
pub(super) const PROBER: &str = "dwd-prober";
pub(super) const WEEDER: &str = "dwd-weeder";
/// The guide to an installation, and what follows it.
const GUIDE: [&str; 2] = [
    include_str!("../../../../../../docs/install.md"),
    include_str!("../../../../../../docs/first-policy.md"),
];

/// The commands of the guide in which this word occurs, as they stand together.
pub(super) fn script(word: &str) -> Result<&'static str> {
    let mut all = GUIDE.iter().flat_map(|page| scripts(page));
    all.find(|script| script.contains(word)).with_context(|| {
        format!("docs/install.md and first-policy.md have no commands with {word}")
    })
}

/// Runs one command of the guide, the line that begins with these words.
pub(super) async fn documented_line(cluster: &Cluster, words: &str) -> Result<String> {
    let line = script(words)?.lines().find(|it| it.starts_with(words));
    let line = line.with_context(|| format!("no line begins with {words}"))?;
    cluster.kubectl().script(line, &[]).await
}

/// Runs the commands of the guide in which this word occurs, as they stand there.
pub(super) async fn documented(cluster: &Cluster, word: &str) -> Result<String> {
    let run = cluster.kubectl().script(script(word)?, &[]);
    let ended = tokio::time::timeout(wait::LIMIT, run).await;
    ended.with_context(|| format!("the commands with {word} of the guide did not end"))?
}

/// Waits until all replicas of a Deployment are of the newest kind and available.
pub(super) async fn is_available(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(cluster.client()?, namespace);
    wait::until(&format!("{namespace}/{name} to be available"), async || {
        let deployment = api.get(name).await?;
        let wanted = deployment.spec.and_then(|it| it.replicas);
        let status = deployment.status.unwrap_or_default();
        let all = [
            status.replicas,
            status.updated_replicas,
            status.available_replicas,
        ];
        seen(
            all.iter().all(|it| *it == wanted),
            format!("{all:?} of {wanted:?}"),
        )
    })
    .await
}

/// The pods with these labels that are not being deleted.
pub(super) async fn pods(cluster: &Cluster, namespace: &str, labels: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client()?, namespace);
    let mut pods = api.list(&ListParams::default().labels(labels)).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

/// The pods of a component that is installed.
pub(super) async fn pods_of(cluster: &Cluster, component: &str) -> Result<Vec<Pod>> {
    let component = component.trim_start_matches("dwd-");
    pods(
        cluster,
        GARDEN,
        &format!("app.kubernetes.io/component={component}"),
    )
    .await
}

/// What is told of a pod's only container.
pub(super) fn container(pod: &Pod) -> Result<&ContainerStatus> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|it| it.container_statuses.as_ref());
    let status = statuses.and_then(|it| it.first());
    status.with_context(|| format!("{} has no status of its container", pod.name_any()))
}

/// The id of a pod's only container, as its runtime knows it.
pub(super) fn container_id(pod: &Pod) -> Result<&str> {
    let id = container(pod)?.container_id.as_deref().unwrap_or_default();
    let (_, id) = id
        .split_once("://")
        .with_context(|| format!("{} has no container", pod.name_any()))?;
    Ok(id)
}

/// Seconds with a digit behind the point.
pub(super) fn seconds(of: Duration) -> String {
    format!("{:.1} s", of.as_secs_f64())
}
