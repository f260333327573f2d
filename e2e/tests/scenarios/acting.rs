//! What people do in mid-outage counts: to dependents, and to nodes.

use super::{
    Scenario,
    prober::{all_are_restored, watched},
    steps::{
        CA, KCM, MCM, are, back, becomes, is, is_degraded, is_sound, owed, plain, recorded, says,
        taken, writes,
    },
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::{
    api::{ClusterHealthStatus, Protection},
    prober::step::IGNORE,
};
use dependency_watchdog_e2e::{Env, Kubectl, Shoot};
use serde_json::json;
use tokio::try_join;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_protection_is_over_when_every_node_is_given_up: 2,
        e2e_ignore_scaling_takes_a_dependent_out_of_our_hands,
    ]
}

/// One story of two shoots, whose nodes stay silent: their Nodes are being deleted, or their Machines.
async fn e2e_a_protection_is_over_when_every_node_is_given_up(env: Env) -> Result<()> {
    env.operator().await?;
    let nodes = async {
        let shoot = protected(&env, "nodes-deleted").await?;
        delete_all(&shoot.kubectl()?, "node", &shoot).await
    };
    let machines = async {
        let shoot = protected(&env, "machines-deleted").await?;
        delete_all(shoot.control_plane.seed().kubectl(), "machine", &shoot).await
    };
    try_join!(nodes, machines).map(drop)
}

async fn protected(env: &Env, name: &str) -> Result<Shoot> {
    let shoot = watched(env, name, 2).await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    Ok(shoot)
}

/// Deletes them, which does not end before their cluster is let go.
async fn delete_all(kubectl: &Kubectl, kind: &str, shoot: &Shoot) -> Result<()> {
    let each = async |arguments: &[&str]| {
        for kubelet in &shoot.kubelets {
            let of = [kind, kubelet.name(), "--namespace", shoot.namespace()];
            kubectl.run(&[arguments, &of[..]].concat()).await?;
        }
        anyhow::Ok(())
    };
    let held = r#"--patch={"metadata":{"finalizers":["example.org/held"]}}"#;
    each(&["patch", "--type=merge", held]).await?;
    each(&["delete", "--wait=false"]).await?;
    shoot.is_protected(Protection::None).await?;
    all_are_restored(shoot).await?;
    // The next shoot of this API server deletes all that is there.
    let free = r#"--patch={"metadata":{"finalizers":null}}"#;
    each(&["patch", "--type=merge", free]).await
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
