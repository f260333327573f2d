//! `dependency-watchdog prober`

use clap::Args;
use kube::Client;

use super::args::{ClientArgs, FormerArgs, LeaderArgs, LogArgs, ReportArgs, ScaleArgs};
use crate::{
    prober::fleet,
    runtime::{
        leader::{Leadership, Lost, TimesError},
        seed::{self, ClientError, Seed},
        shutdown,
        telemetry::{self, FilterError},
    },
};

/// The Lease for which probers stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
const LEASE: &str = "dwd-prober-leader-election";

/// Flags of the prober.
#[derive(Debug, Args)]
pub(super) struct ProberArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    scale: ScaleArgs,
    #[command(flatten)]
    leader: LeaderArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    former: FormerArgs,
}

/// Why the prober does not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProberError {
    #[error(transparent)]
    Log(#[from] FilterError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("signals cannot be listened for: {0}")]
    Signals(#[from] std::io::Error),
    #[error(transparent)]
    Times(#[from] TimesError),
    #[error(transparent)]
    Lost(#[from] Lost),
}

pub(super) async fn run(args: ProberArgs) -> Result<(), ProberError> {
    telemetry::init(&args.log.log, args.log.log_format)?;
    args.former.warn();
    let election = args.leader.election()?;
    let stop = shutdown::on_signal()?;
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let client = Client::try_from(config).map_err(ClientError::Build)?;
    let elector = election.map(|it| it.elector(client.clone(), LEASE));
    let work = |leadership: Leadership| {
        let prober = fleet::Prober {
            seed: Seed::new(client.clone(), args.client.budget()).led_by(leadership.clone()),
            scale: Seed::new(client, args.scale.budget()).led_by(leadership),
            overdue_after: args.report.overdue_after(),
        };
        fleet::run(prober, stop.clone())
    };
    match elector {
        Some(elector) => elector.lead(stop.clone(), work).await?,
        None => work(Leadership::unopposed()).await,
    }
    Ok(())
}
