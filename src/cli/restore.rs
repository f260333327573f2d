//! `dependency-watchdog restore`

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    process::ExitCode,
    sync::Arc,
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
        look::{LookError, Scope, View},
        operator::OperatorPresence,
        run::Ended,
    },
    runtime::{
        metrics::RequestMetrics,
        seed::{self, ClientError, Seed},
        shutdown,
        wire::{Access, Wire},
    },
};

/// What was looked at is carried out within this; later it is looked at again, since the cluster may
/// have been put to sleep meanwhile, and an operator may have come back.
const FRESH: Duration = Duration::from_secs(30);
/// Not all is back.
const LEFT: u8 = 1;
/// Nothing could be asked, or it was asked for nonsense; clap's code for the latter.
const NOT_ASKED: u8 = 2;

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

/// Why nothing was asked.
#[derive(Debug, thiserror::Error)]
enum RestoreError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("signals cannot be listened for: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(
        "nobody can be asked, since this is no terminal: see what --dry-run shows, then give --yes"
    )]
    NoTerminal,
    #[error("interrupted; nothing was changed")]
    Interrupted,
}

pub(super) async fn run(args: RestoreArgs) -> ExitCode {
    match restore(args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => LEFT.into(),
        Err(error) => {
            eprintln!("error: {error}");
            NOT_ASKED.into()
        }
    }
}

/// Restores, and tells whether all is back.
async fn restore(args: RestoreArgs) -> Result<bool, RestoreError> {
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let metrics = RequestMetrics::default();
    let client = Wire::new(config, &metrics)?.client(Access::All);
    // Not before: a plugin that logs in is ended by a signal like everything else.
    let stop = shutdown::on_signal().map_err(RestoreError::Signals)?;
    let seed = Seed::new(client, args.client.rate(), &metrics);
    let restorer = Restorer {
        scaler: Scaler::new(seed.acting()),
        seed,
        lease_namespace: args.leader_election_namespace,
        overrule: args.overrule,
    };
    let scope = args.cluster.map_or(Scope::All, Scope::Cluster);
    let look = async || {
        let looking = restorer.look(&scope, &|line| eprintln!("{line} ..."));
        let view = stop.run_until_cancelled(looking).await;
        Ok(view.ok_or(RestoreError::Interrupted)??)
    };
    let ask = async || match args.yes {
        true => Ok(true),
        false => confirmed(&stop).await,
    };
    let view = match agree(look, ask, args.dry_run, args.overrule).await? {
        Agreed::Restore(view) => view,
        Agreed::Nothing { all_is_back } => return Ok(all_is_back),
    };

    say("");
    Ok(carry_out(&restorer, view, &stop).await)
}

/// What came of looking and asking.
enum Agreed {
    /// This is to be restored.
    Restore(View),
    /// There is nothing to do, or it is not wanted.
    Nothing { all_is_back: bool },
}

/// Shows what there is to do, and asks until somebody agrees to what is so at that moment.
async fn agree(
    look: impl AsyncFn() -> Result<View, RestoreError>,
    ask: impl AsyncFn() -> Result<bool, RestoreError>,
    dry_run: bool,
    overrule: bool,
) -> Result<Agreed, RestoreError> {
    let mut view = look().await?;
    loop {
        let shown = preview(&view, overrule);
        say(&shown);
        let workable: usize = view.plans.iter().map(|plan| plan.workable()).sum();
        if dry_run || workable + freeable(&view).len() == 0 {
            let due = view.plans.iter().any(|plan| plan.is_due());
            let all_is_back = !due && undecided(&view).is_empty();
            return Ok(Agreed::Nothing { all_is_back });
        }
        let asked = Instant::now();
        if !ask().await? {
            say("nothing was changed");
            return Ok(Agreed::Nothing { all_is_back: false });
        }
        if asked.elapsed() <= FRESH {
            return Ok(Agreed::Restore(view));
        }
        view = look().await?;
        if preview(&view, overrule) == shown {
            return Ok(Agreed::Restore(view));
        }
        say("it is not as it was any more:\n");
    }
}

/// The policies whose finalizer is taken off once nothing is owed any more.
fn freeable(view: &View) -> &[Arc<str>] {
    match &view.operator {
        Some(OperatorPresence::Gone(_)) => &view.deleting,
        _ => &[],
    }
}

/// The policies of which it is not known whether an operator lets them go.
fn undecided(view: &View) -> &[Arc<str>] {
    match &view.operator {
        Some(OperatorPresence::Unknown(_)) => &view.deleting,
        _ => &[],
    }
}

/// Restores, lets policies go, and tells what came of it.
async fn carry_out(restorer: &Restorer, view: View, stop: &CancellationToken) -> bool {
    let (free, undecided) = (freeable(&view).to_vec(), undecided(&view).to_vec());
    let ended = restorer.restore(view.plans, stop, &say).await;
    let mut left: Vec<String> = ended.iter().flat_map(|ended| ended.left.clone()).collect();
    let keeps = |policies: Vec<Arc<str>>, why: &str| {
        let told = policies.into_iter();
        told.map(move |policy| format!("ProbePolicy {policy}: keeps its finalizer: {why}"))
            .collect::<Vec<_>>()
    };
    left.extend(keeps(
        undecided,
        "whether an operator is alive cannot be told",
    ));
    if !free.is_empty() {
        match stop.run_until_cancelled(restorer.let_go()).await {
            Some(policies) => {
                for policy in &policies.freed {
                    say(&format!(
                        "ProbePolicy {policy}: nothing is owed, so its finalizer was taken off"
                    ));
                }
                left.extend(policies.left);
            }
            None => left.extend(keeps(free, "interrupted")),
        }
    }
    say(&summary(&ended, &left, !stop.is_cancelled()));
    left.is_empty()
}

