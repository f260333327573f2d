//! What the operator costs, and how soon it acts: measured on a farm of simulated shoots and a real
//! seed, on this machine.
//!
//! It fails when something does not happen (a shoot is not protected, not restored, or touched
//! although it is healthy), never because something is slow. See docs/benchmarks.md.

mod delay;
mod host;
mod run;
mod stats;
mod table;
mod world;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use dependency_watchdog::api;
use dependency_watchdog_e2e::{Env, farm::Death};
use std::{fmt, num::ParseIntError, path::Path, str::FromStr, time::Duration};

/// A real kubelet's lease, and kube-controller-manager's grace.
const LEASE_SECONDS: u64 = 40;
/// The default of a policy.
const INTERVAL_SECONDS: u64 = 10;

/// What is measured.
#[derive(Args, Debug)]
pub(crate) struct Settings {
    /// How many shoots, of how many nodes each: one run for each of `50` or `100x500`
    #[arg(long, value_name = "SHOOTS[xNODES]", value_delimiter = ',', default_values_t = [Size::new(50), Size::new(300)])]
    shoots: Vec<Size>,
    /// Nodes of each shoot, where it is not said with the shoots
    #[arg(long, default_value_t = 100)]
    nodes: usize,
    /// How long to measure while nothing is wrong; Nodes are listed every 5 minutes
    #[arg(long, default_value = "300s", value_parser = duration)]
    measure: Duration,
    /// How many of a hundred API servers die before the outage
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(..=50))]
    dead: u8,
    /// How long to measure with the dead among the living; as long as before compares the same
    #[arg(long, default_value = "300s", value_parser = duration)]
    measure_dead: Duration,
    /// How many shoots fall silent at once
    #[arg(long, default_value_t = 20)]
    outage: usize,
    /// Start a second replica after the first, which stands by, and measure what it costs. Shoots are then asked
    /// by both
    #[arg(long)]
    standby: bool,
    /// Divides the leases' 40 s, the grace's 40 s and the probes' 10 s: for a look at the bench
    /// itself, not for figures
    #[arg(long, default_value_t = 1, value_parser = faster)]
    faster: u32,
}

/// A number of shoots, perhaps with that of their nodes.
#[derive(Clone, Copy, Debug)]
struct Size {
    shoots: usize,
    nodes: Option<usize>,
}

impl Size {
    fn new(shoots: usize) -> Self {
        Self {
            shoots,
            nodes: None,
        }
    }
}

impl FromStr for Size {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (shoots, nodes) = match text.split_once('x') {
            Some((shoots, nodes)) => (shoots, Some(nodes.parse()?)),
            None => (text, None),
        };
        let shoots = shoots.parse()?;
        Ok(Self { shoots, nodes })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nodes {
            Some(nodes) => write!(f, "{}x{nodes}", self.shoots),
            None => write!(f, "{}", self.shoots),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
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

    /// For how long the seed is asked for nothing until the start is over. Healthy dependents are looked at
    /// once more 90 s after the first look, and Nodes that there was no time for are tried again after 60 s.
    fn quiet(&self) -> Duration {
        Duration::from_secs(100) / self.faster
    }

    /// For whatever is waited for. Generous: it ends a run in which something does not happen.
    fn limit(&self, shoots: usize) -> Duration {
        Duration::from_secs(180)
            + Duration::from_secs(2) * u32::try_from(shoots).unwrap_or(u32::MAX)
    }

    /// Who falls silent, and who is dead by then: spread over all shoots.
    fn casualties(&self, shoots: usize) -> (Vec<usize>, Vec<(usize, Death)>) {
        let spread = |from: &[usize], count: usize| -> Vec<usize> {
            let places = (0..count).map(|number| number * from.len() / count);
            places.filter_map(|it| from.get(it).copied()).collect()
        };
        let all: Vec<usize> = (0..shoots).collect();
        let silent = spread(&all, self.outage);
        let others: Vec<usize> = all.into_iter().filter(|it| !silent.contains(it)).collect();
        let dead = shoots * usize::from(self.dead) / 100;
        let dead = spread(&others, dead.min(others.len()));
        (
            silent,
            dead.into_iter()
                .zip(Death::ALL.into_iter().cycle())
                .collect(),
        )
    }

    /// Refuses what cannot be measured.
    pub(crate) fn check(&self) -> Result<()> {
        for size in &self.shoots {
            ensure!(
                size.nodes.unwrap_or(self.nodes) > 1,
                "--nodes: a shoot of fewer than 2 nodes is never protected"
            );
            ensure!(
                (1..=size.shoots).contains(&self.outage),
                "--outage: {} of {} shoots cannot fall silent",
                self.outage,
                size.shoots
            );
        }
        Ok(())
    }

    fn told(&self) -> String {
        let Self {
            measure,
            measure_dead,
            ..
        } = self;
        format!(
            "Settings: grace {:?}, leases of {:?}, measured for {measure:?}, probes every {:?}, with the dead \
             for {measure_dead:?}.",
            self.grace(),
            self.lease(),
            self.interval(),
        )
    }
}

/// Measures, and writes what came of it.
pub(crate) async fn run(root: &Path, settings: &Settings) -> Result<()> {
    let env = Env::prepare(root).await?;
    let (mut machine, mut runs) = (String::new(), Vec::new());
    for size in &settings.shoots {
        let (shoots, nodes) = (size.shoots, size.nodes.unwrap_or(settings.nodes));
        let rows;
        (rows, machine) = run::run(&env, root, settings, shoots, nodes)
            .await
            .with_context(|| format!("with {shoots} shoots of {nodes} nodes"))?;
        runs.push((format!("{shoots} × {nodes}"), rows));
    }
    let told = settings.told();
    println!("\n{machine}\n{told}\n\n{}", table::markdown(&runs));
    Ok(())
}
