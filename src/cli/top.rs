//! `dependency-watchdog top`

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::time;

use super::args::{ClientArgs, up_to_a_day};
use crate::{
    runtime::{
        metrics::RequestMetrics,
        seed::{self, ClientError, Seed},
    },
    top::{self, Fleet, ListError, Standing},
};

/// The seed could not be asked; also clap's code for a wrong flag.
const COULD_NOT_ASK: u8 = 2;
/// Clusters of which `--watch` shows no more on a terminal: the worst are at the top, and stay visible.
const SCREEN: usize = 20;
/// Moves the cursor to the top left, and clears from there.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Flags of top.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 listed, 2 could not ask.")]
pub(super) struct TopArgs {
    /// The form of the list
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// List again and again, until interrupted
    #[arg(short, long)]
    watch: bool,

    /// From one list to the next with --watch; 1s to 24h
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = up_to_a_day)]
    interval: Duration,

    /// Only clusters of this ProbePolicy
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Only clusters of this standing; several are separated by commas
    #[arg(long, value_enum, value_delimiter = ',')]
    standing: Vec<Standing>,

    /// Show no more clusters than this, the worst ones; 0 for all, which is the default, but for
    /// --watch on a terminal, where it is 20. JSON has all of them
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    client: ClientArgs,
}

/// The form of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    /// The same, with what is owed, when it was probed last, and why it is so
    Wide,
    /// For tools: the same facts, under names that stay; with --watch, one line per list
    Json,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
enum TopError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error("the list cannot be put into JSON: {0}; please report this")]
    Json(#[from] serde_json::Error),
    #[error("writing to the standard output: {0}")]
    Output(#[from] io::Error),
}

/// Lists, and returns the exit code.
pub(super) async fn run(args: TopArgs) -> ExitCode {
    match show(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough is no failure.
        Err(TopError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_ASK)
        }
    }
}

async fn show(args: &TopArgs) -> Result<(), TopError> {
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let client = seed::client(&config, &RequestMetrics::default())?;
    let seed = Seed::new(client, args.client.budget());
    let terminal = io::stdout().is_terminal();
    print(&args.text(&args.fleet(&seed).await?, terminal)?)?;
    if !args.watch {
        return Ok(());
    }
    loop {
        time::sleep(args.interval).await;
        match args.fleet(&seed).await {
            Ok(fleet) => print(&args.text(&fleet, terminal)?)?,
            // The seed may be back soon. What is on the screen shows its age no more, hence the line.
            Err(error) => eprintln!("error: {error}; the list above is old; trying again"),
        }
    }
}

impl TopArgs {
    async fn fleet(&self, seed: &Seed) -> Result<Fleet, ListError> {
        let listed = top::list(seed).await?;
        let mut fleet = Fleet::new(&listed.records, listed.now);
        fleet.retain(self.policy.as_deref(), &self.standing);
        Ok(fleet)
    }

    fn text(&self, fleet: &Fleet, terminal: bool) -> Result<String, serde_json::Error> {
        let screen = self.watch && terminal;
        let limit = match self.limit {
            Some(0) => usize::MAX,
            Some(limit) => limit,
            None if screen => SCREEN,
            None => usize::MAX,
        };
        let text = match self.output {
            Output::Json if self.watch => return Ok(serde_json::to_string(fleet)? + "\n"),
            Output::Json => return Ok(serde_json::to_string_pretty(fleet)? + "\n"),
            Output::Table | Output::Wide => top::table(fleet, self.output == Output::Wide, limit),
        };
        Ok(match (self.watch, terminal) {
            (true, true) => format!("{CLEAR}{:.0}  {text}", fleet.time.0),
            (true, false) => format!("{:.0}  {text}\n", fleet.time.0),
            (false, _) => text,
        })
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
