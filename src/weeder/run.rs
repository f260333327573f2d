//! The weeder's one loop: what watches tell goes into the state, and what follows from it is done.

use std::time::Duration;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    case::{Case, News},
    delete::{DeletionError, delete},
    instruments::Instruments,
    log,
    metrics::WeederMetrics,
    report::{SERVICES_UNWATCHED, WeedReporter, WeedTrouble},
    state::{Scope, State},
    watches::{self, Pods, Slices},
};
use crate::{
    runtime::{health::Health, seed::Seed, timer::until, watch::WatchState},
    util::now::Now,
};

/// The name of the loop, for its health.
const LOOP: &str = "weeder";
/// Policies are reported at most this often.
const REPORT: Duration = Duration::from_secs(1);
/// For so long nothing is reported at the start, for lists that take longer or are tried again: what an
/// earlier run has said stands meanwhile, and a start is not to change it and then change it back.
const START: Duration = Duration::from_secs(30);
/// When the weeder is stopped, deletions that are under way may still end within this.
const LAST_DELETIONS: Duration = Duration::from_secs(5);

/// What the weeder runs with.
#[derive(Clone)]
pub struct Weeder {
    /// Where it reads, deletes and reports.
    pub seed: Seed,
    /// Whether every policy is taken for one with the mode `DryRun`.
    pub dry_run: bool,
    /// By which others see how it fares.
    pub instruments: Instruments,
}

/// Runs the weeder until it is stopped. All that it has begun ends when it is dropped.
pub async fn run(weeder: Weeder, stop: CancellationToken) {
    let Weeder {
        seed,
        dry_run,
        instruments,
    } = weeder;
    let common = &instruments.common;
    let (writer, reporter) = WeedReporter::new(
        seed.clone(),
        instruments.writer.clone(),
        common.health().clone(),
    );
    let (client, watches) = (seed.client(), &common.watches);
    let policies = watches.begin("WeedPolicies", "watch-weedpolicies");
    let slices = watches.begin("EndpointSlices", "watch-endpointslices");
    let weeding = Weeding {
        state: State::default(),
        namespaces: watches.begin("Namespaces", "watch-namespaces"),
        slices: Slices::new(client.clone(), slices),
        pods: Pods::new(client.clone(), watches.clone()),
        turn: None,
        deletions: FuturesUnordered::new(),
        reporter,
        started: Instant::now(),
        has_reported: false,
        unwatched: Unwatched::default(),
        due: None,
        metrics: instruments.weeder.clone(),
        health: common.health().clone(),
        seed: seed.acting(),
    };
    writer.beside(weeding.run(dry_run, policies, stop)).await;
}

/// How a deletion ended.
type Done = (Case, Result<(), DeletionError>);

/// Watches that are broken: of services, and of pods.
type Unwatched = (Vec<WeedTrouble>, Vec<(Scope, String)>);

struct Weeding {
    seed: Seed,
    state: State,
    namespaces: WatchState,
    slices: Slices,
    pods: Pods,
    /// The wait for the turn of the next deletion. Which it is, is decided then.
    turn: Option<BoxFuture<'static, ()>>,
    deletions: FuturesUnordered<BoxFuture<'static, Done>>,
    reporter: WeedReporter,
    started: Instant,
    /// Set once policies were reported.
    has_reported: bool,
    /// Watches that were last reported as broken.
    unwatched: Unwatched,
    /// When the next report is due.
    due: Option<Instant>,
    metrics: WeederMetrics,
    health: Health,
}

impl Weeding {
    async fn run(mut self, dry_run: bool, policies: WatchState, stop: CancellationToken) {
        let mut policies = watches::policies(&self.seed, dry_run, &policies);
        let mut namespaces = watches::namespaces(self.seed.client(), &self.namespaces);
        loop {
            self.health.beat(LOOP);
            self.follow_up();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Time first: a window that is over deletes nothing, whatever else happens.
                () = until(self.state.due()) => self.state.tick(Now::read()),
                // Policies and namespaces decide what the others mean.
                Some(change) = policies.next() => self.state.policies(change, Now::read()),
                Some(change) = namespaces.next() => self.state.namespaces(change, Now::read()),
                Some(change) = self.slices.next() => self.state.slices(change, Now::read()),
                Some(done) = self.deletions.next() => self.deleted(done),
                (scope, change) = self.pods.next() => {
                    self.state.pods(&scope, change, Now::read());
                }
                () = end_of(&mut self.turn) => {
                    self.turn = None;
                    self.delete_next();
                }
                () = until(self.due) => {
                    self.report();
                    continue;
                }
                // That a watch stays broken nobody tells.
                () = sleep(Health::BEAT) => if self.unwatched() == self.unwatched {
                    continue;
                },
            }
            self.due.get_or_insert_with(|| Instant::now() + REPORT);
        }
        // Whoever comes next would ask for the same again.
        let last = async {
            while let Some(done) = self.deletions.next().await {
                self.deleted(done);
            }
        };
        let _ = timeout(LAST_DELETIONS, last).await;
        self.tell_news();
        self.report();
    }

    /// Does what follows from the state as it is now.
    fn follow_up(&mut self) {
        self.tell_news();
        self.slices.want(self.state.services());
        self.pods.want(self.state.scopes());
        self.metrics.watching(self.state.scopes().len());
        if self.turn.is_none() && self.state.may_delete() {
            let seed = self.seed.clone();
            self.turn = Some(async move { seed.turn().await }.boxed());
        }
    }

    fn delete_next(&mut self) {
        let Some(case) = self.state.begin(Now::read()) else {
            return;
        };
        let seed = self.seed.clone();
        self.deletions.push(Box::pin(async move {
            let ended = delete(&seed, &case).await;
            (case, ended)
        }));
    }

    fn deleted(&mut self, (case, ended): Done) {
        self.metrics.deleted(&ended, case.called_for.elapsed());
        self.state.ended(case, ended, Now::read());
    }

    fn tell_news(&mut self) {
        for news in self.state.take_news() {
            log::happened(&news);
            self.metrics.happened(&news);
            if let News::Pod(case, deed) = news {
                self.reporter.pod(case, deed);
            }
        }
    }

    /// Reports all policies, if that is new. What is not known yet is not over: at a start, lists are waited for.
    fn report(&mut self) {
        self.due = None;
        let expected = self.started + START;
        if !self.has_reported && !self.state.services_listed() && Instant::now() < expected {
            self.due = Some(expected);
        } else if self.state.is_listed() {
            self.unwatched = self.unwatched();
            let (services, pods) = &self.unwatched;
            let mut reports = self.state.reports(pods);
            for report in reports.iter_mut().filter(|it| it.policy.is_in_force()) {
                report.troubles.extend(services.clone());
            }
            self.metrics.reported(&reports, self.state.waiting());
            self.reporter.policies(reports);
            self.has_reported = true;
        }
    }

    /// Returns the watches that have been broken for long: then it is not known which services are ready, or which
    /// pods crash.
    fn unwatched(&self) -> Unwatched {
        let services = [&self.namespaces, &self.slices.state].into_iter();
        let services = services.filter_map(|watch| {
            Some(WeedTrouble {
                reason: SERVICES_UNWATCHED,
                message: format!("{}: {}", watch.what(), watch.broken()?),
            })
        });
        (services.collect(), self.pods.broken())
    }
}

/// Waits for the end of what is under way; for ever if nothing is.
async fn end_of(turn: &mut Option<BoxFuture<'static, ()>>) {
    match turn {
        Some(turn) => turn.await,
        None => std::future::pending().await,
    }
}
