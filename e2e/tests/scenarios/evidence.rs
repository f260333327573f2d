//! What scenarios about evidence share: to show that nothing was scaled although the cluster was
//! judged, and what the operator makes of what it saw.

use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::ClusterHealthStatus;
use dependency_watchdog_e2e::{DEPENDENTS, Env, Request, Shoot, ShootBuilder};

/// A shoot of so many nodes with the dependents of its policy, which is not applied yet.
pub(super) fn shoot(env: &Env, name: &str, nodes: usize) -> ShootBuilder {
    env.shoot(name).nodes(nodes).dependents(DEPENDENTS)
}

/// Applies the shoot's policy and waits until the cluster is found healthy.
pub(super) async fn watch(shoot: &Shoot) -> Result<ClusterHealthStatus> {
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await
}

/// What the operator has written to dependents of this shoot so far, refused or not.
pub(super) fn writes(shoot: &Shoot) -> Result<Vec<Request>> {
    let mut requests = shoot.control_plane.seed().operator_requests()?;
    requests.retain(|request| {
        request.is_write()
            && request.resource.starts_with("deployments")
            && request.namespace == shoot.namespace()
    });
    Ok(requests)
}

/// Fails if the operator has ever written to a dependent of this shoot.
pub(super) fn nothing_was_written(shoot: &Shoot) -> Result<()> {
    let writes = writes(shoot)?;
    ensure!(writes.is_empty(), "dependents were written: {writes:?}");
    Ok(())
}

/// Fails unless the status has this reason, these counts of leases (candidates, expired, unknown),
/// and a message with each of these.
pub(super) fn says(
    status: &ClusterHealthStatus,
    reason: &str,
    counts: (i32, i32, i32),
    words: &[&str],
) -> Result<()> {
    ensure!(status.reason.as_deref() == Some(reason), "{status:?}");
    let leases = status.leases.context("no leases are reported")?;
    let found = (leases.candidates, leases.expired, leases.unknown);
    ensure!(
        found == counts,
        "{found:?} instead of {counts:?}: {status:?}"
    );
    tells(status, words)
}

/// Fails unless the message has each of these.
pub(super) fn tells(status: &ClusterHealthStatus, words: &[&str]) -> Result<()> {
    let message = status.message.as_deref().unwrap_or_default();
    for word in words {
        ensure!(message.contains(word), "{message:?} lacks {word:?}");
    }
    Ok(())
}
