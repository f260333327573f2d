//! What becomes of a protected cluster that is not to be probed any more, or loses its policy.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored, none_is_touched, watched},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{Action, ClusterHealthStatus, Protection},
    prober::plan::{MARK, RECORD},
};
use dependency_watchdog_e2e::{DEPENDENTS, Env, Shoot, wait};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_protected_cluster_is_let_go_by_what_becomes_of_it,
        e2e_a_cluster_that_falls_asleep_is_left_to_gardenlet,
        e2e_a_policy_goes_only_when_it_has_given_back_what_it_took,
        e2e_the_marks_of_a_deleted_cluster_are_removed,
    ]
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

async fn set_shoot(shoot: &Shoot, patch: Value) -> Result<()> {
    let patch = json!({"spec": {"shoot": patch}});
    shoot.control_plane.patch_cluster(patch).await
}

/// Waits until the protection is over, by this action.
async fn is_let_go(shoot: &Shoot, skipped: &str, action: Action) -> Result<ClusterHealthStatus> {
    let what = format!("{} to be let go as {skipped}", shoot.namespace());
    let status = shoot
        .reports(&what, |status| {
            status.skipped.as_deref() == Some(skipped) && status.protection == Protection::None
        })
        .await?;
    let last = status.last_action.as_ref().context("no action is told")?;
    ensure!(last.action == action, "{last:?}");
    for name in DEPENDENTS {
        ensure!(last.message.contains(name), "{name} is not in {last:?}");
    }
    Ok(status)
}

/// At zero without marks, and what was there is still on record.
async fn all_are_released(shoot: &Shoot) -> Result<()> {
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let dependent = shoot.dependent(dependent);
        ensure!(dependent.replicas().await? == 0);
        ensure!(
            dependent.annotation(MARK).await?.is_none(),
            "a mark is left"
        );
        ensure!(dependent.annotation(RECORD).await? == Some(count.to_string()));
    }
    Ok(())
}

/// At zero, and marked.
async fn all_are_kept(shoot: &Shoot) -> Result<()> {
    for dependent in DEPENDENTS {
        let dependent = shoot.dependent(dependent);
        ensure!(dependent.replicas().await? == 0);
        ensure!(dependent.annotation(MARK).await?.is_some());
    }
    Ok(())
}

/// As gardenlet does once it decides about the replicas again.
async fn gardenlet_scales_up(shoot: &Shoot) -> Result<()> {
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        shoot.dependent(dependent).scale(count).await?;
        shoot.dependent(dependent).is_ready(count).await?;
    }
    Ok(())
}

async fn e2e_a_protected_cluster_is_let_go_by_what_becomes_of_it(env: Env) -> Result<()> {
    let shoot = protected(&env, "fate").await?;
    let workers = |workers: Value| json!({"spec": {"provider": {"workers": workers}}});
    let awake =
        json!({"spec": {"hibernation": {"enabled": false}}, "status": {"hibernated": false}});

    // Restored: machine-controller-manager has machines to delete.
    set_shoot(&shoot, workers(json!([]))).await?;
    is_let_go(&shoot, "NoWorkers", Action::Restored).await?;
    all_are_restored(&shoot).await?;
    set_shoot(&shoot, workers(json!([{"name": "worker"}]))).await?;
    shoot.is_protected(Protection::Active).await?;

    set_shoot(&shoot, json!({"spec": {"hibernation": {"enabled": true}}})).await?;
    is_let_go(&shoot, "Hibernated", Action::Restored).await?;
    all_are_restored(&shoot).await?;
    set_shoot(&shoot, awake.clone()).await?;
    shoot.is_protected(Protection::Active).await?;

    // Left as it is: gardenlet scales the control plane by itself.
    for (patch, reason, back) in [
        (
            json!({"status": {"hibernated": true}}),
            "WakingUp",
            awake.clone(),
        ),
        (
            json!({"status": {"lastOperation": {"type": "Migrate", "state": "Processing"}}}),
            "Migrating",
            json!({"status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}}}),
        ),
    ] {
        set_shoot(&shoot, patch).await?;
        is_let_go(&shoot, reason, Action::Released).await?;
        all_are_released(&shoot).await?;
        gardenlet_scales_up(&shoot).await?;
        set_shoot(&shoot, back).await?;
        shoot.is_protected(Protection::Active).await?;
    }

    // Nothing is known, so nothing is done.
    let creating = json!({"status": {"lastOperation": {"type": "Create", "state": "Processing"}}});
    set_shoot(&shoot, creating).await?;
    shoot
        .reports("the cluster to be skipped", |status| {
            status.skipped.as_deref() == Some("NotYetCreated")
        })
        .await?;
    all_are_kept(&shoot).await?;

    // Who decides about the replicas is not known: restored only when it is healthy.
    let moves =
        json!({"status": {"lastOperation": {"type": "LiveMigrate", "state": "Processing"}}});
    set_shoot(&shoot, moves).await?;
    shoot
        .reports("that nothing more is taken", |status| {
            status.skipped.as_deref() == Some("LiveMigrating")
                && status.reason.as_deref() == Some("Outage")
        })
        .await?;
    all_are_kept(&shoot).await?;
    shoot.restore_all();
    is_let_go(&shoot, "LiveMigrating", Action::Restored).await?;
    all_are_restored(&shoot).await
}

async fn e2e_a_cluster_that_falls_asleep_is_left_to_gardenlet(env: Env) -> Result<()> {
    let shoot = protected(&env, "asleep").await?;
    // gardenlet has taken the API server down before it says so.
    shoot.stop_api_server();
    set_shoot(&shoot, json!({"spec": {"hibernation": {"enabled": true}}})).await?;
    let status = is_let_go(&shoot, "Hibernated", Action::Released).await?;
    let why = status.last_action.context("no action is told")?.message;
    ensure!(why.contains("does not answer any more"), "{why}");
    all_are_released(&shoot).await?;
    shoot.start_api_server().await
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

async fn e2e_the_marks_of_a_deleted_cluster_are_removed(env: Env) -> Result<()> {
    let shoot = protected(&env, "deleted").await?;
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}});
    set_shoot(&shoot, deleting).await?;
    is_let_go(&shoot, "Deleting", Action::Released).await?;
    all_are_released(&shoot).await?;

    // Protected once more, the Cluster goes without a word.
    gardenlet_scales_up(&shoot).await?;
    set_shoot(&shoot, json!({"metadata": {"deletionTimestamp": null}})).await?;
    shoot.is_protected(Protection::Active).await?;
    shoot.control_plane.delete_cluster().await?;
    for dependent in DEPENDENTS {
        let dependent = shoot.dependent(dependent);
        wait::until("a mark to be removed", async || {
            let mark = dependent.annotation(MARK).await?;
            wait::seen(mark.is_none(), "it is still there")
        })
        .await?;
    }
    all_are_released(&shoot).await?;
    // A cluster that is gone is nobody's any more.
    gardenlet_scales_up(&shoot).await?;
    none_is_touched(&shoot, Duration::from_secs(3)).await
}
