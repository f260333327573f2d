//! A soak: for twenty minutes things go wrong at random, and are mended, and changed by people; in the
//! end all is as it was, no rule was broken, and the operator uses no more than before. See
//! docs/soak.md.
//!
//! It ends with 1 if anything is not so, and then keeps the evidence.
//!
//!   DWD_BIN       the operator's binary (default: the one that Cargo has built beside this)
//!   DWD_E2E_KEEP  keep files and logs, also when all went well

mod leaks;
mod replicas;
mod report;
mod rest;
mod versions;
mod well;
mod world;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::{Args, Parser, Subcommand};
use dependency_watchdog_e2e::{
    Env, Files,
    farm::{self, FarmArgs},
    unless_interrupted,
};
use fake::oracle::plan::{Leg, Size, plan};
use report::Report;
use rest::Rest;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;
use world::World;

/// What a rest takes, of the time of a leg.
const REST: Duration = Duration::from_secs(45);
/// To find out anything a leg has to last so long.
const SHORTEST: Duration = Duration::from_secs(30);

/// Has things go wrong at random, and shows that nothing is lost and nothing leaks.
#[derive(Debug, Parser)]
#[command(name = "soak", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The farm; the soak starts it itself
    #[command(hide = true)]
    Farm(FarmArgs),
}

#[derive(Args, Debug)]
struct Settings {
    /// For how long, about; at least 5
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(5..=1440))]
    minutes: u32,
    /// From which all that happens follows; by default another each time
    #[arg(long)]
    seed: Option<u64>,
    /// How many shoots
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(4..=1000))]
    shoots: u16,
    /// Nodes of each
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(4..=1000))]
    nodes: u16,
    /// Write the tables to this file, too
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Settings {
    /// Legs of some three minutes, of which a third end processes. Memory is compared over the others:
    /// three at least.
    fn size(&self) -> Size {
        let legs = (self.minutes as usize * 3 / 10).max(3);
        let whole = Duration::from_secs(60) * self.minutes;
        let leg = whole / u32::try_from(legs).unwrap_or(u32::MAX);
        Size {
            shoots: self.shoots.into(),
            nodes: self.nodes.into(),
            legs,
            rough: legs / 3,
            leg: leg.saturating_sub(REST).max(SHORTEST),
        }
    }
}

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        // What clients and watches complain of is what this is about.
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let cli = Cli::parse();
    let runtime = Runtime::new()?;
    if let Some(Part::Farm(args)) = cli.part {
        runtime.block_on(farm::run(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    let seed = cli
        .settings
        .seed
        .unwrap_or_else(|| fastrand::u64(..1_000_000));
    let files = Files::new("dependency-watchdog-soak-")?;
    let soaked = runtime.block_on(unless_interrupted(soak(files.root(), &cli.settings, seed)));
    let soaked = soaked.map_err(|error| anyhow!("{error:#}\nagain with --seed {seed}"));
    Ok(files.end(&soaked))
}

async fn soak(root: &Path, settings: &Settings, seed: u64) -> Result<()> {
    let begun = Instant::now();
    let say = |what: &str| println!("{:>5.0} s  {what}", begun.elapsed().as_secs_f64());
    let (size, minutes) = (settings.size(), settings.minutes);
    let command = format!(
        "make soak ARGS=\"--minutes {minutes} --seed {seed} --shoots {} --nodes {}\"",
        size.shoots, size.nodes
    );
    say(&command);
    let legs = plan(seed, size);
    let env = Env::prepare(root).await?;
    let mut world = World::start(&env, root, size).await?;
    let mut rests = Vec::new();
    let walked = walk(&mut world, &legs, &mut rests, say).await;
    let walked = match walked {
        Ok(()) => world.judge(),
        // What is broken tells more than what did not come about for it.
        Err(error) => world.judge().and(Err(error)),
    };
    let samples: Vec<_> = rests.iter().flat_map(|it| it.samples.clone()).collect();
    let growth = leaks::growth(&samples);
    let report = Report {
        command,
        took: begun.elapsed(),
        world: &world,
        rests: &rests,
        growth: &growth,
    };
    let table = report.markdown();
    println!("\n{table}");
    if let Some(path) = &settings.markdown {
        let written = fs::write(path, &table);
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let history = serde_json::to_string(&world.versions.history())?;
    fs::write(root.join("history.json"), history)?;
    walked?;
    let grown = growth.grown.join("; ");
    ensure!(grown.is_empty(), "more and more is used: {grown}");
    ensure!(
        growth.compared > 0,
        "no process has led for long enough to tell whether its memory is flat"
    );
    println!("nothing is lost, nothing leaks, and all is as it was");
    Ok(())
}

/// Goes all legs, with a rest before the first and after each.
async fn walk(
    world: &mut World,
    legs: &[Leg],
    rests: &mut Vec<Rest>,
    say: impl Fn(&str),
) -> Result<()> {
    let rest = world.rest(0).await?;
    say(&format!("all is well after {:.0} s", rest.well));
    rests.push(rest);
    for (number, leg) in (1..).zip(legs) {
        for step in &leg.steps {
            world.pass(step.after).await?;
            world.carry_out(&step.event).await?;
        }
        say(&format!("leg {number}: {} events", leg.steps.len()));
        let mut rest = world.rest(number).await?;
        say(&format!("all is well after {:.0} s", rest.well));
        if number == legs.len() {
            rest.samples = world.closes(number).await?;
        } else {
            let protected = world.drill(&leg.drill).await?;
            say(&format!("a drill: protected after {protected:.0} s"));
            rest.protected = Some(protected);
            // They recover while the next leg begins.
            world.heal().await?;
        }
        rests.push(rest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_compared_over_three_rests_at_least() {
        for (minutes, legs, rough) in [(5, 3, 1), (20, 6, 2), (60, 18, 6)] {
            let cli = Cli::parse_from(["soak", &format!("--minutes={minutes}")]);
            let size = cli.settings.size();
            assert_eq!((size.legs, size.rough), (legs, rough), "{minutes}");
            // The rest after the last leg that ends processes, and those after.
            assert!(legs - rough + 1 >= 3);
            assert!(size.leg * u32::try_from(legs).unwrap() <= Duration::from_secs(60 * minutes));
        }
    }
}
