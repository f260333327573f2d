//! What people did to dependents counts.

use super::{
    Scenario,
    prober::{patched, watched},
    steps::{
        CA, KCM, MCM, are, back, becomes, is, is_degraded, is_looked_at, is_sound, owed, plain,
        recorded, requests, says, staffed, taken, writes,
    },
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterHealthStatus, Protection},
    prober::step::{IGNORE, RECORD},
};
use dependency_watchdog_e2e::{Env, Shoot};
use serde_json::json;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_what_a_human_put_to_zero_stays_there,
        e2e_ignore_scaling_takes_a_dependent_out_of_our_hands,
    ]
}

async fn e2e_what_a_human_put_to_zero_stays_there(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("by-hand")).await?;
    shoot.policy()?.apply().await?;
    // The last that a healthy cluster has looked at: from now on until the outage, and for a
    // minute, nothing is.
    wait_for_a_look(&shoot, KCM).await?;
    shoot.dependent(MCM).scale(0).await?;
    // As Gardener's tool leaves it everywhere.
    let left_behind = json!({"metadata": {"annotations": {RECORD: "4"}}});
    shoot.dependent(CA).patch(left_behind).await?;
    shoot.dependent(CA).scale(0).await?;

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(owed(&status) == [KCM], "{status:?}");
    says(&status, &["2 are an outage", "scaled to zero", KCM])?;
    are(&shoot, [taken(2), plain(0), recorded(0, "4")]).await?;

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    are(&shoot, [back(2), plain(0), recorded(0, "4")]).await?;
    ensure!(patched(&shoot)? == [KCM, KCM], "{:?}", patched(&shoot)?);
    Ok(())
}

/// Waits until the operator has read the dependent of this name once.
async fn wait_for_a_look(shoot: &Shoot, name: &str) -> Result<()> {
    if requests(shoot)?.iter().any(|request| request.name == name) {
        return Ok(());
    }
    is_looked_at(shoot, name, 1).await
}

async fn e2e_ignore_scaling_takes_a_dependent_out_of_our_hands(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "hands-off", 3).await?;
    shoot.is_found("Healthy").await?;
    ignore(&shoot, MCM, "T").await?;
    ignore(&shoot, CA, "0").await?;
    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(owed(&status) == [CA, KCM], "{status:?}");
    are(&shoot, [taken(2), plain(3), taken(1)]).await?;

    // Overruled in the middle of an outage.
    ignore(&shoot, KCM, "1").await?;
    becomes(&shoot, KCM, recorded(0, "2")).await?;
    let status = is_degraded(&shoot, "IgnoredAtZero").await?;
    says(&status, &[KCM, "0 replicas", "ignore-scaling"])?;
    ensure!(owed(&status) == [CA], "{status:?}");
    let command = remedy(&status)?;
    let mut command: Vec<&str> = command.split_whitespace().collect();
    command.extend(["--namespace", shoot.namespace()]);
    shoot.control_plane.seed().kubectl().run(&command).await?;
    is(&shoot, KCM, recorded(2, "2")).await?;
    is_sound(&shoot).await?;

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    are(&shoot, [recorded(2, "2"), plain(3), back(1)]).await?;
    ensure!(
        writes(&shoot)?.iter().all(|write| write.name != MCM),
        "{MCM} was written"
    );
    Ok(())
}

async fn ignore(shoot: &Shoot, name: &str, value: &str) -> Result<()> {
    let annotation = json!({"metadata": {"annotations": {IGNORE: value}}});
    shoot.dependent(name).patch(annotation).await
}

/// The arguments of the kubectl command in a message.
fn remedy(status: &ClusterHealthStatus) -> Result<&str> {
    let message = status.message.as_deref().unwrap_or_default();
    let (_, rest) = message.split_once("kubectl ").context("no command")?;
    let (command, _) = rest
        .split_once(" in the cluster's namespace")
        .context("no end")?;
    Ok(command)
}
