//! `convert`: from the configuration of Gardener's dependency-watchdog to policies.

use std::{io, path::PathBuf};

use clap::Args;

use super::files;
use crate::convert::convert;

/// Configuration that is converted.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The policies go to the standard output, ready for `kubectl apply -f -`; \
                        what was changed goes to the standard error.\n\nExit codes: 0 converted, 1 \
                        the configuration cannot be converted, 2 it could not be read or the \
                        command was not understood."
)]
pub struct ConvertArgs {
    /// A configuration of the prober or the weeder, as it is or in a ConfigMap; - for the standard
    /// input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,

    /// The name of the policy
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: String,
}

/// Prints the policies and what was changed, and returns the exit code.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn run(args: &ConvertArgs) -> Result<u8, String> {
    let text = files::read(&args.file, &mut io::stdin().lock())?;
    let file = files::name(&args.file);
    match convert(&text, &args.name) {
        Ok(converted) => {
            for note in converted.notes {
                eprintln!("note: {note}");
            }
            eprintln!("note: what is different from the tool: docs/migration.md#what-is-different");
            files::print(&converted.yaml)?;
            Ok(0)
        }
        Err(problems) => {
            for problem in problems {
                eprintln!("error: {file}: {problem}");
            }
            Ok(1)
        }
    }
}
