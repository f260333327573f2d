//! Which nodes' silence is evidence: those that are meant to be alive.

use super::{
    Scenario,
    evidence::{nothing_is_scaled, report, says, shoot, tells, watch},
};
use anyhow::Result;
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{Env, Operator};
use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_nodes_that_do_not_count_are_no_evidence,
        e2e_a_seed_without_machines_is_protected_all_the_same,
        e2e_a_fresh_lease_ends_a_protection_whatever_the_machine,
    ]
}

/// Worker pools of the Shoot: one with machine-controller-manager's node conditions, one with its
/// own.
fn pools() -> Value {
    json!({"spec": {"shoot": {"spec": {"provider": {"workers": [
        {"name": "worker"},
        {"name": "own", "machineControllerManager": {"nodeConditions": ["Rusty"]}},
    ]}}}}})
}

/// Thirteen nodes, of which nine are taken down after the operator has read them: it has to read
/// them again before it takes their silence for an outage.
async fn e2e_nodes_that_do_not_count_are_no_evidence(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "candidates", 13).await?;
    let control_plane = &shoot.control_plane;
    control_plane.patch_cluster(pools()).await?;
    let own_list = json!({"metadata": {"labels": {"worker.gardener.cloud/pool": "own"}}});
    for index in [5, 9] {
        shoot.kubelet(index)?.patch_node(own_list.clone()).await?;
    }
    let status = watch(&shoot).await?;
    says(&status, "Healthy", (13, 0, 0), &["none of 13 node leases"])?;

    let unmanaged = json!({"metadata": {"annotations": {
        "node.machine.sapcloud.io/not-managed-by-mcm": "1",
    }}});
    shoot.kubelet(0)?.patch_node(unmanaged).await?;
    let name = |index| anyhow::Ok(shoot.kubelet(index)?.name());
    control_plane.set_machine_phase(name(1)?, "Failed").await?;
    control_plane
        .set_machine_phase(name(2)?, "Terminating")
        .await?;
    control_plane.delete_machine(name(3)?).await?;
    for (index, condition, reason) in [
        (4, "KernelDeadlock", "TaskHung"),
        (5, "Rusty", "Rain"),
        (6, "InPlaceUpdate", "ReadyForUpdate"),
        (7, "InPlaceUpdate", "UpdateFailed"),
        // These two count: their pool replaces nothing for it, and their update is over.
        (9, "DiskPressure", "KubeletHasDiskPressure"),
        (10, "InPlaceUpdate", "UpdateSuccessful"),
    ] {
        let kubelet = shoot.kubelet(index)?;
        kubelet.set_condition(condition, "True", reason).await?;
    }
    shoot.cut(9);
    let orphan = name(8)?;
    shoot.kubectl()?.run(&["delete", "node", orphan]).await?;

    let excluded = [
        "leases that do not count",
        "1 without a Node",
        "1 without a Machine",
        "1 with a Failed Machine",
        "1 with a Terminating Machine",
        "1 not managed by machine-controller-manager",
        "2 with a condition of their worker pool's list",
        "2 in an in-place update",
    ];
    let status = nothing_is_scaled(&shoot).await?;
    says(&status, "Healthy", (4, 0, 0), &excluded)?;
    tells(&status, &["none of 4 node leases is expired"])?;

    shoot.cut(12);
    let status = shoot.is_protected(Protection::Active).await?;
    says(&status, "Outage", (4, 3, 0), &excluded)?;
    tells(&status, &["3 of 4 node leases that count are expired"])
}

async fn e2e_a_seed_without_machines_is_protected_all_the_same(env: Env) -> Result<()> {
    let seed = env.own_seed("machineless").await?;
    let shoot = shoot(&env, "machineless", 3).on(&seed).await?;
    let delete = ["delete", "crd", "machines.machine.sapcloud.io"];
    seed.kubectl().run(&delete).await?;
    let _operator = Operator::start(&seed, "prober", "prober", &[])?;
    let skipped = "the seed does not serve Machines, so their phases are not considered";
    watch(&shoot).await?;
    // It is looked up when there is time.
    let status = shoot
        .reports("the missing kind to be told", |status| {
            let message = status.message.as_deref().unwrap_or_default();
            message.contains(skipped)
        })
        .await?;
    says(&status, "Healthy", (3, 0, 0), &[skipped])?;

    shoot.cut_all();
    let status = shoot.is_protected(Protection::Active).await?;
    tells(&status, &["are an outage", skipped])?;
    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    Ok(())
}

async fn e2e_a_fresh_lease_ends_a_protection_whatever_the_machine(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = shoot(&env, "frozen-phases", 3).await?;
    watch(&shoot).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;

    for kubelet in &shoot.kubelets {
        let machine = kubelet.name();
        shoot
            .control_plane
            .set_machine_phase(machine, "Failed")
            .await?;
    }
    // Other worker pools have Nodes and Machines read again.
    shoot.control_plane.patch_cluster(pools()).await?;
    shoot.is_found("NoCandidates").await?;
    let status = report(&shoot).await?;
    says(
        &status,
        "NoCandidates",
        (0, 0, 0),
        &[
            "does not show that the outage is over",
            "3 with a Failed Machine",
        ],
    )?;
    anyhow::ensure!(status.protection == Protection::Active, "{status:?}");

    shoot.restore_all();
    let status = shoot.is_protected(Protection::None).await?;
    tells(&status, &["none of"])
}
