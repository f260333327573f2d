//! Scenarios against real control planes.
//!
//! `cargo test -p dependency-watchdog-e2e --test e2e [-- NAME]`. The first run builds the servers.
//!
//!   DWD_BIN                the operator's binary (default: Cargo's target directory)
//!   DWD_E2E_API_SERVERS    how many API servers of shoots run at once (default 8, or 4 where less than
//!                          8 GiB of memory are available)
//!   DWD_E2E_KEEP           keep files and logs, also of a run that passes

mod scenarios;

use anyhow::{Context as _, Result};
use dependency_watchdog_e2e::{Env, Files, INTERRUPTED, interrupted};
use libtest_mimic::{Arguments, Failed, Trial};
use scenarios::Scenario;
use std::{
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Handle, Runtime},
    sync::Semaphore,
    time::timeout,
};
use tracing_subscriber::EnvFilter;

/// How many API servers run at once. Each takes 280 MB, and about as much again for what belongs to it:
/// etcd, controllers, kubelets, operators.
const API_SERVERS: u32 = 8;
/// As many where less memory than [`ENOUGH_KIB`] is available.
const FEWER_API_SERVERS: u32 = 4;
const ENOUGH_KIB: u64 = 8 * 1024 * 1024;
/// How many of the slowest scenarios are listed at the end.
const SLOWEST: usize = 15;

/// For a scenario as a whole; whatever it waits for has a shorter limit of its own.
const SCENARIO_LIMIT: Duration = Duration::from_secs(900);

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let scenarios = scenarios::all();
    if arguments.list {
        let trials = scenarios
            .iter()
            .map(|scenario| Trial::test(scenario.name, || Ok(())));
        return Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code());
    }
    tracing_subscriber::fmt()
        // A client complains of every server that is away, which is what scenarios are about.
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn,kube_client=off".into()),
        )
        .with_writer(std::io::stderr)
        .init();

    let permits = match std::env::var("DWD_E2E_API_SERVERS") {
        Ok(text) => text
            .parse()
            .with_context(|| format!("DWD_E2E_API_SERVERS={text}"))?,
        Err(_) if available_kib().is_some_and(|kib| kib >= ENOUGH_KIB) => API_SERVERS,
        Err(_) => FEWER_API_SERVERS,
    };
    // Scenarios mostly wait: what bounds them is the number of API servers, not of cores.
    arguments.test_threads.get_or_insert(permits as usize);

    let runtime = Runtime::new()?;
    let files = Arc::new(Files::new("dependency-watchdog-e2e-")?);
    runtime.spawn(leave_when_interrupted(Arc::clone(&files)));
    let env = runtime.block_on(Env::prepare(files.root()))?;
    let shared = Shared {
        env: env.clone(),
        runtime: runtime.handle().clone(),
        permits: Arc::new(Semaphore::new(permits as usize)),
        most: permits,
        times: Arc::default(),
    };
    let times = Arc::clone(&shared.times);
    let trials = scenarios.into_iter().map(|scenario| {
        let shared = shared.clone();
        Trial::test(scenario.name, move || {
            run(&scenario, &shared).map_err(failed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    print_slowest(&times);
    runtime.block_on(env.finish());
    // What a part of the scenarios does not use is no finding.
    let unused = match conclusion.num_filtered_out + conclusion.num_failed {
        0 => scenarios::unused_rights(&env)?,
        _ => Vec::new(),
    };
    for right in &unused {
        eprintln!("no scenario uses the right to {right}: take it out of the manifests");
    }
    files.tear_down(conclusion.has_failed() || !unused.is_empty());
    Ok(match unused.is_empty() {
        true => conclusion.exit_code(),
        false => ExitCode::FAILURE,
    })
}

#[derive(Clone)]
struct Shared {
    env: Env,
    runtime: Handle,
    permits: Arc<Semaphore>,
    most: u32,
    times: Arc<Mutex<Vec<(Duration, &'static str)>>>,
}

/// Memory that can be used without swapping, as Linux estimates it; unknown elsewhere.
fn available_kib() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// By these times [`scenarios::all`] begins with the longest.
fn print_slowest(times: &Mutex<Vec<(Duration, &'static str)>>) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.sort_unstable_by(|one, other| other.cmp(one));
    println!("slowest:");
    for (time, name) in times.iter().take(SLOWEST) {
        println!("{:5.0}s  {name}", time.as_secs_f64());
    }
}

/// Runs a scenario once as many API servers as it needs may be had: all at once, so that two
/// scenarios never wait for each other's.
fn run(scenario: &Scenario, shared: &Shared) -> Result<()> {
    shared.runtime.block_on(async {
        let needed = scenario.api_servers.min(shared.most);
        let _permits = shared.permits.acquire_many(needed).await?;
        let begun = Instant::now();
        let story = (scenario.run)(shared.env.clone());
        let ended = timeout(SCENARIO_LIMIT, story).await;
        let mut times = shared.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((begun.elapsed(), scenario.name));
        drop(times);
        ended.with_context(|| format!("did not end within {SCENARIO_LIMIT:?}"))?
    })
}

fn failed(error: anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

/// No scenario goes on, nothing is left behind.
async fn leave_when_interrupted(files: Arc<Files>) -> Result<()> {
    interrupted().await?;
    eprintln!("\ninterrupted: tearing down");
    files.tear_down(false);
    std::process::exit(INTERRUPTED.into());
}
