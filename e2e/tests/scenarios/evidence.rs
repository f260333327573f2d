//! What scenarios about evidence share: to show that nothing was scaled although the cluster was
//! judged, and what the operator makes of what it saw.

use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{self, ClusterHealthStatus, ProbePolicy};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Request, Shoot, ShootBuilder,
    wait::{self, seen},
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

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

/// What the operator makes of the leases as they are by now.
///
/// Counts and probe times alone are not worth a write to it, but the settings by which dependents
/// are restored are: with a timeout changed it writes all that it knows.
pub(super) async fn report(shoot: &Shoot) -> Result<ClusterHealthStatus> {
    let asked = Timestamp::now();
    let what = format!("leases of {} to be read twice", shoot.namespace());
    wait::until(&what, async || {
        // The second read starts once the first has been judged.
        let reads = reads_since(shoot, asked)?;
        seen(reads >= 2, format!("{reads} successful reads"))
    })
    .await?;

    // Another one at every call, and never shorter than it was.
    let timeout = format!("10s{}ms", asked.as_millisecond().rem_euclid(100_000));
    let changed: api::Duration = timeout.parse().map_err(anyhow::Error::msg)?;
    let path = "/spec/dependentResourceInfos/0/scaleUp/timeout";
    let change = json!([{"op": "replace", "path": path, "value": timeout}]);
    let policies: Api<ProbePolicy> = Api::all(shoot.control_plane.seed().client()?);
    policies
        .patch(
            shoot.namespace(),
            &PatchParams::default(),
            &Patch::Json::<()>(serde_json::from_value(change)?),
        )
        .await?;
    let what = format!("the state of {} by now", shoot.namespace());
    let status = shoot
        .reports(&what, |status| {
            let mut dependents = status.dependents.iter();
            dependents.any(|dependent| dependent.timeout.get() == changed.get())
        })
        .await?;
    let probed = status.last_probe_time.as_ref().context("never probed")?.0;
    // It is written in whole seconds.
    ensure!(
        probed > asked - SignedDuration::from_secs(1),
        "judged at {probed}, before {asked}: {status:?}"
    );
    Ok(status)
}

/// How often the leases have been read with success since then.
pub(super) fn reads_since(shoot: &Shoot, then: Timestamp) -> Result<usize> {
    let requests = shoot.probe_requests()?;
    let reads = requests.iter().filter(|request| {
        request.resource == "leases" && request.code == 200 && request.received > then
    });
    Ok(reads.count())
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
