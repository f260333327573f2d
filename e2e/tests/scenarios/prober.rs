//! The main job: a cluster whose nodes fall silent is protected, and restored.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::Protection,
    prober::plan::{MARK, RECORD},
};
use dependency_watchdog_e2e::{DEPENDENTS, Env, Operator, Shoot, wait};
use std::time::Duration;

/// Longer than the grace of a scenario's policy, its proof, and the writes that would follow.
const LONG_ENOUGH: Duration = Duration::from_secs(12);

/// What each dependent has before the outage, in the order of [`DEPENDENTS`].
pub(super) const COUNTS: [i32; 3] = [2, 3, 1];

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_an_outage_is_survived_with_every_count_restored,
        e2e_two_of_five_silent_nodes_are_no_outage_three_are,
        e2e_an_api_server_that_was_away_is_no_outage,
        e2e_an_operator_that_is_killed_takes_up_where_it_was,
    ]
}

/// A shoot of so many nodes whose dependents have [`COUNTS`] replicas, with its policy applied.
pub(super) async fn watched(env: &Env, name: &str, nodes: usize) -> Result<Shoot> {
    let shoot = env.shoot(name).nodes(nodes).dependents(DEPENDENTS).await?;
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        shoot.dependent(dependent).scale(count).await?;
        shoot.dependent(dependent).is_ready(count).await?;
    }
    shoot.policy()?.apply().await?;
    Ok(shoot)
}

/// Each has what it had; what is back may keep its mark for a minute.
pub(super) async fn all_are_restored(shoot: &Shoot) -> Result<()> {
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let dependent = shoot.dependent(dependent);
        dependent.is_ready(count).await?;
        ensure!(dependent.replicas().await? == count);
        let record = dependent.annotation(RECORD).await?;
        ensure!(
            record.is_none_or(|record| record == count.to_string()),
            "another record is left"
        );
    }
    Ok(())
}

/// Waits until no mark and no record is left.
async fn marks_fall(shoot: &Shoot) -> Result<()> {
    wait::seldom(wait::LIMIT, "the marks to fall", async || {
        let mut left = Vec::new();
        for dependent in DEPENDENTS {
            for annotation in [MARK, RECORD] {
                left.extend(shoot.dependent(dependent).annotation(annotation).await?);
            }
        }
        wait::seen(left.is_empty(), format!("{left:?}"))
    })
    .await
}

pub(super) async fn none_is_touched(shoot: &Shoot, period: Duration) -> Result<()> {
    let held = DEPENDENTS.iter().zip(COUNTS).map(|(dependent, count)| {
        let dependent = shoot.dependent(dependent);
        async move { dependent.stays_at(count, period).await }
    });
    futures::future::try_join_all(held).await?;
    Ok(())
}

/// The dependents that the operator has patched in this shoot's namespace, in order.
pub(super) fn patched(shoot: &Shoot) -> Result<Vec<String>> {
    let requests = shoot.control_plane.seed().operator_requests()?;
    let patches = requests.into_iter().filter(|request| {
        request.verb == "patch"
            && request.resource == "deployments"
            && request.namespace == shoot.namespace()
            && request.code == 200
    });
    Ok(patches.map(|request| request.name).collect())
}

async fn e2e_an_outage_is_survived_with_every_count_restored(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "outage", 3).await?;
    shoot.is_found("Healthy").await?;
    ensure!(patched(&shoot)?.is_empty(), "a healthy cluster was touched");

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let dependent = shoot.dependent(dependent);
        ensure!(dependent.replicas().await? == 0);
        ensure!(dependent.annotation(MARK).await?.as_deref() == Some(""));
        ensure!(dependent.annotation(RECORD).await? == Some(count.to_string()));
    }
    ensure!(
        patched(&shoot)? == DEPENDENTS,
        "not in order: {:?}",
        patched(&shoot)?
    );
    let status = shoot.control_plane.health().await?;
    ensure!(status.reason.as_deref() == Some("Outage"), "{status:?}");

    shoot.restore_all();
    let status = shoot.is_protected(Protection::None).await?;
    ensure!(
        status.dependents.iter().all(|dependent| !dependent.owed),
        "{status:?}"
    );
    all_are_restored(&shoot).await?;
    let upwards = patched(&shoot)?.split_off(DEPENDENTS.len());
    ensure!(
        upwards.iter().rev().eq(DEPENDENTS.iter()),
        "not in order: {upwards:?}"
    );
    marks_fall(&shoot).await?;
    all_are_restored(&shoot).await
}

async fn e2e_two_of_five_silent_nodes_are_no_outage_three_are(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "fraction", 5).await?;
    shoot.is_found("Healthy").await?;

    shoot.cut(2);
    none_is_touched(&shoot, LONG_ENOUGH).await?;
    let status = shoot.control_plane.health().await?;
    ensure!(status.reason.as_deref() == Some("Healthy"), "{status:?}");

    shoot.cut(3);
    let status = shoot.is_protected(Protection::Active).await?;
    let leases = status.leases.context("no leases are reported")?;
    ensure!((leases.candidates, leases.expired) == (5, 3), "{leases:?}");

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await
}

async fn e2e_an_api_server_that_was_away_is_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "away", 3).await?;
    shoot.is_found("Healthy").await?;

    shoot.stop_api_server();
    shoot.is_found("ConnectionRefused").await?;
    none_is_touched(&shoot, LONG_ENOUGH).await?;
    shoot.start_api_server().await?;
    shoot.is_found("Healthy").await?;
    none_is_touched(&shoot, LONG_ENOUGH).await?;
    ensure!(patched(&shoot)?.is_empty(), "a dependent was touched");
    Ok(())
}

async fn e2e_an_operator_that_is_killed_takes_up_where_it_was(env: Env) -> Result<()> {
    let seed = env.own_seed("killed").await?;
    let operator = Operator::start(&seed, "prober", "prober", &[])?;
    let shoot = env
        .shoot("killed")
        .nodes(3)
        .dependents(DEPENDENTS)
        .on(&seed)
        .await?;
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        shoot.dependent(dependent).scale(count).await?;
        shoot.dependent(dependent).is_ready(count).await?;
    }
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;

    // The second level waits for pods that do not go.
    shoot.control_plane.pause_pods();
    shoot.cut_all();
    shoot.dependent(DEPENDENTS[0]).reaches(0).await?;
    operator.process.kill();
    shoot.control_plane.resume_pods();
    operator.process.start()?;
    shoot.is_protected(Protection::Active).await?;
    for (dependent, count) in DEPENDENTS.iter().zip(COUNTS) {
        let dependent = shoot.dependent(dependent);
        ensure!(dependent.replicas().await? == 0);
        ensure!(dependent.annotation(RECORD).await? == Some(count.to_string()));
    }

    // Killed while restoring: the first level waits for pods that do not come.
    shoot.control_plane.pause_pods();
    shoot.restore_all();
    shoot.dependent(DEPENDENTS[2]).reaches(COUNTS[2]).await?;
    operator.process.kill();
    shoot.control_plane.resume_pods();
    operator.process.start()?;
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await
}
