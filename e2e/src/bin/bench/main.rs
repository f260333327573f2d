//! What the operator costs, and how soon it acts: measured on a farm of simulated shoots and a real
//! seed, on this machine.
//!
//! It fails when something does not happen (a shoot is not protected, not restored, or touched
//! although it is healthy), never because something is slow. See docs/benchmarks.md.
//!
//!   DWD_BIN       the operator's binary (default: the one that Cargo has built beside this)
//!   DWD_E2E_KEEP  keep files and logs, also when all went well

mod delay;
mod farm;
mod gaps;
mod host;
mod hosted;
mod results;
mod run;
mod stats;
mod table;
mod usage;
mod world;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};
use dependency_watchdog::api;
use dependency_watchdog_e2e::{Env, Files, INTERRUPTED, interrupted};
use farm::FarmArgs;
use results::{Host, Report};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// A real kubelet's lease, and kube-controller-manager's grace.
const LEASE_SECONDS: u64 = 40;
/// The default of a policy.
const INTERVAL_SECONDS: u64 = 10;

/// Measures what the operator costs, and how soon it acts.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The farm; the bench starts it itself
    #[command(hide = true)]
    Farm(FarmArgs),
}

#[derive(Args, Debug)]
struct Settings {
    /// How many shoots: one run each
    #[arg(long, value_delimiter = ',', default_values_t = [50, 300])]
    shoots: Vec<usize>,
    /// Nodes of each shoot
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// How long to measure while nothing is wrong
    #[arg(long, default_value = "120s", value_parser = duration)]
    measure: Duration,
    /// How many shoots fall silent at once
    #[arg(long, default_value_t = 20)]
    outage: usize,
    /// Divides the leases' 40 s, the grace's 40 s and the probes' 10 s: for a look at the bench
    /// itself, not for figures
    #[arg(long, default_value_t = 1, value_parser = faster)]
    faster: u32,
    /// Write the table to this file, too
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write all that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn duration(text: &str) -> Result<Duration, api::DurationError> {
    text.parse().map(|duration: api::Duration| duration.get())
}

/// Kubelets cannot renew more often than every second.
fn faster(text: &str) -> Result<u32> {
    let by = text.parse()?;
    ensure!([1, 2, 5, 10].contains(&by), "must be 1, 2, 5 or 10");
    Ok(by)
}

impl Settings {
    fn lease(&self) -> Duration {
        Duration::from_secs(LEASE_SECONDS) / self.faster
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(LEASE_SECONDS) / self.faster
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(INTERVAL_SECONDS) / self.faster
    }

    /// For whatever is waited for. Generous: it ends a run in which something does not happen.
    fn limit(&self, shoots: usize) -> Duration {
        Duration::from_secs(180)
            + Duration::from_secs(2) * u32::try_from(shoots).unwrap_or(u32::MAX)
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.nodes > 1,
            "--nodes: a shoot of fewer than 2 nodes is never protected"
        );
        for shoots in &self.shoots {
            ensure!(
                (1..=*shoots).contains(&self.outage),
                "--outage: {} of {shoots} shoots cannot fall silent",
                self.outage
            );
        }
        Ok(())
    }

    fn told(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("measured for", format!("{:?}", self.measure)),
            ("leases of", format!("{:?}", self.lease())),
            ("grace", format!("{:?}", self.grace())),
            ("probes every", format!("{:?}", self.interval())),
        ])
    }
}

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        // What clients and watches complain of at the end is no news.
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let cli = Cli::parse();
    let runtime = Runtime::new()?;
    if let Some(Part::Farm(args)) = cli.part {
        runtime.block_on(farm::run(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    cli.settings.check()?;
    let files = Files::new("dependency-watchdog-bench-")?;
    let measured = runtime.block_on(async {
        tokio::select! {
            // A bench cut short by a signal has not failed.
            biased;
            signal = interrupted() => signal.map(|()| false),
            done = measure(files.root(), &cli.settings) => done.map(|()| true),
        }
    });
    if let Err(error) = &measured {
        eprintln!("\nerror: {error:#}");
    }
    files.tear_down(measured.is_err());
    Ok(match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("\ninterrupted: everything is stopped and removed");
            ExitCode::from(INTERRUPTED)
        }
        Err(_) => ExitCode::FAILURE,
    })
}

async fn measure(root: &Path, settings: &Settings) -> Result<()> {
    let env = Env::prepare(root).await?;
    let mut report = Report {
        host: Host::default(),
        settings: settings.told(),
        runs: Vec::new(),
    };
    for shoots in &settings.shoots {
        let (run, host) = run::run(&env, root, settings, *shoots)
            .await
            .with_context(|| format!("with {shoots} shoots"))?;
        report.runs.push(run);
        report.host = host;
    }
    let table = table::markdown(&report);
    println!("\n{table}");
    let write = |path: &Option<PathBuf>, text: &str| {
        let Some(path) = path else { return Ok(()) };
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&settings.markdown, &table)?;
    write(&settings.json, &serde_json::to_string_pretty(&report)?)
}
