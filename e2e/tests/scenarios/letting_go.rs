//! What becomes of a protected cluster that loses its policy.

use super::{
    Scenario,
    prober::{all_are_restored, watched},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{DEPENDENTS, Env, Shoot, wait};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_policy_goes_only_when_it_has_given_back_what_it_took,]
}

/// A shoot that is protected.
async fn protected(env: &Env, name: &str) -> Result<Shoot> {
    env.operator().await?;
    let shoot = watched(env, name, 3).await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    Ok(shoot)
}

async fn e2e_a_policy_goes_only_when_it_has_given_back_what_it_took(env: Env) -> Result<()> {
    let shoot = protected(&env, "farewell").await?;
    let policy = shoot.policy()?;
    policy.delete().await?;
    let waiting = policy.says("Reconciling", "LettingGo").await?;
    ensure!(waiting.contains(shoot.namespace()), "{waiting}");
    for dependent in DEPENDENTS {
        ensure!(shoot.dependent(dependent).replicas().await? == 0);
    }

    shoot.restore_all();
    wait::until("the policy to be gone", async || {
        let found = policy.exists().await?;
        wait::seen(!found, "it is still there")
    })
    .await?;
    all_are_restored(&shoot).await?;
    wait::until("its record to be gone", async || {
        let found = shoot.control_plane.health().await;
        wait::seen(found.is_err(), "it is still there")
    })
    .await
}
