//! The command line: one file a subcommand, one group of flags a concern.

mod args;
pub mod check;
mod component;
pub mod convert;
pub mod crd;
mod explain;
mod files;
mod prober;
mod restore;
mod weeder;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Protects hosted Kubernetes control planes from cascading failure, and says why it acted.
#[derive(Debug, Parser)]
#[command(name = "dependency-watchdog", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the node leases of every cluster that a ProbePolicy selects, and protect those whose
    /// nodes lose their connection to the API server
    Prober(Box<prober::ProberArgs>),
    /// Delete pods that are stuck in CrashLoopBackOff when a service that a WeedPolicy names becomes
    /// ready, so that they restart immediately
    Weeder(Box<component::ComponentArgs>),
    /// Explain whether a cluster is protected and why, what was observed and done, what is owed to it,
    /// and what it waits for
    Explain(Box<explain::ExplainArgs>),
    /// Put back by hand what the operator has scaled to zero and owes, also without it
    Restore(Box<restore::RestoreArgs>),
    /// Print the CustomResourceDefinitions
    Crd,
    /// Turn a configuration of Gardener's dependency-watchdog into policies
    Convert(convert::ConvertArgs),
    /// Validate policies in files, without a cluster
    Check(check::CheckArgs),
}

/// Runs the command, and returns its exit code: 2 if it could not do its work.
pub async fn run(cli: Cli) -> ExitCode {
    let ended = match cli.command {
        Command::Prober(args) => prober::run(*args).await,
        Command::Weeder(args) => weeder::run(*args).await,
        Command::Explain(args) => explain::run(*args).await,
        Command::Restore(args) => restore::run(*args).await,
        Command::Crd => crd::run(),
        Command::Convert(args) => convert::run(&args),
        Command::Check(args) => check::run(&args),
    };
    let code = ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        2
    });
    code.into()
}
