//! `dependency-watchdog restore`

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::args::{ClientArgs, LeaseArgs, namespace};
use crate::{
    prober::{scale::Scaler, step::IGNORE},
    restore::{Part, Restorer, State},
    runtime::{shutdown, wire::Access},
    util::text::visible,
};

/// Exit code if something is left.
const LEFT: u8 = 1;
const INTERRUPTED: &str = "interrupted; nothing was changed";

/// Flags of restore.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 if all that was owed is back, 1 if something is left, which is \
                        named, 2 if the seed could not be asked or the flags make no sense."
)]
pub(super) struct RestoreArgs {
    /// The cluster, by the name of its namespace on the seed
    #[arg(required_unless_present = "all", conflicts_with = "all", value_parser = namespace)]
    cluster: Option<String>,

    /// All clusters that have a ClusterHealth
    #[arg(long)]
    all: bool,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// Restore although an operator is alive, and have it ignore what is restored from then on, by
    /// the annotation ignore-scaling=true
    #[arg(long)]
    overrule: bool,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    client: ClientArgs,
}

/// Restores, and returns the exit code.
///
/// # Errors
/// When the seed does not answer, or there is no terminal on which to ask for consent.
pub(super) async fn run(args: RestoreArgs) -> Result<u8, String> {
    let seed = args.client.seed(Access::All).await?;
    // Not before: a plugin that logs in is ended by a signal like everything else.
    let stop = shutdown::on_signal().map_err(|error| error.to_string())?;
    let restorer = Restorer {
        scaler: Scaler::new(seed.acting()),
        seed,
        lease_namespace: args.lease.leader_election_namespace,
        overrule: args.overrule,
    };
    let look = async {
        let parts = restorer.look(args.cluster.as_deref()).await?;
        let alive = match args.overrule || parts.is_empty() {
            true => None,
            false => restorer.operator().await?,
        };
        Ok::<_, String>((parts, alive))
    };
    let looked = stop.run_until_cancelled(look).await;
    let (mut parts, alive) = looked.ok_or(INTERRUPTED)??;
    parts.iter().for_each(|part| say(&part.line()));
    if let Some(holder) = alive {
        say(&format!(
            "held back: the operator {holder} is alive. It restores by itself once nodes renew their \
             leases, and would scale down again what is restored before. To overrule it: --overrule"
        ));
        return Ok(LEFT);
    }
    if parts.is_empty() {
        return Ok(end(&parts));
    }
    if args.dry_run || !parts.iter().any(|part| part.state == State::Due) {
        return Ok(LEFT);
    }
    if !args.yes && !confirmed(&stop).await? {
        say("nothing was changed");
        return Ok(LEFT);
    }
    restorer.restore(&mut parts, &stop, Some(&say)).await;
    if stop.is_cancelled() {
        say("interrupted; run it again to go on");
    }
    Ok(end(&parts))
}

/// Reports what is left, and what the operator ignores. Returns the exit code.
fn end(parts: &[Part]) -> u8 {
    let ignored = parts.iter().filter(|part| part.ignored).map(|part| {
        let name = part.dependent.reference.kubectl_name();
        format!("kubectl -n {} annotate {name} {IGNORE}-", part.cluster)
    });
    let title = "ignored by the operator. Once the cluster is healthy, give them back to it:";
    list(title, ignored.collect());
    let left = parts.iter().filter(|part| part.state != State::Settled);
    let left: Vec<String> = left.map(Part::line).collect();
    if !left.is_empty() {
        list("left:", left);
        return LEFT;
    }
    say("nothing is owed");
    0
}

fn list(title: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        say(&format!("{title}\n  {}", lines.join("\n  ")));
    }
}

/// Asks on the terminal.
async fn confirmed(stop: &CancellationToken) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        let remedy = "nobody can be asked, since this is no terminal: see what --dry-run shows, then give --yes";
        return Err(remedy.to_owned());
    }
    eprint!("do it? [y/N] ");
    // Nobody waits for it once the command is interrupted.
    let answer = spawn_blocking(|| {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.is_ok() && ["y", "yes"].contains(&&*line.trim().to_lowercase())
    });
    let answer = stop.run_until_cancelled(answer).await;
    Ok(answer.ok_or(INTERRUPTED)?.unwrap_or(false))
}

/// Prints lines. If nobody reads them, what is done goes on. What came from others could move the
/// cursor or hide text.
fn say(lines: &str) {
    let _ = writeln!(io::stdout().lock(), "{}", visible(lines));
}

#[cfg(test)]
mod tests {
    use clap::{Parser as _, error::ErrorKind};
    use rstest::rstest;

    use super::super::Cli;

    #[rstest]
    #[case::nothing(&[], Some(ErrorKind::MissingRequiredArgument))]
    #[case::both(&["a", "--all"], Some(ErrorKind::ArgumentConflict))]
    #[case::no_cluster(&["a/b"], Some(ErrorKind::ValueValidation))]
    #[case::no_namespace(&["a", "--leader-election-namespace=/"], Some(ErrorKind::ValueValidation))]
    #[case::one(&["a", "-y"], None)]
    #[case::all(&["--all", "--dry-run", "--overrule"], None)]
    fn what_is_restored_is_said(#[case] args: &[&str], #[case] refused: Option<ErrorKind>) {
        let command = ["dependency-watchdog", "restore"].iter().chain(args);
        let parsed = Cli::try_parse_from(command);
        assert_eq!(parsed.err().map(|error| error.kind()), refused);
    }
}