/// What is there, and what would be done.
fn preview(view: &View, overrule: bool) -> String {
    let mut blocks: Vec<String> = view.plans.iter().map(|plan| plan.table()).collect();
    let mut last = String::new();
    if view.plans.is_empty() {
        last.push_str("nothing is owed to any cluster\n");
    } else if !view.plans.iter().any(|plan| plan.is_due()) {
        last.push_str("nothing is owed\n");
    }
    if view.quiet > 0 {
        let quiet = format!("other clusters, owed nothing: {}\n", view.quiet);
        last.push_str(&quiet);
    }
    if let Some(presence) = &view.operator {
        last.push_str(&format!("{}\n", presence.words()));
    }
    for policy in &view.deleting {
        let then = match view.operator {
            Some(OperatorPresence::Gone(_)) => {
                "its finalizer is taken off once nothing is owed any more"
            }
            Some(OperatorPresence::Unknown(_)) => "it keeps its finalizer",
            _ => "it is left to the operator, which lets it go once nothing is owed any more",
        };
        last.push_str(&format!("ProbePolicy {policy} is being deleted: {then}\n"));
    }
    if overrule {
        last.push_str("what is restored says ignore-scaling=true from then on\n");
    }
    blocks.push(last);
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
    let mut ignored = ended.iter().filter(|it| !it.ignored.is_empty()).peekable();
    if ignored.peek().is_some() {
        lines.push(
            "the operator does not protect these any more; once the cluster is healthy, give them \
             back to it:"
                .to_owned(),
        );
    }
    for Ended {
        cluster, ignored, ..
    } in ignored
    {
        lines.extend(ignored.iter().map(|reference| {
            let name = reference.kubectl_name();
            format!("  kubectl -n {cluster} annotate {name} {IGNORE}-")
        }));
    }
    lines.join("\n")
}

/// Asks on the terminal.
async fn confirmed(stop: &CancellationToken) -> Result<bool, RestoreError> {
    if !io::stdin().is_terminal() {
        return Err(RestoreError::NoTerminal);
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
    let answer = answer.ok_or(RestoreError::Interrupted)?;
    Ok(answer.unwrap_or(false))
}

/// Prints lines. If nobody reads them, what is done goes on. What came from others could move the
/// cursor or hide text.
fn say(lines: &str) {
    let lines = lines.replace(|c: char| c.is_control() && c != '\n', "?");
    let _ = writeln!(io::stdout().lock(), "{lines}");
}

#[cfg(test)]
mod tests {
    use clap::{Parser as _, error::ErrorKind};
    use rstest::rstest;

    use std::cell::{Cell, RefCell};

    use super::{super::Cli, *};

    /// Nothing but a policy that waits to be let go.
    fn waiting(policy: &str, operator: OperatorPresence) -> View {
        View {
            plans: Vec::new(),
            quiet: 0,
            operator: Some(operator),
            deleting: vec![policy.into()],
        }
    }

    fn gone() -> OperatorPresence {
        OperatorPresence::Gone("nobody".to_owned())
    }

    /// What is agreed to if each look finds the next of these policies, and each answer takes this
    /// many seconds; and how often it is looked and asked.
    async fn agreed(found: &[&str], answers: &[u64]) -> (Vec<Arc<str>>, usize, usize) {
        let (looks, asks) = (Cell::new(0), RefCell::new(answers.iter()));
        let look = async || {
            let policy = found[looks.replace(looks.get() + 1)];
            Ok(waiting(policy, gone()))
        };
        let ask = async || {
            let seconds = *asks.borrow_mut().next().unwrap();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(true)
        };
        let Agreed::Restore(view) = agree(look, ask, false, false).await.unwrap() else {
            panic!("nothing was agreed to");
        };
        (
            view.deleting,
            looks.get(),
            answers.len() - asks.borrow().len(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_agreed_to_late_is_looked_at_again() {
        for (found, answers, policy, looks, asks) in [
            (&["a"][..], &[5][..], "a", 1, 1),
            (&["a", "a"], &[3_600], "a", 2, 1),
            (&["a", "b"], &[3_600, 5], "b", 2, 2),
            (&["a", "b", "b"], &[3_600, 3_600], "b", 3, 2),
        ] {
            let expected = (vec![policy.into()], looks, asks);
            assert_eq!(
                agreed(found, answers).await,
                expected,
                "{found:?} {answers:?}"
            );
        }
    }

    #[rstest]
    #[case::gone(gone(), true, true)]
    #[case::alive(OperatorPresence::Alive(String::new()), false, true)]
    #[case::unknown(OperatorPresence::Unknown(String::new()), false, false)]
    #[tokio::test]
    async fn what_cannot_be_told_is_not_all_back(
        #[case] presence: OperatorPresence,
        #[case] asked: bool,
        #[case] all_is_back: bool,
    ) {
        let asks = Cell::new(false);
        let ask = async || {
            asks.set(true);
            Ok(true)
        };
        for dry_run in [true, false] {
            let look = async || Ok(waiting("a", presence.clone()));
            match agree(look, ask, dry_run, false).await.unwrap() {
                Agreed::Restore(_) => assert!(asked && !dry_run),
                Agreed::Nothing { all_is_back: told } => assert_eq!(told, all_is_back),
            }
            assert_eq!(asks.get(), asked && !dry_run);
        }
    }

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
