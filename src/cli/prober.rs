//! `dependency-watchdog prober`

use clap::Args;
use kube::Client;

use super::args::{ClientArgs, LogArgs, ReportArgs, ScaleArgs};
use crate::{
    prober::fleet,
    runtime::{
        seed::{self, ClientError, Seed},
        shutdown,
        telemetry::{self, FilterError},
    },
};

/// Flags of the prober.
#[derive(Debug, Args)]
pub(super) struct ProberArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    scale: ScaleArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    log: LogArgs,
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
}

pub(super) async fn run(args: ProberArgs) -> Result<(), ProberError> {
    telemetry::init(&args.log.log, args.log.log_format)?;
    let stop = shutdown::on_signal()?;
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let client = Client::try_from(config).map_err(ClientError::Build)?;
    let seed = Seed::new(client.clone(), args.client.budget());
    let scale = Seed::new(client, args.scale.budget());
    let prober = fleet::Prober {
        seed,
        scale,
        overdue_after: args.report.overdue_after(),
    };
    fleet::run(prober, stop).await;
    Ok(())
}
