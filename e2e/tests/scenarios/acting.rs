//! How dependents are scaled: what people did to them counts, and levels, delays and limits hold.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored, patched, watched},
    steps::{
        CA, KCM, MCM, are, back, becomes, deployment, is, is_degraded, is_looked_at, is_sound,
        owed, plain, recorded, requests, says, staffed, taken, writes,
    },
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterHealthStatus, Protection},
    prober::plan::{IGNORE, RECORD},
};
use dependency_watchdog_e2e::{DEPENDENTS, Env, Shoot};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How long a lease is silent when it expires, by the grace of a scenario's policy.
const EXPIRY: SignedDuration = SignedDuration::from_secs(6);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_what_a_human_put_to_zero_stays_there,
        e2e_replicas_changed_during_an_outage_are_those_restored,
        e2e_ignore_scaling_takes_a_dependent_out_of_our_hands,
        e2e_a_delay_is_waited_only_where_there_is_something_to_scale,
        e2e_pods_that_neither_go_nor_come_hold_up_a_level_for_its_timeout,
        e2e_a_recovery_overtakes_a_scale_down,
        e2e_what_replaces_machines_waits_for_the_nodes_that_were_silent,
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

async fn e2e_replicas_changed_during_an_outage_are_those_restored(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "rescaled", 3).await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;

    shoot.dependent(KCM).scale(5).await?;
    becomes(&shoot, KCM, taken(5)).await?;
    let remembered = |status: &ClusterHealthStatus| {
        let mut dependents = status.dependents.iter();
        dependents.any(|it| it.r#ref.name == KCM && it.owed && it.recorded_replicas == Some(5))
    };
    let status = shoot.reports("the newer number", remembered).await?;
    ensure!(status.protection == Protection::Active, "{status:?}");

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    are(&shoot, [back(5), back(3), back(1)]).await?;
    shoot.dependent(KCM).is_ready(5).await
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

async fn e2e_a_delay_is_waited_only_where_there_is_something_to_scale(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("delays")).await?;
    shoot.dependent(MCM).scale(0).await?;
    let delay = SignedDuration::from_secs(2);
    let (short, long) = (
        json!({"level": 0, "initialDelay": "2s"}),
        json!({"level": 1, "initialDelay": "1h"}),
    );
    let plain_last = json!({"level": 2});
    let policy = shoot.policy()?.with(&json!({"dependentResourceInfos": [
        deployment(KCM, &short, &plain_last),
        deployment(MCM, &long, &long),
        deployment(CA, &plain_last, &short),
    ]}));
    policy.apply().await?;
    shoot.is_found("Healthy").await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(&shoot, [taken(2), plain(0), taken(1)]).await?;
    // Two expired leases of three are an outage.
    let mut renewals = shoot
        .kubelets
        .iter()
        .map(|kubelet| Ok(kubelet.last_renewal()?.sent))
        .collect::<Result<Vec<Timestamp>>>()?;
    renewals.sort_unstable();
    let silent = *renewals.get(1).context("too few nodes")?;
    let first = writes(&shoot)?.into_iter().next().context("no write")?;
    let earliest = silent.checked_add(EXPIRY)?.checked_add(delay)?;
    ensure!(
        first.name == KCM && first.received >= earliest,
        "{first:?} before {earliest}"
    );

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    are(&shoot, [back(2), plain(0), back(1)]).await
}

async fn e2e_pods_that_neither_go_nor_come_hold_up_a_level_for_its_timeout(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("late")).await?;
    impatient(&shoot, "1s").await?;
    shoot.is_found("Healthy").await?;

    shoot.control_plane.pause_pods();
    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(patched(&shoot)? == DEPENDENTS, "{:?}", patched(&shoot)?);
    are(&shoot, COUNTS.map(taken)).await?;
    // A third of what the expiry of 6 s leaves of the grace of 8.
    says(&status, &[KCM, "was not scaled within 666ms"])?;
    is_degraded(&shoot, "ScalingLate").await?;
    shoot.control_plane.resume_pods();
    is_sound(&shoot).await?;

    shoot.control_plane.pause_pods();
    shoot.restore_all();
    shoot.dependent(KCM).reaches(2).await?;
    are(&shoot, COUNTS.map(back)).await?;
    let upwards = patched(&shoot)?.split_off(DEPENDENTS.len());
    ensure!(upwards == [CA, MCM, KCM], "{upwards:?}");
    let status = is_degraded(&shoot, "ScalingLate").await?;
    says(
        &status,
        &[CA, "was not scaled within 1s", "not all restored yet"],
    )?;
    ensure!(status.protection == Protection::Restoring, "{status:?}");
    ensure!(owed(&status).len() == DEPENDENTS.len(), "{status:?}");

    shoot.control_plane.resume_pods();
    shoot.is_protected(Protection::None).await?;
    is_sound(&shoot).await?;
    all_are_restored(&shoot).await
}

