//! Parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use dependency_watchdog::cli::{self, Cli};
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no threads can be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(cli::run(cli));
    // To look up the name of a host cannot be given up, and may take minutes: it holds up no exit.
    runtime.shutdown_background();
    code
}
