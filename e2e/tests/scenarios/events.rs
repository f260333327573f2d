//! What is told as events, as a user sees it with kubectl.

use super::{
    Scenario,
    prober::{COUNTS, watched},
    steps::{CA, KCM, MCM},
};
use anyhow::{Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Seed, Shoot,
    wait::{self, seen},
};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_an_outage_is_told_by_events]
}

async fn e2e_an_outage_is_told_by_events(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = watched(&env, "told", 3).await?;
    shoot.is_found("Healthy").await?;
    let namespace = shoot.namespace();
    let record = ["describe", "clusterhealth", namespace];
    let policy = ["describe", "probepolicy", namespace];

    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    for (name, count) in [KCM, MCM, CA].into_iter().zip(COUNTS) {
        let down = format!("scaled from {count} to 0 replicas for policy {namespace}: ");
        let dependent = ["describe", "deployment", name, "-n", namespace];
        shows(
            &shoot,
            &dependent,
            &[&["Warning", "ScaledDown", "dependency-watchdog-prober", &down]],
        )
        .await?;
    }
    shows(
        &shoot,
        &record,
        &[
            &[
                "Warning",
                "Protecting",
                "node leases that count are expired",
            ],
            &[
                "Normal",
                "Protected",
                "scaled to zero until the leases are fresh again",
            ],
        ],
    )
    .await?;
    shows(
        &shoot,
        &policy,
        &[
            &["Normal", "FinalizerAdded", namespace],
            &["Warning", "Protecting", namespace],
        ],
    )
    .await?;

    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    shows(
        &shoot,
        &record,
        &[
            &["Normal", "Restoring"],
            &["Normal", "Restored", "its dependents are back after "],
        ],
    )
    .await?;
    shows(
        &shoot,
        &policy,
        &[
            &["Normal", "FinalizerRemoved"],
            &["Normal", "NoneProtected"],
        ],
    )
    .await?;

    // All that was told in the shoot's namespace, once each.
    let ours = "reportingComponent=dependency-watchdog-prober";
    let columns = "custom-columns=:reason,:involvedObject.name";
    let list = [
        "get",
        "events",
        "-n",
        namespace,
        "--field-selector",
        ours,
        "-o",
        columns,
    ];
    shows(
        &shoot,
        &list,
        &[&["ScaledUp", KCM], &["ScaledUp", MCM], &["ScaledUp", CA]],
    )
    .await?;
    let listed = shoot.control_plane.seed().kubectl().run(&list).await?;
    let listed = listed.lines().filter(|line| !line.trim().is_empty());
    ensure!(
        listed.clone().count() == 6,
        "{:?}",
        listed.collect::<Vec<_>>()
    );
    Ok(())
}

/// Waits until kubectl, for the shoot's seed, shows a line with each of these groups of words.
async fn shows(shoot: &Shoot, arguments: &[&str], lines: &[&[&str]]) -> Result<()> {
    shown(shoot.control_plane.seed(), arguments, lines).await
}

/// Waits until kubectl shows a line with each of these groups of words.
pub(super) async fn shown(seed: &Seed, arguments: &[&str], lines: &[&[&str]]) -> Result<()> {
    let kubectl = seed.kubectl();
    wait::until(
        &format!("kubectl {arguments:?} to show {lines:?}"),
        async || {
            let shown = kubectl.run(arguments).await?;
            let has = |words: &[&str]| {
                let mut lines = shown.lines();
                lines.any(|line| words.iter().all(|word| line.contains(word)))
            };
            seen(lines.iter().all(|words| has(words)), &shown)
        },
    )
    .await
}
