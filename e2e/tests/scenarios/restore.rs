//! The command `restore`: what the operator took is put back without it, and in spite of it.

use super::{
    Scenario,
    failover::PROBER,
    prober::{COUNTS, all_are_restored},
    steps::{CA, ELECTION, KCM, MCM, are, becomes, plain, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::{
    api::Protection,
    prober::step::{IGNORE, RECORD},
};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Seed, Shoot,
    wait::{self},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Longer than it takes the operator to scale down again what it does not ignore.
const A_WHILE: Duration = Duration::from_secs(6);
const HOLDER: &str = "prober";

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_what_is_owed_is_restored_by_hand_with_and_without_the_operator,]
}

/// A seed with a leading operator.
async fn led(env: &Env, name: &str) -> Result<(Arc<Seed>, Operator)> {
    let seed = env.own_seed(name).await?;
    let operator = Operator::replica(
        &seed,
        HOLDER,
        "prober",
        &seed.operator_kubeconfig()?,
        &ELECTION,
    )?;
    wait::until("the operator to lead", async || {
        seed.is_held_by(PROBER, HOLDER).await
    })
    .await?;
    Ok((seed, operator))
}

/// Protected, and so it stays.
async fn cut_off(shoot: &Shoot) -> Result<()> {
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    Ok(())
}

/// Starts `restore` as an administrator, without a terminal; `run` is the name of its log.
fn start(seed: &Seed, run: &str, args: &[&str]) -> Result<Operator> {
    let args = ["restore"].iter().chain(args);
    let args: Vec<String> = args.map(|it| (*it).to_owned()).collect();
    let admin = seed.server().kubeconfig_of("admin")?;
    Operator::exactly(seed, &format!("restore-{run}"), &admin, &args, Vec::new())
}

/// Runs it. It has to end with this code; tells what it printed.
async fn restore(seed: &Seed, run: &str, args: &[&str], code: i32) -> Result<String> {
    let command = start(seed, run, args)?;
    let exit = command.process.ends(wait::LIMIT).await?;
    let printed = command.process.log()?;
    ensure!(
        exit.code() == Some(code),
        "{args:?} ended with {exit}: {printed}"
    );
    Ok(printed)
}

fn says(printed: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(printed.contains(word), "{word:?} is not in {printed}");
    }
    Ok(())
}

/// The last levels come last.
fn in_order(printed: &str) -> Result<()> {
    let places = [CA, MCM, KCM].map(|name| printed.find(&format!("{name}: scale up to")));
    ensure!(places.is_sorted() && !places.contains(&None), "{printed}");
    Ok(())
}

async fn e2e_what_is_owed_is_restored_by_hand_with_and_without_the_operator(
    env: Env,
) -> Result<()> {
    let (seed, operator) = led(&env, "by-hand").await?;
    let first = staffed(env.shoot("by-hand").on(&seed)).await?;
    let second = staffed(env.shoot("by-hand-too").on(&seed).beside(&first)).await?;
    tokio::try_join!(cut_off(&first), cut_off(&second))?;

    // In spite of an operator that is alive, only if that is wanted.
    let name = first.namespace();
    let printed = restore(&seed, "refused", &[name, "--yes"], 1).await?;
    says(&printed, &["held back", HOLDER, "--overrule"])?;
    are(&first, COUNTS.map(taken)).await?;
    let printed = restore(&seed, "overrule", &[name, "--yes", "--overrule"], 0).await?;
    in_order(&printed)?;
    let stay = DEPENDENTS.iter().zip(COUNTS).map(|(name, count)| {
        let dependent = first.dependent(name);
        async move { dependent.stays_at(count, A_WHILE).await }
    });
    futures::future::try_join_all(stay).await?;
    for dependent in DEPENDENTS {
        let ignored = first.dependent(dependent).annotation(IGNORE).await?;
        ensure!(
            ignored.as_deref() == Some("true"),
            "{dependent}: {ignored:?}"
        );
    }
    are(&second, COUNTS.map(taken)).await?;
    // As it says: back into the operator's hands.
    let commands: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("kubectl"))
        .collect();
    ensure!(commands.len() == DEPENDENTS.len(), "{printed}");
    seed.kubectl().script(&commands.join("\n"), &[]).await?;
    for (dependent, count) in DEPENDENTS.into_iter().zip(COUNTS) {
        becomes(&first, dependent, taken(count)).await?;
    }

    // Without an operator.
    operator.process.kill();
    let garbled = json!({"metadata": {"annotations": {RECORD: "three"}}});
    second.dependent(MCM).patch(garbled).await?;
    let printed = restore(&seed, "dry", &["--all", "--dry-run"], 1).await?;
    says(&printed, &[name, second.namespace(), "\"three\""])?;
    let printed = restore(&seed, "unasked", &["--all"], 2).await?;
    says(&printed, &["--yes"])?;
    are(&first, COUNTS.map(taken)).await?;
    is_interrupted(&first).await?;
    let printed = restore(&seed, "all", &["--all", "--yes"], 1).await?;
    says(&printed, &["left:", second.namespace(), MCM])?;
    all_are_restored(&first).await?;
    becomes(&second, CA, plain(COUNTS[2])).await?;
    becomes(&second, KCM, taken(COUNTS[0])).await?;

    // What is refused says how it is mended; the rest goes on from there.
    let mended = json!({"metadata": {"annotations": {RECORD: "3"}}});
    second.dependent(MCM).patch(mended).await?;
    restore(&seed, "mended", &[second.namespace(), "--yes"], 0).await?;
    all_are_restored(&second).await?;
    let printed = restore(&seed, "again", &["--all", "--yes"], 0).await?;
    says(&printed, &["nothing is owed"])
}

/// Stopped while it waits for pods that do not come, it says what is left.
async fn is_interrupted(shoot: &Shoot) -> Result<()> {
    shoot.control_plane.pause_pods();
    let command = start(
        shoot.control_plane.seed(),
        "stopped",
        &[shoot.namespace(), "--yes"],
    )?;
    becomes(shoot, CA, plain(COUNTS[2])).await?;
    let exit = command.process.terminate(wait::LIMIT).await?;
    let printed = command.process.log()?;
    ensure!(exit.code() == Some(1), "{exit}: {printed}");
    says(&printed, &["interrupted", "scale up to"])?;
    shoot.control_plane.resume_pods();
    are(
        shoot,
        [taken(COUNTS[0]), taken(COUNTS[1]), plain(COUNTS[2])],
    )
    .await
}
