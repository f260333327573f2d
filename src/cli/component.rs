//! What every component that runs on the seed has around its work: logs, signals, endpoints, the
//! client, the election, and the end.

use std::time::Duration;

use clap::Args;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::args::{ActingArgs, AdminArgs, ClientArgs, FormerArgs, LeaderArgs, LogArgs};
use crate::runtime::{
    admin::Admin,
    instruments::Common,
    leader::{Elected, Elector, Ended},
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
    #[command(flatten)]
    acting: ActingArgs,
    #[command(flatten)]
    leader: LeaderArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    former: FormerArgs,
}

impl ComponentArgs {
    /// Whether another replica may lead.
    pub(super) fn has_rivals(&self) -> bool {
        self.leader.enable_leader_election
    }
}

/// What tells one component from another.
pub(super) struct Component {
    /// As in its command.
    pub(super) name: &'static str,
    /// The Lease for which its replicas stand.
    pub(super) lease: &'static str,
    /// Kind that has taken the place of the configuration file.
    pub(super) policy: &'static str,
    /// By which others see how it fares.
    pub(super) instruments: Common,
    /// All that it shows.
    pub(super) registry: Registry,
}

/// What a component works with while it stands for election.
pub(super) struct Candidate<'a> {
    /// The seed, for reads alone.
    pub(super) reads: Seed,
    seed: Seed,
    /// Instruments of this candidacy.
    pub(super) instruments: &'a Common,
    /// Whether every policy is treated as one with the mode `DryRun`.
    pub(super) dry_run: bool,
    elected: Elected,
    /// Notified when it leads.
    begins: &'a Notify,
}

impl Candidate<'_> {
    /// Waits until this process leads, and returns the seed for the term, and what ends its work.
    pub(super) async fn elected(self) -> (Seed, CancellationToken) {
        let term = self.elected.term().await;
        self.instruments.leader.set(1);
        self.begins.notify_one();
        (self.seed.led_by(term.leadership), term.stop)
    }
}

impl Component {
    /// Works until it is told to stop: in one candidacy after the other, each of which begins with nothing.
    ///
    /// # Errors
    /// When it cannot begin, or a leader cannot see what it acts on.
    pub(super) async fn run(
        self,
        args: &ComponentArgs,
        work: impl AsyncFn(Candidate<'_>),
    ) -> Result<u8, String> {
        let Self {
            name,
            lease,
            policy,
            instruments,
            registry,
        } = self;
        telemetry::init(&args.log.log, args.log.log_format).map_err(text)?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "the {name} starts");
        args.former.check(policy)?;
        let dry_run = args.acting.dry_run;
        if dry_run {
            tracing::info!("--dry-run: every policy is taken for one with the mode DryRun");
        }
        let times = args.leader.times().map_err(text)?;
        let stop = shutdown::on_signal().map_err(text)?;
        let (metrics, health) = (&args.admin.metrics_bind_addr, &args.admin.health_bind_addr);
        let admin = Admin::bind(metrics, health, (registry, instruments.shown())).await;
        let admin = admin.map_err(text)?;
        // The endpoints report the shutdown, so they stop last.
        let _serving = AbortOnDropHandle::new(tokio::spawn(admin.run()));
        let requests = &instruments.requests;
        let wire = args.client.connect(requests).await?;
        let seed = Seed::new(wire.client(Access::All), args.client.rate(), requests);
        let work = async |elected: Elected, begins: &Notify, instruments: &Common| {
            let stopped = stop.clone();
            instruments
                .health
                .check("shutdown", move || match stopped.is_cancelled() {
                    true => Err("shutting down".to_owned()),
                    false => Ok(()),
                });
            let candidate = Candidate {
                reads: seed.through(wire.client(Access::Reads)),
                seed: seed.clone(),
                instruments,
                dry_run,
                elected,
                begins,
            };
            work(candidate).await
        };
        match times {
            Some(times) => {
                let namespace = &args.leader.leader_election_namespace;
                let elector = Elector::new(seed.client().clone(), namespace, lease, times);
                lead(elector, &instruments, &stop, work).await?;
            }
            None => {
                let elected = Elected::unopposed(stop.clone());
                work(elected, &Notify::new(), &instruments).await;
            }
        }
        Ok(0)
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Stands for election, and again whenever the Lease is lost.
async fn lead(
    mut elector: Elector,
    instruments: &Common,
    stop: &CancellationToken,
    work: impl AsyncFn(Elected, &Notify, &Common),
) -> Result<(), String> {
    loop {
        let instruments = instruments.anew();
        instruments.leader.set(0);
        instruments.health.check("leader-election", elector.check());
        let candidacy = async |elected| {
            let begins = Notify::new();
            let blind = async {
                begins.notified().await;
                instruments.watches.blind(BLIND).await
            };
            tokio::select! {
                () = work(elected, &begins, &instruments) => Ok(()),
                kinds = blind => Err(format!(
                    "this replica led, and could not list {} within {BLIND:?}, as its log tells; it gave the \
                     Lease back, since another may be able to",
                    kinds.join(", ")
                )),
            }
        };
        let ended = elector.stand(stop, candidacy).await;
        instruments.leader.set(0);
        match ended.map_err(text)? {
            Ended::Stopped => return Ok(()),
            Ended::Done(done) => return done,
            Ended::Lost(lost) => {
                instruments.leaderships_lost.inc();
                tracing::warn!("{lost}");
            }
        }
    }
}
