//! `dependency-watchdog explain`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;

use super::args::ClientArgs;
use crate::{
    explain::{self, AskError},
    runtime::{
        metrics::RequestMetrics,
        seed::{self, ClientError, Seed},
        wire::{Access, Wire},
    },
};

/// There is no such cluster.
const NO_SUCH_CLUSTER: u8 = 1;
/// The seed could not be asked; also what a wrong flag ends with.
const COULD_NOT_ASK: u8 = 2;

/// Which cluster is explained.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 answered, 1 no such cluster, 2 could not ask.")]
pub(super) struct ExplainArgs {
    /// The name of the Cluster, which is that of its namespace on the seed, such as
    /// shoot--project--name; or project/name
    #[arg(value_parser = cluster_name)]
    cluster: String,

    /// The namespace of the Lease by which it is seen whether a prober is alive
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

/// Prints the page, and returns the exit code.
pub(super) async fn run(args: ExplainArgs) -> ExitCode {
    let (code, error) = match explain(args).await {
        Ok(page) => match io::stdout().lock().write_all(page.as_bytes()) {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => (
                COULD_NOT_ASK,
                format!("writing to the standard output: {error}"),
            ),
            _ => return ExitCode::SUCCESS,
        },
        Err(error @ AskError::NoSuchCluster(_)) => (NO_SUCH_CLUSTER, error.to_string()),
        Err(error) => (COULD_NOT_ASK, error.to_string()),
    };
    eprintln!("error: {error}");
    ExitCode::from(code)
}

async fn explain(args: ExplainArgs) -> Result<String, AskError> {
    let ExplainArgs {
        cluster, client, ..
    } = &args;
    let could_not = |error: ClientError| AskError::CouldNot(cluster.clone(), error.to_string());
    let config = seed::config(client.kubeconfig.as_deref()).await;
    let config = config.map_err(could_not)?;
    let metrics = RequestMetrics::default();
    let wire = Wire::new(config, &metrics).map_err(could_not)?;
    let seed = Seed::new(wire.client(Access::Reads), client.rate(), &metrics);
    let answers = explain::ask(&seed, cluster, &args.leader_election_namespace).await?;
    Ok(explain::page(&answers))
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
