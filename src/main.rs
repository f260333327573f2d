//! Parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use dependency_watchdog::cli::{self, Cli};

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse()).await
}
