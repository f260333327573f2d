//! What is uninstalled while a policy protects a cluster: in the wrong order, the manifests first; and in
//! the order of docs/install.md, without waiting for the end of the outage.

use super::{
    Scenario,
    garden::Garden,
    install::{nothing_is_left, script},
    prober::{COUNTS, all_are_restored},
    steps::{are, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Operator, Shoot,
    wait::{self, seen},
};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_what_is_uninstalled_too_soon_is_restored_once_installed_again,
        e2e_what_cannot_wait_is_restored_by_hand_and_uninstalled,
    ]
}

async fn e2e_what_is_uninstalled_too_soon_is_restored_once_installed_again(env: Env) -> Result<()> {
    let seed = env.own_seed("too-soon").await?;
    let shoot = staffed(env.shoot("too-soon").on(&seed)).await?;
    let operator = Operator::start(&seed, "prober", "prober", &[])?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;

    let kubectl = seed.kubectl();
    kubectl
        .run(&["delete", "-k", "manifests", "--wait=false"])
        .await?;
    operator.process.terminate(wait::LIMIT).await?;
    wait::until("all but the policy to be gone", async || {
        let kinds = kubectl.run(&["get", "crds", "-o", "name"]).await?;
        let policy = shoot.policy()?.exists().await?;
        let ours = kinds.lines().filter(|it| it.contains("watchdog"));
        seen(policy && ours.count() == 1, kinds)
    })
    .await?;
    are(&shoot, COUNTS.map(taken)).await?;

    // Installed again, and from the top.
    kubectl.apply("manifests").await?;
    let _operator = Operator::start(&seed, "prober-again", "prober", &[])?;
    let delete = async || {
        kubectl.run(&["delete", "probepol", "--all"]).await?;
        all_are_restored(&shoot).await
    };
    let recover = async || {
        shoot.is_protected(Protection::Active).await?;
        are(&shoot, COUNTS.map(taken)).await?;
        shoot.restore_all();
        Ok(())
    };
    tokio::try_join!(delete(), recover())?;
    Ok(())
}

async fn e2e_what_cannot_wait_is_restored_by_hand_and_uninstalled(env: Env) -> Result<()> {
    let seed = env.own_seed("cannot-wait").await?;
    let shoot = staffed(env.shoot("cannot-wait").on(&seed)).await?;
    {
        let garden = Garden::new(&seed)?;
        tokio::select! {
            ended = garden.run() => match ended? {},
            told = restored_by_hand(&shoot) => told?,
        }
    }
    let delete = script("kubectl delete -k manifests")?;
    seed.kubectl().script(delete, &[]).await?;
    nothing_is_left(&seed).await?;
    all_are_restored(&shoot).await
}

async fn restored_by_hand(shoot: &Shoot) -> Result<()> {
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(shoot, COUNTS.map(taken)).await?;
    let restore = script("dependency-watchdog restore --all")?;
    let kubectl = shoot.control_plane.seed().kubectl();
    kubectl.script(restore, &[]).await?;
    all_are_restored(shoot).await?;
    ensure!(!shoot.policy()?.exists().await?, "the policy is left");
    Ok(())
}
