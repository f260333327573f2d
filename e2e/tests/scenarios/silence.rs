//! Silence that is no outage, since what answers for the leases was away, too.

use super::{
    Scenario,
    evidence::{nothing_was_written, shoot, tells},
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
    super::scenarios![e2e_kubelets_slower_than_their_api_server_are_no_outage: 3]
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
    shoot.is_found("Healthy").await?;
    nothing_was_written(shoot)
}

/// One story of three shoots. In each all nodes lose their network together with what answers for them: the API
/// server is gone, its etcd is, or it is frozen.
async fn e2e_kubelets_slower_than_their_api_server_are_no_outage(env: Env) -> Result<()> {
    env.operator().await?;
    let gone = async {
        let shoot = slow(shoot(&env, "server-away", 5)).await?;
        shoot.cut_all();
        shoot.stop_api_server();
        is_away(&shoot, &["Unreachable"]).await?;
        is_left_alone(&shoot, shoot.start_api_server()).await?;

        shoot.cut_all();
        let status = shoot.is_protected(Protection::Active).await?;
        tells(&status, &["the API server answers and accepts writes"])
    };
    let without_etcd = async {
        let shoot = slow(shoot(&env, "etcd-away", 5).own_etcd()).await?;
        shoot.cut_all();
        shoot.etcd()?.stop();
        // Caches still answer, so that the leases grow old; what is read past them fails.
        is_away(&shoot, &["Timeout", "ServerError"]).await?;
        is_left_alone(&shoot, shoot.etcd()?.start_again()).await
    };
    let frozen = async {
        let shoot = slow(shoot(&env, "server-frozen", 5)).await?;
        shoot.cut_all();
        shoot.pause_api_server()?;
        is_away(&shoot, &["Timeout"]).await?;
        is_left_alone(&shoot, async { shoot.resume_api_server() }).await
    };
    try_join!(gone, without_etcd, frozen)?;
    Ok(())
}
