//! What the operator makes of a definition that is older than itself.

use super::{
    Scenario,
    steps::{ELECTION, staffed},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::{ClusterHealth, Protection};
use dependency_watchdog_e2e::{
    Env, Operator,
    wait::{self, seen},
};
use kube::Api;
use serde_json::json;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_definition_that_is_older_than_the_operator_costs_its_new_fields_alone,]
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
    let _operator = Operator::replica(&seed, "outdated", "prober", &rights, &ELECTION)?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    let records: Api<ClusterHealth> = Api::all(seed.client()?);
    let record = records.get(shoot.namespace()).await?;
    let status = record.status.context("no status")?;
    ensure!(status.state_message.is_none(), "{status:?}");

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
