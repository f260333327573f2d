//! How everything stands.

use anyhow::Result;
use dependency_watchdog::api::{ClusterHealth, ProbePolicy};
use fake::chaos::{Seen, snapshot};
use kube::{Api, Client};
use serde_json::Value;

/// Reads what is to be compared; the ClusterHealth and the policy have the name of the namespace.
pub(super) async fn take(client: &Client, namespace: &str, history: &[Seen]) -> Result<Value> {
    let healths: Api<ClusterHealth> = Api::all(client.clone());
    let health = healths.get_opt(namespace).await?;
    let health = health.map(|found| serde_json::to_value(found.status));
    let policies: Api<ProbePolicy> = Api::all(client.clone());
    let policy = policies.get_opt(namespace).await?.map(serde_json::to_value);
    let (health, policy) = (health.transpose()?, policy.transpose()?);
    Ok(snapshot::of(
        history,
        health.as_ref(),
        policy.as_ref(),
        namespace,
    ))
}
