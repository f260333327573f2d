//! A seed that does not know which nodes are meant to be alive.

use super::{
    Scenario,
    evidence::{says, shoot, tells, watch},
};
use anyhow::Result;
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{Env, Operator};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_seed_without_machines_is_protected_all_the_same,]
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

    // Their leases stay, since what collects these is at zero.
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    shoot.kubectl()?.run(&["delete", "nodes", "--all"]).await?;
    shoot.is_protected(Protection::None).await.map(drop)
}