/// The usual policy with another timeout for each level.
async fn impatient(shoot: &Shoot, timeout: &str) -> Result<()> {
    let level = |level: usize| json!({"level": level, "timeout": timeout});
    let dependents: Vec<Value> = DEPENDENTS
        .iter()
        .enumerate()
        .map(|(place, name)| deployment(name, &level(place), &level(DEPENDENTS.len() - place)))
        .collect();
    let policy = shoot.policy()?;
    let policy = policy.with(&json!({"dependentResourceInfos": dependents}));
    policy.apply().await
}

async fn e2e_a_recovery_overtakes_a_scale_down(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("overtaken")).await?;
    // No level waits long for the pods of the one before, so a delay holds up the second.
    let down = [
        json!({"level": 0}),
        json!({"level": 1, "initialDelay": "1h"}),
        json!({"level": 2}),
    ];
    let dependents: Vec<Value> = DEPENDENTS
        .iter()
        .zip(&down)
        .map(|(name, down)| deployment(name, down, &json!({"level": 0})))
        .collect();
    let policy = shoot.policy()?;
    let policy = policy.with(&json!({"dependentResourceInfos": dependents}));
    policy.apply().await?;
    shoot.is_found("Healthy").await?;

    shoot.cut_all();
    becomes(&shoot, KCM, taken(2)).await?;
    let half = "its dependents are not all scaled down yet";
    let begun = |status: &ClusterHealthStatus| {
        let message = status.message.as_deref().unwrap_or_default();
        status.protection == Protection::ScalingDown && message.contains(half)
    };
    shoot.reports(half, begun).await?;
    shoot.restore_all();
    becomes(&shoot, KCM, back(2)).await?;
    let status = shoot.is_protected(Protection::None).await?;
    ensure!(owed(&status).is_empty(), "{status:?}");
    all_are_restored(&shoot).await?;
    ensure!(patched(&shoot)? == [KCM, KCM], "{:?}", patched(&shoot)?);
    is_sound(&shoot).await?;
    Ok(())
}

async fn e2e_what_replaces_machines_waits_for_the_nodes_that_were_silent(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("awaited")).await?;
    let (first, waits) = (json!({"level": 0}), json!({"level": 1, "awaitNodes": "1h"}));
    let policy = shoot.policy()?.with(&json!({"dependentResourceInfos": [
        deployment(KCM, &first, &first),
        deployment(MCM, &first, &waits),
        deployment(CA, &first, &waits),
    ]}));
    policy.apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;

    // As kube-controller-manager marks a node whose kubelet is silent. Its lease comes back first.
    let late = shoot.kubelet(0)?;
    late.set_condition("Ready", "Unknown", "NodeStatusUnknown")
        .await?;
    let restored = Timestamp::now();
    shoot.restore_all();
    becomes(&shoot, KCM, back(2)).await?;
    // Of the three, the other two are renewed and Ready.
    let all_but_one = "2 of the 3 nodes that were silent are ready again";
    let awaits = |status: &ClusterHealthStatus| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.reason == "AwaitingNodes" && it.message.contains(all_but_one))
    };
    shoot.reports(all_but_one, awaits).await?;
    are(&shoot, [back(2), taken(3), taken(1)]).await?;

    let ready = Timestamp::now();
    late.set_condition("Ready", "True", "KubeletReady").await?;
    shoot.is_protected(Protection::None).await?;
    for name in [MCM, CA] {
        let mut after = writes(&shoot)?.into_iter();
        let first = after.find(|it| it.name == name && it.received > restored);
        let first = first.with_context(|| format!("{name} was not written"))?;
        ensure!(first.received >= ready, "{first:?} before {ready}");
    }
    all_are_restored(&shoot).await
}
