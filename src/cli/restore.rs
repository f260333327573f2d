//! `dependency-watchdog restore`

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    time::Duration,
};

use clap::Args;
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::args::{ClientArgs, namespace};
use crate::{
    prober::{plan::IGNORE, scale::Scaler},
    restore::{
        Restorer,
        look::{Scope, View},
        operator::OperatorPresence,
        run::Ended,
    },
    runtime::{shutdown, wire::Access},
    util::text::visible,
};

/// Longest time from a look to the consent: later the cluster may have been put to sleep, or an operator may be back.
const FRESH: Duration = Duration::from_secs(30);
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

    /// All clusters that have a ClusterHealth; policies too whose deletion waits until nothing is
    /// owed any more, if no operator is alive
    #[arg(long)]
    all: bool,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do it without asking
    #[arg(long, short)]
    yes: bool,

    /// Restore although an operator and a policy protect the cluster, and have the operator ignore
    /// what is restored from then on, by the annotation ignore-scaling=true
    #[arg(long)]
    overrule: bool,

    /// The namespace of the Lease that tells whether an operator is alive
    #[arg(
        long,
        env = "DWD_LEADER_ELECTION_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "garden",
        value_parser = namespace
    )]
    leader_election_namespace: String,

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
        lease_namespace: args.leader_election_namespace,
        overrule: args.overrule,
    };
    let scope = args.cluster.map_or(Scope::All, Scope::Cluster);
    let looking = restorer.look(&scope, &|line| eprintln!("{line} ..."));
    let view = stop.run_until_cancelled(looking).await;
    let view = view
        .ok_or(INTERRUPTED)?
        .map_err(|error| error.to_string())?;
    let seen = Instant::now();
    say(&preview(&view, args.overrule));
    let can_be_done = frees(&view) || view.plans.iter().any(|plan| plan.workable() > 0);
    if args.dry_run || !can_be_done {
        let due = view.plans.iter().any(|plan| plan.is_due());
        return Ok(if due || keeps(&view) { LEFT } else { 0 });
    }
    if !args.yes && !confirmed(&stop).await? {
        say("nothing was changed");
        return Ok(LEFT);
    }
    if seen.elapsed() > FRESH {
        say(
            "nothing was changed: it may not be as it was any more; run it again, and answer within 30s",
        );
        return Ok(LEFT);
    }
    say("");
    Ok(carry_out(&restorer, view, &stop).await)
}

/// Returns whether finalizers of policies are taken off once nothing is owed any more.
fn frees(view: &View) -> bool {
    matches!(view.operator, Some(OperatorPresence::Gone(_))) && !view.deleting.is_empty()
}

/// Returns whether policies keep their finalizers because an operator may be alive.
fn keeps(view: &View) -> bool {
    matches!(view.operator, Some(OperatorPresence::Unknown(_))) && !view.deleting.is_empty()
}

/// Restores, lets policies go, prints the result, and returns the exit code.
async fn carry_out(restorer: &Restorer, view: View, stop: &CancellationToken) -> u8 {
    let (frees, keeps) = (frees(&view), keeps(&view));
    let ended = restorer.restore(view.plans, stop, &say).await;
    let mut left: Vec<String> = ended.iter().flat_map(|ended| ended.left.clone()).collect();
    if keeps {
        left.push("the finalizers of the policies that are being deleted".to_owned());
    }
    if frees {
        match stop.run_until_cancelled(restorer.let_go()).await {
            Some(policies) => {
                for policy in &policies.freed {
                    say(&format!(
                        "ProbePolicy {policy}: nothing is owed, so its finalizer was taken off"
                    ));
                }
                left.extend(policies.left);
            }
            None => left.push("the finalizers of the policies that are being deleted".to_owned()),
        }
    }
    say(&summary(&ended, &left, !stop.is_cancelled()));
    if left.is_empty() { 0 } else { LEFT }
}

/// Describes what is there, and what would be done.
fn preview(view: &View, overrule: bool) -> String {
    let mut blocks: Vec<String> = view.plans.iter().map(|plan| plan.table()).collect();
    let mut last = Vec::new();
    if view.plans.is_empty() {
        last.push("nothing is owed to any cluster".to_owned());
    } else if !view.plans.iter().any(|plan| plan.is_due()) {
        last.push("nothing is owed".to_owned());
    }
    if view.quiet > 0 {
        last.push(format!("other clusters, owed nothing: {}", view.quiet));
    }
    last.extend(view.operator.iter().map(|it| it.words().to_owned()));
    let then = match view.operator {
        Some(OperatorPresence::Gone(_)) => {
            "its finalizer is taken off once nothing is owed any more"
        }
        Some(OperatorPresence::Unknown(_)) => "it keeps its finalizer",
        _ => "it is left to the operator, which lets it go once nothing is owed any more",
    };
    let deleting = view.deleting.iter();
    last.extend(deleting.map(|it| format!("ProbePolicy {it} is being deleted: {then}")));
    if overrule {
        last.push("what is restored says ignore-scaling=true from then on".to_owned());
    }
    blocks.push(last.join("\n"));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n").trim_end().to_owned()
}

/// What came of it, what is left, and how the operator takes over again.
fn summary(ended: &[Ended], left: &[String], went_on: bool) -> String {
    let restored: usize = ended.iter().map(|ended| ended.restored.len()).sum();
    let mut lines = vec![String::new(), format!("scaled up: {restored}")];
    if !went_on {
        lines.push("interrupted; run it again to go on".to_owned());
    }
    if left.is_empty() {
        lines.push("all that was owed is back".to_owned());
    } else {
        lines.push("left:".to_owned());
        lines.extend(left.iter().map(|left| format!("  {left}")));
    }
    let ignored = ended.iter().flat_map(|ended| {
        let names = ended.ignored.iter().map(|it| it.kubectl_name());
        names.map(|it| format!("  kubectl -n {} annotate {it} {IGNORE}-", ended.cluster))
    });
    let mut ignored = ignored.peekable();
    if ignored.peek().is_some() {
        let remedy = "the operator does not protect these any more; once the cluster is healthy, give them \
                      back to it:";
        lines.push(remedy.to_owned());
    }
    lines.extend(ignored);
    lines.join("\n")
}

/// Asks on the terminal.
async fn confirmed(stop: &CancellationToken) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        let remedy = "nobody can be asked, since this is no terminal: see what --dry-run shows, then give --yes";
        return Err(remedy.to_owned());
    }
    eprint!("do it? [y/N] ");
    // A thread of its own: nobody waits for it once the command is interrupted.
    let (sender, answer) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = sender.send(read.is_ok() && ["y", "yes"].contains(&&*line.trim().to_lowercase()));
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
