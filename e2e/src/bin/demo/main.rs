//! What the operator is for, in about a minute: the nodes of a cluster lose their network.
//!
//! A seed and a shoot are started on this machine, the nodes are cut off and let back, and what the
//! operator does is told as it happens. Whatever does not happen ends it with an error.
//!
//!   DWD_BIN       the operator's binary (default: the one that Cargo has built beside this)
//!   DWD_E2E_KEEP  keep files and logs, also when all went well
//!   NO_COLOR      no colours, which are for terminals only anyway

mod evidence;
mod narrator;
mod story;

use anyhow::Result;
use dependency_watchdog_e2e::{Files, INTERRUPTED, interrupted};
use narrator::Narrator;
use std::process::ExitCode;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

fn main() -> Result<ExitCode> {
    tracing_subscriber::fmt()
        // What clients and watches complain of at the end is no news.
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "off".into()))
        .with_writer(std::io::stderr)
        .init();
    let runtime = Runtime::new()?;
    let files = Files::new("dependency-watchdog-demo-")?;
    let mut narrator = Narrator::on_stdout();
    let told = runtime.block_on(async {
        tokio::select! {
            // A story cut short by a signal has not failed.
            biased;
            signal = interrupted() => signal.map(|()| false),
            told = story::tell(files.root(), &mut narrator) => told.map(|()| true),
        }
    });
    if let Err(error) = &told {
        eprintln!("\nerror: {error:#}");
    }
    files.tear_down(told.is_err());
    Ok(match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("\ninterrupted: everything is stopped and removed");
            ExitCode::from(INTERRUPTED)
        }
        Err(_) => ExitCode::FAILURE,
    })
}
