//! Silence that is no outage: of too few nodes, of a server that was away, and too short.

use super::{
    Scenario,
    evidence::{nothing_is_scaled, nothing_was_written, report, says, shoot, tells, watch},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Shoot, ShootBuilder,
    wait::{self, seen},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::time::Duration;
use tokio::try_join;

/// The grace of a shoot whose server goes away, for longer than that.
const GRACE: SignedDuration = SignedDuration::from_secs(20);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_one_silent_node_of_three_is_no_outage,
        e2e_a_single_silent_node_is_no_outage,
        e2e_kubelets_slower_than_their_api_server_are_no_outage,
        e2e_kubelets_slower_than_their_etcd_are_no_outage,
        e2e_kubelets_slower_than_their_frozen_api_server_are_no_outage,
        e2e_a_hanging_shoot_delays_no_other: 2,
        e2e_thresholds_ride_out_what_ends_before,
    ]
}

async fn e2e_one_silent_node_of_three_is_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "one-of-three", 3).await?;
    watch(&shoot).await?;
    shoot.cut(1);
    let status = nothing_is_scaled(&shoot).await?;
    let why = "1 of 3 node leases that count are expired; 2 would be an outage";
    says(&status, "Healthy", (3, 1, 0), &[why])
}

async fn e2e_a_single_silent_node_is_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "single", 1).await?;
    watch(&shoot).await?;
    shoot.cut_all();
    shoot.is_found("TooFewSilent").await?;
    let status = report(&shoot).await?;
    let why = "but fewer than 2 silent nodes are no evidence of a network";
    says(&status, "TooFewSilent", (1, 1, 0), &[why])?;
    shoot.restore_all();
    shoot.is_found("Healthy").await?;
    nothing_was_written(&shoot)
}

/// A shoot whose kubelets renew every 5 s, so that they come back one after the other within that
/// time, and whose leases expire after 15 s of a grace of 20 s.
async fn slow(shoot: ShootBuilder) -> Result<Shoot> {
    let shoot = shoot.lease_duration(Duration::from_secs(20)).await?;
    let grace = json!({"kcmNodeMonitorGraceDuration": format!("{}s", GRACE.as_secs())});
    shoot.policy()?.with(&grace).apply().await?;
    shoot.is_found("Healthy").await?;
    Ok(shoot)
}

/// Waits until the operator cannot read the leases for one of these reasons, and then until each
/// lease is older than the grace.
async fn is_away(shoot: &Shoot, reasons: &[&str]) -> Result<()> {
    let what = format!("{} to be one of {reasons:?}", shoot.namespace());
    let status = shoot.reports(&what, |status| {
        let reason = status.reason.as_deref();
        reason.is_some_and(|reason| reasons.contains(&reason))
    });
    let status = status.await?;
    ensure!(status.leases.is_none(), "counted blindly: {status:?}");

    wait::until("every lease to be older than the grace", async || {
        let now = Timestamp::now();
        let ages = shoot.kubelets.iter().map(|kubelet| {
            let age = now.duration_since(kubelet.last_renewal()?.sent);
            anyhow::Ok(age)
        });
        let ages = ages.collect::<Result<Vec<_>>>()?;
        seen(ages.iter().all(|age| *age > GRACE), format!("{ages:?}"))
    })
    .await?;
    nothing_was_written(shoot)
}

/// Has the server come back, and the kubelets after it: at once when the operator has seen how old the
/// leases are, which may be before the server calls itself ready. Fails unless all is well then, and
/// nothing was ever done.
async fn is_left_alone(shoot: &Shoot, comes_back: impl Future<Output = Result<()>>) -> Result<()> {
    let suspected = async {
        let status = shoot.is_found("Suspect").await?;
        shoot.restore_all();
        Ok(status)
    };
    let (status, ()) = try_join!(suspected, comes_back)?;
    tells(
        &status,
        &["the silence has not been watched for long enough yet"],
    )?;
    shoot.all_renew().await?;
    let nodes = i32::try_from(shoot.kubelets.len())?;
    says(&report(shoot).await?, "Healthy", (nodes, 0, 0), &[])?;
    nothing_was_written(shoot)
}

