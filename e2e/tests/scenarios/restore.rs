//! The command `restore`: what the operator took is put back without it, and in spite of it.

use super::{
    Scenario,
    failover::PROBER,
    prober::{COUNTS, all_are_restored},
    steps::{CA, ELECTION, KCM, MCM, are, becomes, plain, staffed, taken},
};
use anyhow::{Result, ensure};
use dependency_watchdog::{
    api::{DependentRef, Protection},
    prober::step::{IGNORE, MARK, RECORD},
};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Seed, Shoot,
    wait::{self, seen},
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

    // Without an operator, and with a dependent of another kind.
    operator.process.kill();
    let garbled = json!({"metadata": {"annotations": {RECORD: "three"}}});
    second.dependent(MCM).patch(garbled).await?;
    put_taken_etcd(&first).await?;
    let printed = restore(&seed, "dry", &["--all", "--dry-run"], 1).await?;
    says(
        &printed,
        &[name, second.namespace(), "scale up to 5", "\"three\""],
    )?;
    let printed = restore(&seed, "unasked", &["--all"], 2).await?;
    says(&printed, &["--yes"])?;
    are(&first, COUNTS.map(taken)).await?;
    is_interrupted(&first).await?;
    let printed = restore(&seed, "all", &["--all", "--yes"], 1).await?;
    says(&printed, &["left:", second.namespace(), MCM])?;
    all_are_restored(&first).await?;
    etcd_has(&seed, name, 5, "").await?;
    becomes(&second, CA, plain(COUNTS[2])).await?;
    becomes(&second, KCM, taken(COUNTS[0])).await?;

    // What is refused says how it is mended; the rest goes on from there.
    let mended = json!({"metadata": {"annotations": {RECORD: "3"}}});
    second.dependent(MCM).patch(mended).await?;
    restore(&seed, "mended", &[second.namespace(), "--yes"], 0).await?;
    all_are_restored(&second).await?;
    let printed = restore(&seed, "again", &["--all", "--yes"], 0).await?;
    says(&printed, &["nothing is owed"])?;

    // The same for the other kind, overruled.
    take_etcd(&seed, name).await?;
    restore(&seed, "overrule-etcd", &[name, "--yes", "--overrule"], 0).await?;
    etcd_has(&seed, name, 5, "true").await
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

/// An Etcd of five at zero, which the policy of the shoot names since the operator is gone.
async fn put_taken_etcd(shoot: &Shoot) -> Result<()> {
    let (seed, namespace) = (shoot.control_plane.seed(), shoot.namespace());
    seed.apply(include_str!("etcd.yaml")).await?;
    let etcd = json!({
        "apiVersion": "druid.gardener.cloud/v1alpha1",
        "kind": "Etcd",
        "metadata": {"name": "etcd-main", "namespace": namespace},
        "spec": {"replicas": 0},
    });
    let apply = async || {
        let applied = seed.apply(&etcd.to_string()).await;
        seen(applied.is_ok(), format!("{applied:?}"))
    };
    wait::until("the seed to serve Etcd", apply).await?;
    take_etcd(seed, namespace).await?;
    // Its controller is the scenario.
    let present = r#"{"status": {"replicas": 5}}"#;
    let status = [
        "-n",
        namespace,
        "patch",
        "etcd",
        "etcd-main",
        "--subresource=status",
    ];
    let patch = [&status[..], &["--type=merge", "-p", present]].concat();
    seed.kubectl().run(&patch).await?;
    let policy = shoot.policy()?;
    let reference = DependentRef {
        api_version: "druid.gardener.cloud/v1alpha1".to_owned(),
        kind: "Etcd".to_owned(),
        name: "etcd-main".to_owned(),
    };
    let infos = json!({"dependentResourceInfos": [{
        "ref": reference, "optional": false, "scaleUp": {"level": 0}, "scaleDown": {"level": 0},
    }]});
    policy.with(&infos).apply().await
}

/// As the operator leaves one of five behind.
async fn take_etcd(seed: &Seed, namespace: &str) -> Result<()> {
    let taken = json!({
        "metadata": {"annotations": {MARK: "", RECORD: "5"}}, "spec": {"replicas": 0},
    });
    let patch = [
        "-n",
        namespace,
        "patch",
        "etcd",
        "etcd-main",
        "--type=merge",
        "-p",
    ];
    let taken = taken.to_string();
    let patch = [&patch[..], &[&*taken]].concat();
    seed.kubectl().run(&patch).await?;
    Ok(())
}

async fn etcd_has(seed: &Seed, namespace: &str, replicas: i32, ignored: &str) -> Result<()> {
    let get = ["-n", namespace, "get", "etcd", "etcd-main", "-o", "json"];
    let found = seed.kubectl().run(&get).await?;
    let found: serde_json::Value = serde_json::from_str(&found)?;
    let spec = found.pointer("/spec/replicas");
    ensure!(spec == Some(&json!(replicas)), "{found}");
    let annotation = |key: &str| found.pointer("/metadata/annotations")?.get(key)?.as_str();
    ensure!(
        annotation(MARK).is_none() && annotation(RECORD).is_none(),
        "{found}"
    );
    let told = annotation(IGNORE).unwrap_or_default();
    ensure!(told == ignored, "{found}");
    Ok(())
}
