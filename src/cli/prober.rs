//! `dependency-watchdog prober`

use std::time::Duration;

use clap::Args;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::args::{AdminArgs, ClientArgs, FormerArgs, LeaderArgs, LogArgs, ReportArgs, ScaleArgs};
use crate::{
    prober::{fleet, instruments::Instruments},
    runtime::{
        admin::{Admin, BindError, Endpoints},
        leader::{Leadership, Lost, TimesError},
        seed::{self, ClientError, Seed},
        shutdown,
        telemetry::{self, FilterError},
    },
};

/// The Lease for which probers stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
const LEASE: &str = "dwd-prober-leader-election";

/// A leader that has not listed what it acts on after this long gives way to others: a new version
/// may lack a right or a kind that an old one does not need.
const BLIND: Duration = Duration::from_secs(5 * 60);

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
    admin: AdminArgs,
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
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("signals cannot be listened for: {0}")]
    Signals(#[from] std::io::Error),
    #[error(transparent)]
    Times(#[from] TimesError),
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(
        "this replica led, and could not list {0} within {BLIND:?}, as its log tells; it gave the \
         Lease back, since another may be able to"
    )]
    Blind(String),
}

pub(super) async fn run(args: ProberArgs) -> Result<(), ProberError> {
    telemetry::init(&args.log.log, args.log.log_format)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the prober starts");
    args.former.warn();
    let election = args.leader.election()?;
    let stop = shutdown::on_signal()?;
    let (instruments, registry) = Instruments::new(args.admin.cluster_metrics);
    instruments.checks.stopped_by(stop.clone());
    let endpoints = Endpoints {
        registry,
        pulses: instruments.pulses.clone(),
        checks: instruments.checks.clone(),
    };
    let (metrics, health) = (&args.admin.metrics_bind_addr, &args.admin.health_bind_addr);
    let admin = Admin::bind(metrics, health, endpoints).await?;
    let config = seed::config(args.client.kubeconfig.as_deref()).await?;
    let client = seed::client(config, &instruments.requests)?;
    // The endpoints tell about the end, so they outlive it.
    let last = CancellationToken::new();
    let serving = tokio::spawn(admin.run(last.clone()));
    let ended = match election {
        Some(election) => {
            let elector = election.elector(client.clone(), LEASE);
            let leader = instruments.leader.clone();
            leader.set(false);
            instruments
                .checks
                .register("leader-election", elector.check());
            let work = |leadership| {
                leader.set(true);
                let watches = instruments.watches.clone();
                let fleet = fleet::run(args.prober(client, leadership, instruments), stop.clone());
                async move {
                    tokio::select! {
                        () = fleet => Ok(()),
                        kinds = watches.blind(BLIND) => Err(ProberError::Blind(kinds.join(", "))),
                    }
                }
            };
            let ended = elector.lead(stop.clone(), work).await;
            leader.set(false);
            ended.map_or_else(|lost| Err(lost.into()), |done| done.unwrap_or(Ok(())))
        }
        None => {
            let leadership = Leadership::unopposed();
            fleet::run(args.prober(client, leadership, instruments), stop).await;
            Ok(())
        }
    };
    last.cancel();
    // The server does not panic; if it did, there is nobody left to tell.
    let _ = serving.await;
    ended
}

impl ProberArgs {
    fn prober(
        &self,
        client: Client,
        leadership: Leadership,
        instruments: Instruments,
    ) -> fleet::Prober {
        let seed = Seed::new(client.clone(), self.client.budget());
        let scale = Seed::new(client, self.scale.budget());
        fleet::Prober {
            seed: seed
                .measured(instruments.seed_budget.clone())
                .led_by(leadership.clone()),
            scale: scale
                .measured(instruments.scale_budget.clone())
                .led_by(leadership),
            overdue_after: self.report.overdue_after(),
            instruments,
        }
    }
}
