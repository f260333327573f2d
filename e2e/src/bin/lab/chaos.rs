//! The campaign of faults: whatever goes wrong at whatever write, the operator comes to the same end,
//! and breaks no rule on the way. See docs/faults.md.
//!
//! It ends with 1 if any run differs, or if a fault at a write to a dependent did not happen in the whole
//! campaign or the sample, and then keeps the evidence.

use anyhow::Result;
use dependency_watchdog_e2e::{
    Env, Files,
    chaos::{Campaign, Fault, Point, Settings, Tally},
    exit_interrupted, unless_interrupted,
};
use std::{
    path::Path,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::Instant,
};
use tokio::runtime::Runtime;

/// Which faults are tried.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// From which all that is drawn follows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try no more points than this, drawn at random
    #[arg(long)]
    points: Option<usize>,
    /// Try these kinds of faults alone
    #[arg(long, value_delimiter = ',', value_enum)]
    kinds: Vec<Fault>,
    /// Try so many pairs of faults besides, drawn at random
    #[arg(long, default_value_t = 200)]
    pairs: usize,
    /// Try a sample of twelve kinds, each at another write, and no pairs
    #[arg(long)]
    sample: bool,
    /// Try this point alone, as --list shows it; can be given several times
    #[arg(long, value_name = "POINT")]
    only: Vec<Point>,
    /// Show the points and try none
    #[arg(long)]
    list: bool,
    /// How many runs at once
    #[arg(long, default_value_t = 12)]
    parallel: usize,
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            sample: self.sample,
            kinds: self.kinds.clone(),
            pairs: if self.sample { 0 } else { self.pairs },
            points: self.points,
            only: self.only.clone(),
            parallel: self.parallel,
        }
    }
}

/// Tries them, and tells what came of it, also of what is cut short.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runtime = Runtime::new()?;
    let files = Files::new("dependency-watchdog-chaos-")?;
    let (tally, started) = (Mutex::new(Tally::default()), Instant::now());
    let ended = runtime.block_on(unless_interrupted(campaign(
        files.root(),
        args,
        &tally,
        started,
    )));
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !args.list {
        tell(&tally, args.seed, started);
    }
    if let Err(error) = &ended {
        eprintln!("\nerror: {error:#}");
    }
    let failed = ended.is_err() || !tally.failures.is_empty();
    files.tear_down(failed);
    Ok(match ended {
        _ if failed => ExitCode::FAILURE,
        Ok(false) => exit_interrupted(),
        _ => ExitCode::SUCCESS,
    })
}

async fn campaign(root: &Path, args: &Args, tally: &Mutex<Tally>, started: Instant) -> Result<()> {
    let env = Env::prepare(root).await?;
    let settings = args.settings();
    let thorough = settings.are_thorough();
    let campaign = Campaign::prepare(&env, "chaos", settings).await?;
    let points = campaign.points();
    if args.list {
        for point in &points {
            println!("{point}");
        }
        return Ok(());
    }
    let writes = campaign.writes().len();
    println!(
        "{writes} writes in an undisturbed run, {} points",
        points.len()
    );
    let told = |point: &Point, said: &str| {
        println!(
            "{:>5.0} s  {point}  {said}",
            started.elapsed().as_secs_f64()
        );
    };
    campaign.run(tally, told).await?;
    if thorough {
        let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.ensure_dependents_reached()?;
    }
    Ok(())
}

/// The tally, and how to try again what differs.
fn tell(tally: &Tally, seed: u64, started: Instant) {
    println!("\n{tally}");
    for (point, problems) in &tally.failures {
        println!("\ndiffers: --only '{point}'");
        for problem in problems {
            println!("  {problem}");
        }
    }
    for (point, write) in &tally.unreached {
        println!("not reached: {write} of {point}");
    }
    println!(
        "--seed {seed}: {} faults of {} kinds in {} runs, {} of which differ; {} s",
        tally.tried(),
        tally.kinds(),
        tally.runs,
        tally.failures.len(),
        started.elapsed().as_secs()
    );
}
