//! What is more than a scenario: the demo, figures, and real nodes.
//!
//!   DWD_BIN       the operator's binary (default: the one that Cargo has built beside this)
//!   DWD_E2E_KEEP  keep files and logs, also when all went well

mod bench;
mod demo;
mod failover;
mod node;

use anyhow::Result;
use clap::{Parser, Subcommand};
use dependency_watchdog_e2e::{
    Files,
    farm::{self, FarmArgs},
    unless_interrupted,
};
use std::{path::Path, process::ExitCode};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// Shows and measures the operator on real servers.
#[derive(Debug, Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Shows what the operator is for, in little more than a minute
    Demo,
    /// Measures what the operator costs, and how soon it acts
    Bench(bench::Settings),
    /// Simulates shoots; the bench starts it itself
    #[command(hide = true)]
    Farm(FarmArgs),
    /// Measures how soon a standby acts on outages that a leader leaves
    Failover,
    /// Runs what is shipped on real nodes, on this machine
    Node(node::Args),
}

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        // What clients and watches complain of is no news.
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    match Cli::parse().part {
        Part::Demo => in_files("demo", demo::run),
        Part::Bench(settings) => {
            settings.check()?;
            in_files("bench", async |root| bench::run(root, &settings).await)
        }
        Part::Farm(args) => {
            Runtime::new()?.block_on(farm::run(args))?;
            Ok(ExitCode::SUCCESS)
        }
        Part::Failover => in_files("failover", failover::run),
        Part::Node(args) => node::run(&args),
    }
}

/// Runs this with a directory of its own, until it ends or a signal cuts it short.
fn in_files(name: &str, run: impl AsyncFnOnce(&Path) -> Result<()>) -> Result<ExitCode> {
    let runtime = Runtime::new()?;
    let files = Files::new(&format!("dependency-watchdog-{name}-"))?;
    let ended = runtime.block_on(unless_interrupted(run(files.root())));
    Ok(files.end(&ended))
}
