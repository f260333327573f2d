//! What people did to dependents counts.

use super::{
    Scenario,
    prober::watched,
    steps::{
        CA, KCM, MCM, are, back, becomes, is, is_degraded, is_sound, owed, plain, recorded, says,
        taken, writes,
    },
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterHealthStatus, Protection},
    prober::step::IGNORE,
};
use dependency_watchdog_e2e::{Env, Shoot};
use serde_json::json;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_ignore_scaling_takes_a_dependent_out_of_our_hands,]
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
