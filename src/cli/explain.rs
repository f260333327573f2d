//! `dependency-watchdog explain`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, ValueEnum};

use super::args::ClientArgs;
use crate::{
    explain::{self, Account, AskError},
    runtime::{
        metrics::RequestMetrics,
        seed::{self, ClientError, Seed},
    },
};

/// There is no such cluster.
const NO_SUCH_CLUSTER: u8 = 1;
/// The seed could not be asked; also what a wrong flag ends with.
const COULD_NOT_ASK: u8 = 2;

/// Which cluster, and how it is told.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 answered, 1 no such cluster, 2 could not ask.")]
pub(super) struct ExplainArgs {
    /// The name of the Cluster, which is that of its namespace on the seed, such as
    /// shoot--project--name; or project/name
    #[arg(value_parser = cluster_name)]
    cluster: String,

    /// The form of the answer
    #[arg(short, long, env = "DWD_OUTPUT", value_enum, default_value_t)]
    output: Output,

    /// The namespace of the Leases by which it is seen whether a prober and a weeder are alive
    #[arg(
        long,
        env = "DWD_LEADER_ELECTION_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "garden",
        value_parser = object_name
    )]
    leader_election_namespace: String,

    #[command(flatten)]
    client: ClientArgs,
}

/// For whom it is told.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For tools: the same facts, under names that stay
    Json,
}

/// Why nothing was told.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the account cannot be put into JSON: {0}; please report this")]
    Json(#[from] serde_json::Error),
    #[error("writing to the standard output: {0}")]
    Output(#[from] io::Error),
}

/// Tells, and returns the exit code.
pub(super) async fn run(args: ExplainArgs) -> ExitCode {
    match tell(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(match error {
                ExplainError::Ask(AskError::NoSuchCluster { .. }) => NO_SUCH_CLUSTER,
                _ => COULD_NOT_ASK,
            })
        }
    }
}

async fn tell(args: ExplainArgs) -> Result<(), ExplainError> {
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let client = seed::client(&config, &RequestMetrics::default())?;
    let seed = Seed::new(client, args.client.budget());
    let namespace = &args.leader_election_namespace;
    let answers = explain::ask(&seed, &args.cluster, namespace).await?;
    let account = Account::new(&answers);
    let told = match args.output {
        Output::Text => explain::text(&account),
        Output::Json => serde_json::to_string_pretty(&account)? + "\n",
    };
    // A reader that has seen enough is no failure.
    match io::stdout().lock().write_all(told.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The name of a Cluster, also of that of a shoot given as `project/name`.
fn cluster_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((project, name)) => object_name(&format!("shoot--{project}--{name}")),
        None => object_name(text),
    }
}

/// A name as RFC 1123 has it for a subdomain.
fn object_name(text: &str) -> Result<String, String> {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let ends = end(text.bytes().next()) && end(text.bytes().next_back());
    match text.len() <= 253 && ends && text.bytes().all(inner) {
        true => Ok(text.to_owned()),
        false => {
            Err("must be the name of an object: lower case letters, digits, '-' or '.'".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_name_of_its_namespace() {
        for (text, expected) in [
            ("shoot--garden--alpha", Some("shoot--garden--alpha")),
            ("garden/alpha", Some("shoot--garden--alpha")),
            ("a", Some("a")),
            ("a.b-c", Some("a.b-c")),
            ("", None),
            ("-a", None),
            ("a-", None),
            ("A", None),
            ("a/b/c", None),
            ("a,metadata.name!=b", None),
            (&*"a".repeat(254), None),
        ] {
            assert_eq!(cluster_name(text).ok().as_deref(), expected, "{text}");
        }
    }
}
