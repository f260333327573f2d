//! `dependency-watchdog explain`

use clap::Args;

use super::{
    args::{ClientArgs, LeaseArgs},
    files,
};
use crate::{api::is_dns_subdomain, explain, runtime::wire::Access};

/// Exit code if there is no such cluster.
const NO_SUCH_CLUSTER: u8 = 1;

/// Which cluster is explained.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 answered, 1 no such cluster, 2 could not ask.")]
pub(super) struct ExplainArgs {
    /// The name of the Cluster, which is that of its namespace on the seed, such as
    /// shoot--project--name; or project/name
    #[arg(value_parser = cluster_name)]
    cluster: String,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Prints the page, and returns the exit code.
///
/// # Errors
/// When the seed cannot be asked.
pub(super) async fn run(args: ExplainArgs) -> Result<u8, String> {
    let seed = args.client.seed(Access::Reads).await?;
    let namespace = &args.lease.leader_election_namespace;
    match explain::ask(&seed, &args.cluster, namespace).await? {
        Some(answers) => files::print(&explain::page(&answers)).map(|()| 0),
        None => {
            eprintln!(
                "error: there is no Cluster {} on this seed, and no ClusterHealth; `kubectl get \
                 clusters.extensions.gardener.cloud` lists those there are",
                args.cluster
            );
            Ok(NO_SUCH_CLUSTER)
        }
    }
}

/// Returns the name of a Cluster, also of that of a shoot given as `project/name`.
fn cluster_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        Some((project, name)) => format!("shoot--{project}--{name}"),
        None => text.to_owned(),
    };
    match is_dns_subdomain(&name) {
        true => Ok(name),
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
