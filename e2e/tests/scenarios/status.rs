//! What the operator writes beside dependents: records that come back, and the finalizer of policies.

use super::{
    Scenario,
    steps::{ELECTION, staffed},
};
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{ClusterHealth, FINALIZER, ProbePolicy, Protection};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Shoot,
    wait::{self, Look, seen},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

/// A finalizer that somebody else holds.
const OTHER: &str = "example.com/other";

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_deleted_clusterhealth_comes_back,
        e2e_the_finalizer_comes_and_goes,
        e2e_a_definition_that_is_older_than_the_operator_costs_its_new_fields_alone,
    ]
}

async fn e2e_a_deleted_clusterhealth_comes_back(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = env
        .shoot("comes-back")
        .nodes(2)
        .dependents(DEPENDENTS)
        .await?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;

    let records: Api<ClusterHealth> = Api::all(env.seed().await?.client()?);
    let first = records.get(shoot.namespace()).await?;
    records
        .delete(shoot.namespace(), &DeleteParams::default())
        .await?;
    let second = wait::until("another ClusterHealth with a status", async || {
        let Some(found) = records.get_opt(shoot.namespace()).await? else {
            return Ok(Look::Not("none".to_owned()));
        };
        let another = found.uid() != first.uid() && found.status.is_some();
        Ok(match another {
            true => Look::Met(found),
            false => Look::Not(serde_json::to_string(&found)?),
        })
    })
    .await?;
    ensure!(second.owner_references() == first.owner_references());
    // The generation of each condition is right only as long as the server does not count further.
    let conditions = second.status.iter().flat_map(|it| &it.conditions);
    for condition in conditions {
        ensure!(condition.observed_generation == second.metadata.generation);
    }
    let managed_by = second.labels().get("app.kubernetes.io/managed-by");
    ensure!(managed_by.is_some_and(|it| it == "dependency-watchdog"));
    shoot.is_found("Healthy").await?;
    Ok(())
}

/// The operator was upgraded, and the definitions were not.
async fn e2e_a_definition_that_is_older_than_the_operator_costs_its_new_fields_alone(
    env: Env,
) -> Result<()> {
    let seed = env.own_seed("outdated").await?;
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let removed = ["stateMessage", "leases/properties/unknown"];
    let patch = removed.map(|field| json!({"op": "remove", "path": format!("{status}/{field}")}));
    let definition = "clusterhealths.dependency-watchdog.gardener.cloud";
    let patch = json!(patch).to_string();
    let kubectl = seed.kubectl();
    let change = ["patch", "crd", definition, "--type=json", "-p", &patch];
    kubectl.run(&change).await?;
    // The API server takes a moment to go by it.
    let path = "clusterhealth.status.stateMessage";
    wait::until("the older definition to be served", async || {
        let explained = kubectl.try_run(&["explain", path]).await?;
        seen(!explained.success, format!("{explained:?}"))
    })
    .await?;

    let shoot = staffed(env.shoot("outdated").on(&seed)).await?;
    let rights = seed.operator_kubeconfig()?;
    let operator = Operator::replica(&seed, "outdated", "prober", &rights, &ELECTION)?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    let records: Api<ClusterHealth> = Api::all(seed.client()?);
    let record = records.get(shoot.namespace()).await?;
    let status = record.status.context("no status")?;
    ensure!(status.state_message.is_none(), "{status:?}");
    let log = operator.process.log()?;
    let remedy = "apply crds/ of the operator's version";
    ensure!(log.matches(remedy).count() == 1, "{log}");

    // What was taken is recorded all the same.
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    let record = records.get(shoot.namespace()).await?;
    let dependents = record.status.context("no status")?.dependents;
    ensure!(
        !dependents.is_empty() && dependents.iter().all(|it| it.owed),
        "{dependents:?}"
    );
    Ok(())
}

async fn e2e_the_finalizer_comes_and_goes(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = env
        .shoot("finalizer")
        .nodes(3)
        .dependents(DEPENDENTS)
        .await?;
    // All of them, so that the message tells of all of them.
    let policy = shoot
        .policy()?
        .with(&json!({"nodeLeaseFailureFraction": 1.0}));
    policy.apply().await?;
    shoot.is_found("Healthy").await?;
    hold_as_well(&env, &shoot, &[OTHER]).await?;
    finalizers_are(&env, &shoot, &[OTHER]).await?;

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    finalizers_are(&env, &shoot, &[FINALIZER, OTHER]).await?;
    let message = status.message.context("no message")?;
    ensure!(
        message.contains("zones: zone-a 1 of 1, zone-b 1 of 1, zone-c 1 of 1"),
        "{message}"
    );

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    finalizers_are(&env, &shoot, &[OTHER]).await?;

    // With it the last one goes, and nothing brings the policy back: least of all the request that
    // would have put the finalizer on.
    let uid = policy.get().await?.uid().context("no UID")?;
    policy.delete().await?;
    hold_as_well(&env, &shoot, &[]).await?;
    let policies: Api<ProbePolicy> = Api::all(env.seed().await?.client()?);
    wait::until("the policy to be gone", async || {
        let found = policies.get_opt(shoot.namespace()).await?;
        seen(found.is_none(), format!("{found:?}"))
    })
    .await?;
    let late = Patch::Apply(json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "ProbePolicy",
        "metadata": {"name": shoot.namespace(), "uid": uid, "finalizers": [FINALIZER]},
    }));
    let params = PatchParams::apply("late").force();
    match policies.patch(shoot.namespace(), &params, &late).await {
        Err(kube::Error::Api(status)) => ensure!(status.code == 409, "{status:?}"),
        other => bail!("not refused: {other:?}"),
    }
    Ok(())
}

/// Somebody else holds the policy by these finalizers, and by no others.
async fn hold_as_well(env: &Env, shoot: &Shoot, finalizers: &[&str]) -> Result<()> {
    let policies: Api<ProbePolicy> = Api::all(env.seed().await?.client()?);
    let patch = Patch::Apply(json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "ProbePolicy",
        "metadata": {"name": shoot.namespace(), "finalizers": finalizers},
    }));
    policies
        .patch(shoot.namespace(), &PatchParams::apply("other"), &patch)
        .await?;
    Ok(())
}

async fn finalizers_are(env: &Env, shoot: &Shoot, expected: &[&str]) -> Result<()> {
    let policies: Api<ProbePolicy> = Api::all(env.seed().await?.client()?);
    wait::until(&format!("the finalizers to be {expected:?}"), async || {
        let policy = policies.get(shoot.namespace()).await?;
        let mut found: Vec<&str> = policy.finalizers().iter().map(|it| &**it).collect();
        found.sort_unstable();
        seen(found == expected, format!("{found:?}"))
    })
    .await
}
