//! The scenarios, and in which order they run.

mod chart;
mod exec;
mod install;
mod leader;
mod looping;
mod network;
mod steps;

use crate::{Cli, tally::Tally};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    exit_interrupted,
    node::{Cluster, Inside},
    process, unless_interrupted,
};
use std::{path::Path, process::ExitCode};

/// All of them, in the order in which they are listed. The first is what the others need.
const ALL: [&str; 9] = [
    INSTALL,
    LOOPING,
    LEADER,
    NETWORK,
    CONNECTIONS,
    DELETED,
    EXEC,
    UNINSTALL,
    CHART,
];
const INSTALL: &str = "install";
const LOOPING: &str = "looping";
const LEADER: &str = "leader";
const NETWORK: &str = "network";
const CONNECTIONS: &str = "connections";
const DELETED: &str = "deleted";
const EXEC: &str = "exec";
const UNINSTALL: &str = "uninstall";
const CHART: &str = "chart";
/// Those for which there is a shoot.
const OF_SHOOT: [&str; 4] = [NETWORK, CONNECTIONS, DELETED, EXEC];

/// Those of these names with what they need, or all.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static str>> {
    for name in names {
        ensure!(
            ALL.contains(&name.as_str()),
            "there is no {name}: these are {}",
            ALL.join(", ")
        );
    }
    let named = |it: &str| names.iter().any(|name| name == it);
    let is_needed = |it: &str| it == INSTALL || it == UNINSTALL && named(CHART);
    let wanted = |it: &&str| names.is_empty() || named(it) || is_needed(it);
    Ok(ALL.into_iter().filter(wanted).collect())
}

/// Runs them inside of the namespaces, and says how they went.
pub(crate) async fn run(root: &Path, cli: &Cli) -> ExitCode {
    let tally = Tally::new();
    let ended = unless_interrupted(all(root, cli, &tally)).await;
    process::kill_all();
    if let Err(error) = &ended {
        eprintln!("\nerror: {error:#}");
    }
    println!("\n{tally}");
    match ended {
        Ok(true) if tally.is_well() => ExitCode::SUCCESS,
        Ok(false) => exit_interrupted(),
        _ => ExitCode::FAILURE,
    }
}

async fn all(root: &Path, cli: &Cli, tally: &Tally) -> Result<()> {
    let selected = selected(&cli.names)?;
    let inside = Inside::prepare(root).await?;
    tally.say("node", "the control plane and one node start");
    let image = cli.image.as_deref().context("no image")?;
    let cluster = Cluster::start(inside, image).await?;
    let cluster = &cluster;
    tally.say("node", "ready");
    if !tally.attempt(INSTALL, install::restricted(cluster)).await {
        for name in selected.into_iter().filter(|it| *it != INSTALL) {
            tally.skip(name, "nothing is installed");
        }
        return Ok(());
    }
    let is = |name: &str| selected.contains(&name);
    let weeder = async {
        if is(LOOPING) {
            tally
                .attempt(LOOPING, looping::ended(cluster, cli.quick))
                .await;
        }
    };
    // One after the other: each has the prober and the shoot for itself.
    let prober = async {
        if is(LEADER) {
            tally.attempt(LEADER, leader::is_followed(cluster)).await;
        }
        on_shoot(cluster, tally, &is).await;
    };
    tokio::join!(weeder, prober);
    if is(UNINSTALL) {
        tally
            .attempt(UNINSTALL, install::uninstalled(cluster))
            .await;
    }
    if is(CHART) {
        tally.attempt(CHART, chart::restricted(cluster)).await;
    }
    Ok(())
}

/// What happens to a shoot with nodes of its own.
async fn on_shoot(cluster: &Cluster, tally: &Tally, is: &impl Fn(&str) -> bool) {
    let wanted: Vec<_> = OF_SHOOT.into_iter().filter(|it| is(it)).collect();
    if wanted.is_empty() {
        return;
    }
    tally.say("node", "a shoot with two nodes starts");
    let shoot = match network::shoot(cluster).await {
        Ok(shoot) => shoot,
        Err(error) => {
            for name in wanted {
                tally.skip(name, &format!("the shoot did not start: {error:#}"));
            }
            return;
        }
    };
    for name in wanted {
        match name {
            NETWORK => tally.attempt(name, network::is_cut(cluster, &shoot)).await,
            CONNECTIONS => {
                tally
                    .attempt(name, network::connections_die(cluster, &shoot))
                    .await
            }
            DELETED => {
                tally
                    .attempt(name, network::leader_is_deleted(cluster, &shoot))
                    .await
            }
            _ => tally.attempt(name, exec::is_cut(cluster, &shoot)).await,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_selected_comes_with_what_it_needs() {
        let names =
            |of: &[&str]| selected(&of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&[]).unwrap(), ALL);
        // The chart brings the same objects: not beside what the manifests have installed.
        assert_eq!(names(&[CHART]).unwrap(), [INSTALL, UNINSTALL, CHART]);
        assert_eq!(names(&[LOOPING]).unwrap(), [INSTALL, LOOPING]);
        assert!(
            names(&["loping"])
                .unwrap_err()
                .to_string()
                .contains(LOOPING)
        );
    }
}