async fn e2e_kubelets_slower_than_their_api_server_are_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = slow(shoot(&env, "server-away", 5)).await?;
    shoot.cut_all();
    shoot.stop_api_server();
    is_away(&shoot, &["ConnectionRefused"]).await?;
    is_left_alone(&shoot, shoot.start_api_server()).await?;

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    tells(&status, &["the API server answers and accepts writes"])
}

async fn e2e_kubelets_slower_than_their_etcd_are_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = slow(shoot(&env, "etcd-away", 5).own_etcd()).await?;
    shoot.cut_all();
    shoot.etcd()?.stop();
    // Caches still answer, so that the leases grow old; what is read past them fails.
    is_away(&shoot, &["Timeout", "ServerError"]).await?;
    is_left_alone(&shoot, shoot.etcd()?.start_again()).await
}

async fn e2e_kubelets_slower_than_their_frozen_api_server_are_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = slow(shoot(&env, "server-frozen", 5)).await?;
    shoot.cut_all();
    shoot.pause_api_server()?;
    is_away(&shoot, &["Timeout"]).await?;
    is_left_alone(&shoot, async { shoot.resume_api_server() }).await
}

async fn e2e_a_hanging_shoot_delays_no_other(env: Env) -> Result<()> {
    env.operator().await?;
    // A quarter of it is left once the silence is an outage: enough on a busy machine.
    let grace = Duration::from_secs(40);
    let policy = json!({"kcmNodeMonitorGraceDuration": "40s"});
    let hanging = shoot(&env, "hanging", 3).await?;
    let cut = shoot(&env, "beside-hanging", 3)
        .controller_manager(grace)
        .await?;
    for shoot in [&hanging, &cut] {
        shoot.policy()?.with(&policy).apply().await?;
        shoot.is_found("Healthy").await?;
    }

    hanging.pause_api_server()?;
    cut.cut_all();
    cut.is_protected(Protection::Active).await?;
    for kubelet in &cut.kubelets {
        let ready = kubelet.condition("Ready").await?;
        ensure!(
            ready == "True",
            "{} was {ready} before its cluster was protected",
            kubelet.name()
        );
    }
    for kubelet in &cut.kubelets {
        let what = format!("{} to be marked Unknown", kubelet.name());
        wait::until(&what, async || {
            let ready = kubelet.condition("Ready").await?;
            seen(ready == "Unknown", ready)
        })
        .await?;
    }
    let status = hanging.is_found("Timeout").await?;
    ensure!(status.protection == Protection::None, "{status:?}");
    nothing_was_written(&hanging)
}

async fn e2e_thresholds_ride_out_what_ends_before(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "thresholds", 3).await?;
    let policy = shoot.policy()?;
    // Verdicts are a second apart: so many of them outlast what happens here.
    let patient = json!({"failureThreshold": 100, "successThreshold": 100});
    policy.clone().with(&patient).apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    let status = shoot.is_found("Outage").await?;
    ensure!(status.protection == Protection::None, "{status:?}");
    tells(&status, &["nothing is done: the policy's failureThreshold"])?;
    shoot.restore_all();
    shoot.is_found("Healthy").await?;
    nothing_was_written(&shoot)?;

    let quick_to_act = json!({"failureThreshold": 3});
    policy
        .clone()
        .with(&patient)
        .with(&quick_to_act)
        .apply()
        .await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.restore_all();
    let status = shoot.is_found("Healthy").await?;
    ensure!(status.protection == Protection::Active, "{status:?}");
    tells(&status, &["nothing is done: the policy's successThreshold"])?;

    let quick = json!({"failureThreshold": 3, "successThreshold": 3});
    policy.with(&quick).apply().await?;
    shoot.is_protected(Protection::None).await?;
    Ok(())
}
