//! The scenarios, and in which order they run.

mod exec;
mod install;
mod looping;
mod network;
mod steps;

use crate::node::{Args, tally::Tally};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    exit_interrupted,
    node::{Cluster, Inside, RealShoot},
    process, unless_interrupted,
};
use std::{path::Path, process::ExitCode};
use tokio::sync::oneshot;

/// All of them, in the order in which they are listed. The first is what the others need.
const ALL: [&str; 5] = [INSTALL, LOOPING, NETWORK, EXEC, UNINSTALL];
const INSTALL: &str = "install";
const LOOPING: &str = "looping";
const NETWORK: &str = "network";
const EXEC: &str = "exec";
const UNINSTALL: &str = "uninstall";
/// Those for which there is a shoot.
const OF_SHOOT: [&str; 2] = [NETWORK, EXEC];

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
    let wanted = |it: &&str| names.is_empty() || named(it) || *it == INSTALL;
    Ok(ALL.into_iter().filter(wanted).collect())
}

/// Runs them inside of the namespaces, and says how they went.
pub(crate) async fn run(root: &Path, args: &Args) -> ExitCode {
    let tally = Tally::new();
    let ended = unless_interrupted(all(root, args, &tally)).await;
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

async fn all(root: &Path, args: &Args, tally: &Tally) -> Result<()> {
    let selected = selected(&args.names)?;
    let inside = Inside::prepare(root).await?;
    tally.say("node", "the control plane and one node start");
    let image = args.image.as_deref().context("no image")?;
    let cluster = Cluster::start(inside, image).await?;
    let cluster = &cluster;
    tally.say("node", "ready");
    let is = |name: &str| selected.contains(&name);
    let of_shoot = selected.iter().filter(|it| OF_SHOOT.contains(it));
    let of_shoot: Vec<&str> = of_shoot.copied().collect();
    let (installed, shoot) = tokio::join!(
        tally.attempt(INSTALL, install::restricted(cluster)),
        shoot(cluster, tally, !of_shoot.is_empty())
    );
    if !installed {
        for name in selected.into_iter().filter(|it| *it != INSTALL) {
            tally.skip(name, "nothing is installed");
        }
        return Ok(());
    }
    let looping = async {
        if is(LOOPING) {
            tally
                .attempt(LOOPING, looping::ended(cluster, args.quick))
                .await;
        }
    };
    let network = async {
        let shoot = shoot.transpose()?;
        let started = async {
            let shoot = shoot?;
            network::is_probed(cluster, &shoot).await?;
            anyhow::Ok(shoot)
        };
        match started.await {
            Ok(shoot) => {
                on_shoot(cluster, tally, &shoot, &is).await;
                Some(shoot)
            }
            Err(error) => {
                for name in of_shoot {
                    tally.skip(name, &format!("the shoot did not start: {error:#}"));
                }
                None
            }
        }
    };
    let ((), shoot) = tokio::join!(looping, network);
    if is(UNINSTALL) {
        tally
            .attempt(UNINSTALL, install::uninstalled(cluster, shoot.is_some()))
            .await;
    }
    Ok(())
}

async fn shoot(cluster: &Cluster, tally: &Tally, wanted: bool) -> Result<Option<RealShoot>> {
    if !wanted {
        return Ok(None);
    }
    tally.say("node", "a shoot with two nodes starts");
    RealShoot::start(cluster, network::NAMESPACE)
        .await
        .map(Some)
}

/// What happens to a shoot with nodes of its own, so that each has it as it wants it.
async fn on_shoot(cluster: &Cluster, tally: &Tally, shoot: &RealShoot, is: &impl Fn(&str) -> bool) {
    let (restored, is_restored) = oneshot::channel();
    let network = async {
        if is(NETWORK) {
            let run = network::is_cut(cluster, shoot, restored);
            tally.attempt(NETWORK, run).await;
        }
    };
    // It scales nothing: in the minute after which the marks of the other fall.
    let exec = async {
        // It fails if there is nothing to wait for any more.
        let _ = is_restored.await;
        if is(EXEC) {
            tally.attempt(EXEC, exec::is_cut(cluster, shoot)).await;
        }
    };
    tokio::join!(network, exec);
}
