//! What a cluster goes through: states in which silence means nothing, and a seed that goes away.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored},
    steps::{are, owed, says, staffed, taken, writes},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{Env, Operator, Shoot};
use futures::future::try_join_all;
use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_cluster_is_skipped_while_silence_says_nothing,
        e2e_a_seed_that_was_away_finds_everything_as_it_was,
    ]
}

/// A state in which a cluster is skipped, and how it is seen.
struct Skipped {
    reason: &'static str,
    words: &'static str,
    /// Merged into the Shoot in the Cluster, and what takes it back.
    shoot: Value,
    back: Value,
}

fn states() -> Vec<Skipped> {
    let operation = |kind: &str, state: &str| json!({"status": {"lastOperation": {"type": kind, "state": state}}});
    let workers = |workers: Value| json!({"spec": {"provider": {"workers": workers}}});
    let state = |reason, words, shoot, back| Skipped {
        reason,
        words,
        shoot,
        back,
    };
    let (reconciled, pool) = (
        operation("Reconcile", "Succeeded"),
        workers(json!([{"name": "worker"}])),
    );
    vec![
        state(
            "Deleting",
            "metadata.deletionTimestamp is set",
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            json!({"metadata": {"deletionTimestamp": null}}),
        ),
        state(
            "Migrating",
            "moves to another seed",
            operation("Migrate", "Processing"),
            reconciled.clone(),
        ),
        state(
            "LiveMigrating",
            "lastOperation is LiveMigrate Processing",
            operation("LiveMigrate", "Processing"),
            reconciled.clone(),
        ),
        state(
            "UnknownOperation",
            "lastOperation is Later Processing",
            operation("Later", "Processing"),
            reconciled,
        ),
        state(
            "SelfHosted",
            "a pool with controlPlane",
            workers(json!([{"name": "worker", "controlPlane": {}}])),
            pool.clone(),
        ),
        state(
            "Hibernated",
            "hibernation.enabled is true",
            json!({"spec": {"hibernation": {"enabled": true}}, "status": {"hibernated": true}}),
            json!({"spec": {"hibernation": {"enabled": false}}, "status": {"hibernated": false}}),
        ),
        state(
            "WakingUp",
            "waking up",
            json!({"spec": {"hibernation": {"enabled": false}}, "status": {"hibernated": true}}),
            json!({"status": {"hibernated": false}}),
        ),
        state(
            "NoWorkers",
            "workers is empty",
            workers(json!([])),
            pool.clone(),
        ),
        state(
            "NotYetCreated",
            "lastOperation is Create Processing",
            operation("Create", "Processing"),
            operation("Create", "Succeeded"),
        ),
        state(
            "NotYetRestored",
            "lastOperation is Restore Processing",
            operation("Restore", "Processing"),
            operation("Restore", "Succeeded"),
        ),
        state(
            "Unreadable",
            "spec.shoot.spec.provider.workers",
            workers(json!("none")),
            pool,
        ),
    ]
}

async fn change(shoot: &Shoot, patch: &Value) -> Result<()> {
    let patch = json!({"spec": {"shoot": patch}});
    shoot.control_plane.patch_cluster(patch).await
}

async fn e2e_a_cluster_is_skipped_while_silence_says_nothing(env: Env) -> Result<()> {
    env.operator().await?;
    let probed = staffed(env.shoot("life").nodes(2).label("story", "life")).await?;
    let states = states();
    let skipped = states.iter().map(async |state| -> Result<Shoot> {
        let name = format!("life-{}", state.reason.to_lowercase());
        let shoot = env.shoot(&name).nodes(2).label("story", "life");
        let shoot = staffed(shoot.beside(&probed)).await?;
        change(&shoot, &state.shoot).await?;
        Ok(shoot)
    });
    let skipped = try_join_all(skipped).await?;
    let policy = probed.policy()?.with(&json!({
        "clusterSelector": {"matchLabels": {"scenario": null, "story": "life"}},
    }));
    policy.apply().await?;
    probed.is_found("Healthy").await?;
    for (shoot, state) in skipped.iter().zip(&states) {
        let status = shoot.is_found(state.reason).await?;
        ensure!(
            status.skipped.as_deref() == Some(state.reason),
            "{status:?}"
        );
        says(&status, &[state.words])?;
    }

    for shoot in skipped.iter().chain([&probed]) {
        shoot.cut_all();
    }
    probed.is_protected(Protection::Active).await?;
    for shoot in &skipped {
        let writes = writes(shoot)?;
        ensure!(writes.is_empty(), "{writes:?}");
        let status = shoot.control_plane.health().await?;
        ensure!(
            status.protection == Protection::None && status.skipped.is_some(),
            "{status:?}"
        );
    }

    for (shoot, state) in skipped.iter().zip(&states) {
        change(shoot, &state.back).await?;
    }
    for shoot in &skipped {
        let status = shoot.is_protected(Protection::Active).await?;
        ensure!(
            status.skipped.is_none() && owed(&status).len() == COUNTS.len(),
            "{status:?}"
        );
        are(shoot, COUNTS.map(taken)).await?;
    }
    Ok(())
}

async fn e2e_a_seed_that_was_away_finds_everything_as_it_was(env: Env) -> Result<()> {
    let seed = env.own_seed("away").await?;
    let operator = Operator::start(&seed, "prober", "prober", &[])?;
    let shoot = staffed(env.shoot("seed-away").on(&seed)).await?;
    let other = staffed(env.shoot("seed-away-too").on(&seed).beside(&shoot)).await?;
    for shoot in [&shoot, &other] {
        shoot.policy()?.apply().await?;
        shoot.is_found("Healthy").await?;
        shoot.cut_all();
    }
    for shoot in [&shoot, &other] {
        shoot.is_protected(Protection::Active).await?;
    }

    // One outage ends while nothing can be written.
    seed.server().stop();
    shoot.restore_all();
    shoot.all_renew().await?;
    seed.server().start_again().await?;
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await?;
    are(&other, COUNTS.map(taken)).await?;
    let status = other.control_plane.health().await?;
    ensure!(status.protection == Protection::Active, "{status:?}");
    other.restore_all();
    other.is_protected(Protection::None).await?;
    all_are_restored(&other).await?;
    operator.process.ensure_running()
}
