//! Scenarios against real control planes.
//!
//! `cargo test -p dependency-watchdog-e2e --test e2e [-- NAME]`. The first run builds the servers.
//!
//!   DWD_BIN                the operator's binary (default: Cargo's target directory)
//!   DWD_E2E_API_SERVERS    how many API servers of shoots run at once (default 4)
//!   DWD_E2E_KEEP           keep files and logs, also of a run that passes

mod scenarios;

use anyhow::{Context as _, Result};
use dependency_watchdog_e2e::{Env, process};
use libtest_mimic::{Arguments, Failed, Trial};
use scenarios::Scenario;
use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Handle, Runtime},
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    time::timeout,
};
use tracing_subscriber::EnvFilter;

/// Each takes 280 MB.
const API_SERVERS: u32 = 4;

/// For a scenario as a whole; whatever it waits for has a shorter limit of its own.
const SCENARIO_LIMIT: Duration = Duration::from_secs(300);

/// As a shell reports a process that SIGINT ended.
const INTERRUPTED: i32 = 130;

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
        Err(_) => API_SERVERS,
    };
    // Scenarios mostly wait: what bounds them is the number of API servers, not of cores.
    arguments.test_threads.get_or_insert(permits as usize);

    let runtime = Runtime::new()?;
    let files = Arc::new(Files::new()?);
    runtime.spawn(interrupted(Arc::clone(&files)));
    let env = runtime.block_on(Env::prepare(&files.root))?;
    let shared = Shared {
        env,
        runtime: runtime.handle().clone(),
        permits: Arc::new(Semaphore::new(permits as usize)),
        most: permits,
    };
    let trials = scenarios.into_iter().map(|scenario| {
        let shared = shared.clone();
        Trial::test(scenario.name, move || {
            run(&scenario, &shared).map_err(failed)
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    files.tear_down(conclusion.has_failed());
    Ok(conclusion.exit_code())
}

#[derive(Clone)]
struct Shared {
    env: Env,
    runtime: Handle,
    permits: Arc<Semaphore>,
    most: u32,
}

/// Runs a scenario once as many API servers as it needs may be had: all at once, so that two
/// scenarios never wait for each other's.
fn run(scenario: &Scenario, shared: &Shared) -> Result<()> {
    shared.runtime.block_on(async {
        let needed = scenario.api_servers.min(shared.most);
        let _permits = shared.permits.acquire_many(needed).await?;
        let story = (scenario.run)(shared.env.clone());
        timeout(SCENARIO_LIMIT, story)
            .await
            .with_context(|| format!("did not end within {SCENARIO_LIMIT:?}"))?
    })
}

fn failed(error: anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

/// Ctrl-C or SIGTERM: no scenario goes on, nothing is left behind.
async fn interrupted(files: Arc<Files>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt?,
        _ = terminate.recv() => {}
    }
    eprintln!("\ninterrupted: tearing down");
    files.tear_down(false);
    std::process::exit(INTERRUPTED);
}

/// The directory of all files and logs of a run.
struct Files {
    root: PathBuf,
    gone: AtomicBool,
}

impl Files {
    fn new() -> Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("dependency-watchdog-e2e-")
            .tempdir()?
            .keep();
        Ok(Self {
            root,
            gone: AtomicBool::new(false),
        })
    }

    /// Ends every process and removes the files, or says where they are when they are needed to
    /// understand a failure.
    fn tear_down(&self, failed: bool) {
        if self.gone.swap(true, Ordering::SeqCst) {
            return;
        }
        process::kill_all();
        if failed || std::env::var_os("DWD_E2E_KEEP").is_some() {
            eprintln!("logs kept in {}", self.root.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("cannot remove {}: {error}", self.root.display());
        }
    }
}

/// Also when preparing fails.
impl Drop for Files {
    fn drop(&mut self) {
        self.tear_down(false);
    }
}
