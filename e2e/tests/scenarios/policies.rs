//! Policies that change while they protect: mode, suspension, rank, dependents, access.

use super::{
    Scenario,
    prober::{COUNTS, all_are_restored, patched, watched},
    steps::{
        CA, KCM, MCM, are, deployment, is, is_sound, owed, plain, says, staffed, taken, writes,
    },
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::{ClusterHealthStatus, Protection};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Policy,
    wait::{self, seen},
};
use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_policy_observes_then_enforces_then_is_suspended,
        e2e_a_policy_of_higher_priority_inherits_the_protection,
        e2e_a_policy_is_corrected_and_changed_while_it_protects,
    ]
}

async fn e2e_a_policy_observes_then_enforces_then_is_suspended(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("dry-run")).await?;
    let control = staffed(env.shoot("no-dry-run").beside(&shoot)).await?;
    let policy = shoot.policy()?;
    policy
        .clone()
        .with(&json!({"mode": "DryRun"}))
        .apply()
        .await?;
    control.policy()?.apply().await?;
    for shoot in [&shoot, &control] {
        shoot.is_found("Healthy").await?;
        shoot.cut_all();
    }
    control.is_protected(Protection::Active).await?;
    let status = shoot.is_found("Outage").await?;
    says(&status, &["2 are an outage", "DryRun"])?;
    ensure!(status.protection == Protection::None, "{status:?}");
    ensure!(writes(&shoot)?.is_empty(), "{:?}", writes(&shoot)?);
    are(&shoot, COUNTS.map(plain)).await?;

    policy
        .clone()
        .with(&json!({"mode": "Enforce"}))
        .apply()
        .await?;
    shoot.is_protected(Protection::Active).await?;
    are(&shoot, COUNTS.map(taken)).await?;

    policy
        .clone()
        .with(&json!({"suspend": true}))
        .apply()
        .await?;
    let status = shoot.is_found("Suspended").await?;
    ensure!(status.skipped.as_deref() == Some("Suspended"), "{status:?}");
    says(&status, &["suspended", KCM, MCM, CA])?;
    let before = writes(&shoot)?.len();
    shoot.restore_all();
    control.restore_all();
    control.is_protected(Protection::None).await?;
    ensure!(writes(&shoot)?.len() == before, "{:?}", writes(&shoot)?);
    are(&shoot, COUNTS.map(taken)).await?;
    let status = shoot.control_plane.health().await?;
    ensure!(
        status.protection == Protection::Active && owed(&status).len() == COUNTS.len(),
        "{status:?}"
    );

    policy.apply().await?;
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await
}

async fn e2e_a_policy_of_higher_priority_inherits_the_protection(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "heir", 3).await?;
    let low = shoot.policy()?;
    let status = shoot.is_found("Healthy").await?;
    ensure!(
        status.policy.as_deref() == Some(shoot.namespace()),
        "{status:?}"
    );
    // Of the same priority the younger one stands back; if it is of the same second, by its name.
    let younger = low.clone().named("the-younger-heir");
    younger.apply().await?;
    conflicts(&younger, shoot.namespace()).await?;

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    let level = json!({"level": 0});
    let high = low.clone().named("heir-high").with(&json!({
        "priority": 10,
        "dependentResourceInfos": [
            deployment(KCM, &level, &level),
            deployment(MCM, &level, &level),
        ],
    }));
    high.apply().await?;
    let taken_over = |status: &ClusterHealthStatus| status.policy.as_deref() == Some("heir-high");
    let status = shoot.reports("another policy", taken_over).await?;
    ensure!(
        status.protection == Protection::Active && owed(&status) == [CA, KCM, MCM],
        "{status:?}"
    );
    conflicts(&low, "heir-high").await?;
    are(&shoot, COUNTS.map(taken)).await?;

    shoot.restore_all();
    let status = shoot.is_protected(Protection::None).await?;
    ensure!(taken_over(&status), "{status:?}");
    all_are_restored(&shoot).await?;
    ensure!(
        patched(&shoot)?.len() == 2 * DEPENDENTS.len(),
        "{:?}",
        patched(&shoot)?
    );
    Ok(())
}

/// Waits until a policy says that this one comes before it.
async fn conflicts(policy: &Policy, winner: &str) -> Result<()> {
    wait::until(
        &format!("a policy to stand back for {winner}"),
        async || {
            let status = policy.get().await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter();
            let conflicted = conditions.find(|condition| condition.type_ == "Conflicted");
            let met = conflicted.is_some_and(|condition| {
                condition.status == "True"
                    && condition.reason == "Outranked"
                    && condition.message.contains(winner)
            });
            seen(met, format!("{conflicted:?}"))
        },
    )
    .await
}

/// Lets the operator look for a Secret of another name, so that it can be told that there is none.
const ANOTHER_SECRET: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: dwd-prober-another-secret}
rules:
  - {apiGroups: [''], resources: [secrets], resourceNames: [misspelt], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dwd-prober-another-secret}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: dwd-prober-another-secret
subjects:
  - {kind: ServiceAccount, name: dwd-prober, namespace: garden}
";

async fn e2e_a_policy_is_corrected_and_changed_while_it_protects(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("edited")).await?;
    shoot.control_plane.seed().apply(ANOTHER_SECRET).await?;
    let level = |level: u32| json!({"level": level});
    let with = |names: &[&str]| -> Result<Policy> {
        let dependents: Vec<Value> = names
            .iter()
            .map(|name| deployment(name, &level(0), &level(0)))
            .collect();
        Ok(shoot
            .policy()?
            .with(&json!({"dependentResourceInfos": dependents})))
    };
    let misspelt = json!({"kubeConfigSecretName": "misspelt"});
    with(&[KCM, MCM])?.with(&misspelt).apply().await?;
    let status = shoot.is_found("SecretMissing").await?;
    let secret = format!("{}/misspelt", shoot.namespace());
    says(
        &status,
        &[&secret, "does not exist", "kubeConfigSecretName"],
    )?;
    with(&[KCM, MCM])?.apply().await?;
    shoot.is_found("Healthy").await?;

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(owed(&status) == [KCM, MCM], "{status:?}");
    is(&shoot, CA, plain(1)).await?;
    with(&[KCM, MCM, CA])?.apply().await?;
    let status = shoot
        .reports("what was added to be taken", |status| {
            owed(status).contains(&CA)
        })
        .await?;
    ensure!(owed(&status) == [CA, KCM, MCM], "{status:?}");
    are(&shoot, COUNTS.map(taken)).await?;

    let policy = with(&[KCM, CA])?;
    policy.apply().await?;
    wait::until("the change to be taken up", async || {
        let policy = policy.get().await?;
        let observed = policy.status.and_then(|status| status.observed_generation);
        seen(
            observed == policy.metadata.generation,
            format!("{observed:?}"),
        )
    })
    .await?;
    let status = shoot.control_plane.health().await?;
    ensure!(owed(&status) == [CA, KCM, MCM], "{status:?}");
    are(&shoot, COUNTS.map(taken)).await?;

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    is_sound(&shoot).await?;
    all_are_restored(&shoot).await
}
