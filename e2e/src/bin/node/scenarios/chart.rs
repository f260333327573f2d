//! The chart, by Helm, where Pod Security is restricted.

use super::{
    install::{nothing_is_left, runs},
    steps::{GARDEN, PROBER, WEEDER, is_available, seconds},
};
use anyhow::Result;
use dependency_watchdog_e2e::node::Cluster;
use std::time::Instant;

const CHART: &str = "charts/dependency-watchdog";

/// It installs what runs, and leaves only what it says that it keeps.
pub(super) async fn restricted(cluster: &Cluster) -> Result<String> {
    let helm = cluster.helm()?;
    let begun = Instant::now();
    helm.run(&[
        "install",
        "watchdog",
        CHART,
        "--namespace",
        GARDEN,
        "--wait",
        "--timeout",
        "3m",
    ])
    .await?;
    let took = begun.elapsed();
    for component in [PROBER, WEEDER] {
        is_available(cluster, GARDEN, component).await?;
    }
    runs(cluster).await?;
    helm.run(&["uninstall", "watchdog", "--namespace", GARDEN, "--wait"])
        .await?;
    let kubectl = cluster.kubectl();
    // Kept, so that no policy goes with the chart.
    kubectl
        .run(&["delete", "--ignore-not-found", "-f", "crds"])
        .await?;
    kubectl
        .run(&["-n", GARDEN, "delete", "leases", "--all"])
        .await?;
    nothing_is_left(cluster).await?;
    Ok(format!("helm install --wait took {}", seconds(took)))
}
