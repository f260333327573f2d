//! The command line: one file a subcommand, one group of flags a concern.

mod args;
pub mod check;
mod complete;
pub mod completions;
mod component;
pub mod convert;
pub mod crd;
mod explain;
mod prober;
mod program;
mod restore;
mod source;
mod weeder;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{FromArgMatches as _, Parser, Subcommand};

use program::Program;

/// Protects hosted Kubernetes control planes from cascading failure, and says why it acted.
#[derive(Debug, Parser)]
#[command(name = "dependency-watchdog", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    #[arg(skip)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the node leases of every cluster that a ProbePolicy selects, and protect those whose
    /// nodes lose their connection to the API server
    Prober(Box<prober::ProberArgs>),
    /// Delete pods that are stuck in CrashLoopBackOff when a service that a WeedPolicy names becomes
    /// ready, so that they restart immediately
    Weeder(Box<weeder::WeederArgs>),
    /// Explain whether a cluster is protected and why, what was observed and done, what is owed to it,
    /// what comes next, and what can be done
    Explain(Box<explain::ExplainArgs>),
    /// Put back by hand what the operator has scaled to zero and owes, also without it
    Restore(Box<restore::RestoreArgs>),
    /// Print the CustomResourceDefinitions
    Crd(crd::CrdArgs),
    /// Turn a configuration of Gardener's dependency-watchdog into policies
    Convert(convert::ConvertArgs),
    /// Validate policies in files, without a cluster
    Check(check::CheckArgs),
    /// Print what a shell needs to complete this command line
    Completions(completions::CompletionsArgs),
}

/// Understands the arguments of the process, of which the first is the name it was called by.
///
/// # Errors
///
/// The exit code, if that is all there is to do: help, completion, or arguments that are wrong.
pub fn parse(args: Vec<OsString>) -> Result<Cli, ExitCode> {
    let program = Program::called(args.first().map(OsString::as_os_str));
    let mut command = program.command();
    if program == Program::Completion {
        command.build();
        let words = args.iter().skip(1);
        let words: Vec<String> = words.map(|it| it.to_string_lossy().into_owned()).collect();
        let offered = complete::complete(&command, &words);
        // The shell then offers nothing.
        let _ = io::stdout().lock().write_all(offered.as_bytes());
        return Err(ExitCode::SUCCESS);
    }
    let cli = command
        .try_get_matches_from_mut(args)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    match cli {
        Ok(cli) => Ok(Cli { program, ..cli }),
        Err(error) => {
            let _ = error.print();
            Err(u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from))
        }
    }
}

/// Runs the command, and tells how it ended.
pub async fn run(cli: Cli) -> ExitCode {
    let ended = match cli.command {
        Command::Prober(args) => prober::run(*args).await.map_err(|error| error.to_string()),
        Command::Weeder(args) => weeder::run(*args).await.map_err(|error| error.to_string()),
        Command::Explain(args) => return explain::run(*args, cli.program).await,
        Command::Restore(args) => return restore::run(*args).await,
        Command::Crd(args) => {
            crd::run(&args, &mut io::stdout().lock()).map_err(|error| error.to_string())
        }
        Command::Convert(args) => {
            let (mut output, mut errors) = (io::stdout().lock(), io::stderr().lock());
            return convert::run(&args, io::stdin().lock(), &mut output, &mut errors).into();
        }
        Command::Check(args) => {
            let (mut output, mut errors) = (io::stdout().lock(), io::stderr().lock());
            return check::run(&args, io::stdin().lock(), &mut output, &mut errors).into();
        }
        Command::Completions(args) => completions::run(&args, &mut io::stdout().lock())
            .map_err(|error| format!("writing to the standard output: {error}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
