//! `convert`: from the configuration of Gardener's dependency-watchdog to policies.

use std::{
    io::{Read, Write},
    path::PathBuf,
};

use clap::Args;

use super::{check::Ended, source};
use crate::convert::{Remark, convert};

/// What is converted.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The policies go to the standard output, ready for `kubectl apply -f -`; \
                        what to know about them goes to the standard error.\n\nExit codes: 0 \
                        converted, 1 the configuration cannot be converted, 2 it could not be read \
                        or the command was not understood."
)]
pub struct ConvertArgs {
    /// A configuration of the prober or the weeder, as it is or in ConfigMaps; - for the standard
    /// input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,

    /// The name of the policy
    ///
    /// Without it, that is default, or the name of the ConfigMap if there are several
    /// configurations of one kind.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Writes the policies, and what to know about them.
pub(super) fn run(
    args: &ConvertArgs,
    mut input: impl Read,
    output: &mut impl Write,
    errors: &mut impl Write,
) -> Ended {
    let name = source::name(&args.file);
    let (ended, remarks) = match source::read(&args.file, &mut input) {
        Err(error) => (Ended::Unread, vec![format!("error: {error}")]),
        Ok(text) => match convert(&text, args.name.as_deref()) {
            Err(refusals) => (Ended::Problems, lines("error", &name, &refusals)),
            Ok(converted) => {
                let written = output.write_all(converted.yaml.as_bytes());
                match written.and_then(|()| output.flush()) {
                    Ok(()) => (Ended::Good, lines("note", &name, &converted.notes)),
                    Err(error) => {
                        let error = format!("error: writing to the standard output: {error}");
                        (Ended::Unread, vec![error])
                    }
                }
            }
        },
    };
    for remark in remarks {
        // There is nobody left to tell.
        let _ = writeln!(errors, "{remark}");
    }
    ended
}

fn lines(level: &str, file: &str, remarks: &[Remark]) -> Vec<String> {
    let line = |remark: &Remark| match remark.place {
        Some(place) => format!("{level}: {file}:{place}: {}", remark.message),
        None if level == "error" => format!("{level}: {file}: {}", remark.message),
        None => format!("{level}: {}", remark.message),
    };
    remarks.iter().map(line).collect()
}
