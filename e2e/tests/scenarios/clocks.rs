//! The age of a lease: whatever the clocks of nodes say, and where it cannot be told.

use super::{
    Scenario,
    evidence::{is_protected_for, nothing_is_scaled, report, says, shoot, tells, watch},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{Env, Kubelet, wait};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::time::Duration;

/// Three quarters of the grace of a scenario's policy.
const EXPIRY: Duration = Duration::from_secs(6);

/// Far more than any grace here.
const OFF: SignedDuration = SignedDuration::from_secs(90);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_clocks_of_nodes_neither_make_an_outage_nor_hide_one,
        e2e_leases_without_a_renew_time_are_unknown,
        e2e_leases_renewed_too_slowly_for_the_grace_are_unknown,
        e2e_a_grace_changes_while_it_is_judged_by: 2,
    ]
}

async fn e2e_clocks_of_nodes_neither_make_an_outage_nor_hide_one(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "wrong-clocks", 6).await?;
    // Two nodes of a kind are an outage, if their clocks are believed.
    let policy = shoot.policy()?;
    let fraction = |fraction: f64| json!({"nodeLeaseFailureFraction": fraction});
    policy.clone().with(&fraction(0.3)).apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.kubelet(0)?.skew(-OFF);
    shoot.kubelet(1)?.skew(-OFF);
    shoot.kubelet(2)?.skew(OFF);
    shoot.kubelet(3)?.skew(OFF);
    let status = tokio::select! {
        status = nothing_is_scaled(&shoot) => status?,
        error = steps(shoot.kubelet(4)?) => return error,
        error = steps(shoot.kubelet(5)?) => return error,
    };
    says(&status, "Healthy", (6, 0, 0), &["none of 6 node leases"])?;

    // Now it takes all of them.
    policy.with(&fraction(1.0)).apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    let status = is_protected_for(&shoot, 6, EXPIRY).await?;
    says(&status, "Outage", (6, 6, 0), &["6 of 6 node leases"])
}

/// Has a clock step forth and back from one renewal to the next. Ends only when it fails.
async fn steps(kubelet: &Kubelet) -> Result<()> {
    for offset in [OFF, -OFF].into_iter().cycle() {
        kubelet.skew(offset);
        let before = kubelet.renewals().len();
        wait::until("a renewal by a clock that steps", async || {
            let renewals = kubelet.renewals().len();
            wait::seen(renewals > before, format!("{renewals} renewals"))
        })
        .await?;
    }
    Ok(())
}

async fn e2e_leases_without_a_renew_time_are_unknown(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "timeless", 5).await?;
    watch(&shoot).await?;

    // Too few to matter, ...
    shoot.cut(2);
    for index in 0..2 {
        shoot.kubelet(index)?.forget_renew_time().await?;
    }
    says(&report(&shoot).await?, "Healthy", (5, 0, 2), &[])?;

    // ... enough to decide.
    shoot.cut(3);
    shoot.kubelet(2)?.forget_renew_time().await?;
    let status = shoot.is_found("LeasesUnknown").await?;
    says(
        &status,
        "LeasesUnknown",
        (5, 0, 3),
        &["of 3 it cannot be said: they lack a renewTime"],
    )?;
    let status = nothing_is_scaled(&shoot).await?;
    says(&status, "LeasesUnknown", (5, 0, 3), &[])?;

    shoot.restore_all();
    shoot.all_renew().await?;
    says(&report(&shoot).await?, "Healthy", (5, 0, 0), &[])
}

async fn e2e_leases_renewed_too_slowly_for_the_grace_are_unknown(env: Env) -> Result<()> {
    env.operator().await?;
    // Three renewals take 9 s, and the grace is 8 s.
    let shoot = shoot(&env, "slow-leases", 2)
        .lease_duration(Duration::from_secs(12))
        .await?;
    let policy = shoot.policy()?;
    policy.apply().await?;
    shoot.is_found("LeaseTooSlow").await?;
    shoot.cut_all();
    let status = nothing_is_scaled(&shoot).await?;
    let remedy = [
        "2 of 2 node leases are renewed too slowly for the grace",
        "lengthen kcmNodeMonitorGraceDuration",
        "shorten the kubelets' nodeLeaseDurationSeconds",
    ];
    says(&status, "LeaseTooSlow", (2, 0, 2), &remedy)?;

    policy
        .with(&json!({"kcmNodeMonitorGraceDuration": "10s"}))
        .apply()
        .await?;
    let status = is_protected_for(&shoot, 2, Duration::from_secs(9)).await?;
    says(&status, "Outage", (2, 2, 0), &[])
}

/// The Cluster's own grace period.
fn own_grace(grace: &str) -> Value {
    let manager = json!({"nodeMonitorGracePeriod": grace});
    json!({"spec": {"shoot": {"spec": {"kubernetes": {"kubeControllerManager": manager}}}}})
}

async fn e2e_a_grace_changes_while_it_is_judged_by(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "own-grace", 3).await?;
    let other = self::shoot(&env, "policy-grace", 2)
        .label("scenario", "own-grace")
        .await?;
    watch(&shoot).await?;
    other.is_found("Healthy").await?;

    // Silence is an outage after 6 s by the policy's grace, after 12 s by the Cluster's own.
    shoot.control_plane.patch_cluster(own_grace("16s")).await?;
    shoot.cut_all();
    let status = is_protected_for(&shoot, 2, Duration::from_secs(12)).await?;
    tells(
        &status,
        &["node leases that count are expired, and 2 are an outage"],
    )?;

    shoot.control_plane.patch_cluster(own_grace("soon")).await?;
    let status = shoot.is_found("ClusterInvalid").await?;
    tells(
        &status,
        &[
            "nodeMonitorGracePeriod is \"soon\", which is not a duration above 0 such as 40s",
            "correct it in the Shoot",
            "until then nothing is scaled for this cluster",
        ],
    )?;
    // Nor is it restored, while the other cluster of the same policy is protected.
    shoot.restore_all();
    other.cut_all();
    is_protected_for(&other, 2, EXPIRY).await?;
    let status = shoot.control_plane.health().await?;
    ensure!(status.protection == Protection::Active, "{status:?}");

    shoot.control_plane.patch_cluster(own_grace("8s")).await?;
    shoot.is_protected(Protection::None).await?;
    Ok(())
}
