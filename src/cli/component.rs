//! What every component that runs on the seed has around its work: logs, signals, endpoints, the
//! client, the election, and the end.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::args::{AdminArgs, ClientArgs, LeaderArgs, LogArgs, policies_instead};
use crate::runtime::{
    admin::Admin,
    instruments::Common,
    leader::{Elector, Leadership},
    metrics::Registry,
    seed::Seed,
    shutdown, telemetry,
    wire::Access,
};

/// A leader that has not listed what it acts on after this long gives way to others: a new version
/// may lack a right or a kind that an old one does not need.
const BLIND: Duration = Duration::from_secs(5 * 60);

/// Flags that every component has.
#[derive(Debug, Args)]
pub(super) struct ComponentArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Take every policy for one with the mode DryRun, whatever it says: observe, judge and report,
    /// but scale no dependent and delete no pod
    #[arg(long, env = "DWD_DRY_RUN", help_heading = "Acting")]
    dry_run: bool,
    #[command(flatten)]
    leader: LeaderArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
    /// Taken from what was deployed before: nothing is worked off one after another
    #[arg(long = "concurrent-reconciles", value_name = "COUNT", hide = true)]
    _concurrent_reconciles: Option<NonZeroU32>,
    /// Policies have taken its place
    #[arg(long = "config-file", value_name = "FILE", hide = true, value_parser = policies_instead)]
    _config_file: Option<PathBuf>,
}

/// Parts that a component works with in one candidacy.
pub(super) struct Context {
    /// The seed, for reads alone, which need no leadership.
    pub(super) reads: Seed,
    /// The seed, for as long as the leadership is held.
    pub(super) seed: Seed,
    /// Leadership of this process.
    pub(super) leadership: Leadership,
    /// Whether every policy is treated as one with the mode `DryRun`.
    pub(super) dry_run: bool,
    /// Ends the work.
    pub(super) stop: CancellationToken,
}

/// Runs a component until it is told to stop. Its replicas stand for this Lease. When the Lease is lost, the work is
/// dropped, and the next candidacy begins with nothing.
///
/// # Errors
///
/// When it cannot begin, or a leader cannot see what it acts on.
pub(super) async fn run(
    args: &ComponentArgs,
    lease: &str,
    instruments: &Common,
    registry: Registry,
    work: impl AsyncFn(Context),
) -> Result<u8, String> {
    telemetry::init(&args.log.log, args.log.log_format)?;
    let (version, dry_run) = (env!("CARGO_PKG_VERSION"), args.dry_run);
    tracing::info!(version, lease, dry_run, "starts");
    let times = args.leader.times()?;
    let stop = shutdown::on_signal().map_err(|error| error.to_string())?;
    let (metrics_at, health_at) = (&args.admin.metrics_bind_addr, &args.admin.health_bind_addr);
    let health = instruments.health();
    let shown = (registry, health.clone());
    let admin = Admin::bind(metrics_at, health_at, shown).await?;
    let _serving = AbortOnDropHandle::new(tokio::spawn(admin.run()));
    let requests = &instruments.requests;
    let wire = args.client.connect(requests).await?;
    let seed = Seed::new(wire.client(Access::All), args.client.rate(), requests);
    let context = |leadership: Leadership| Context {
        reads: Seed::new(wire.client(Access::Reads), args.client.rate(), requests),
        seed: seed.clone().led_by(leadership.clone()),
        leadership,
        dry_run,
        stop: stop.clone(),
    };
    let Some(times) = times else {
        work(context(Leadership::unopposed())).await;
        return Ok(0);
    };
    let namespace = &args.leader.lease.leader_election_namespace;
    let mut elector = Elector::new(seed.client().clone(), namespace, lease, times);
    loop {
        instruments.stand_by();
        health.check("leader-election", elector.check());
        let candidacy = async |leadership: Leadership| {
            let blind = async {
                leadership.begun().await;
                instruments.leader.set(1);
                instruments.watches.blind(BLIND).await
            };
            tokio::select! {
                () = work(context(leadership.clone())) => Ok(0),
                kinds = blind => Err(format!(
                    "this replica led, and could not list {} within {BLIND:?}, as its log tells; it gave \
                     the Lease back, since another may be able to",
                    kinds.join(", ")
                )),
            }
        };
        match elector.stand(&stop, candidacy).await {
            Ok(done) => return done.unwrap_or(Ok(0)),
            Err(lost) => {
                instruments.leaderships_lost.inc();
                tracing::warn!("leadership was lost: {lost}");
            }
        }
    }
}
