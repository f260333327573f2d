//! The weeder's one loop: what watches tell goes into the state, and what follows from it is done.

use std::time::Duration;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    attempts::{Deletion, DeletionError},
    delete::delete,
    instruments::Instruments,
    log,
    metrics::WeederMetrics,
    news::News,
    pods::{PodWatchNews, PodWatches},
    report::{SERVICES_UNWATCHED, WeedReport, WeedReporter, WeedTrouble},
    rights::{InForce, Reviewer},
    state::State,
    watches::{Slices, watch_namespaces, watch_policies},
};
use crate::{
    runtime::{health::Health, seed::Seed, timer::until, watch::WatchState},
    util::now::Now,
};

/// The name of the loop, for its health.
const LOOP: &str = "weeder";
/// Policies are reported at most this often.
const REPORT: Duration = Duration::from_secs(1);
/// For so long nothing is reported for a list of slices that is under way: mostly it takes a moment,
/// and what was said without it would stand for seconds.
const FIRST_LIST: Duration = Duration::from_secs(3);
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
    let (writer, reporter) = WeedReporter::new(
        seed.clone(),
        instruments.writer.clone(),
        instruments.common.health.clone(),
    );
    let (in_force, policies) = watch::channel(InForce::default());
    let reviewer = Reviewer {
        seed: seed.clone(),
        reporter: reporter.clone(),
    };
    let reviews = reviewer.run(policies);
    let reviews = stop.clone().run_until_cancelled_owned(reviews);
    let _reviews = AbortOnDropHandle::new(tokio::spawn(reviews));
    let reports = Reports::new(reporter, in_force);
    let watches = &instruments.common.watches;
    let policies = watches.begin("WeedPolicies", "watch-weedpolicies");
    let weeding = Weeding::new(&seed, dry_run, &instruments, reports);
    writer.beside(weeding.run(policies, stop)).await;
}

/// How a deletion ended.
type Done = (Deletion, Result<(), DeletionError>);

struct Weeding {
    seed: Seed,
    dry_run: bool,
    state: State,
    namespaces: WatchState,
    slices: Slices,
    pods: PodWatches,
    /// The wait for the turn of the next deletion. Which it is, is decided then.
    turn: Option<BoxFuture<'static, ()>>,
    deletions: FuturesUnordered<BoxFuture<'static, Done>>,
    reports: Reports,
    /// What was last said of watches that are broken.
    unwatched: Vec<WeedTrouble>,
    metrics: WeederMetrics,
    health: Health,
}

impl Weeding {
    fn new(seed: &Seed, dry_run: bool, instruments: &Instruments, reports: Reports) -> Self {
        let watches = &instruments.common.watches;
        Self {
            seed: seed.acting(),
            dry_run,
            state: State::default(),
            namespaces: watches.begin("Namespaces", "watch-namespaces"),
            slices: Slices::new(
                seed.client().clone(),
                watches.begin("EndpointSlices", "watch-endpointslices"),
            ),
            pods: PodWatches::new(seed.client().clone(), watches.clone()),
            turn: None,
            deletions: FuturesUnordered::new(),
            reports,
            unwatched: Vec::new(),
            metrics: instruments.weeder.clone(),
            health: instruments.common.health.clone(),
        }
    }

    async fn run(mut self, policies: WatchState, stop: CancellationToken) {
        let client = self.seed.client();
        let mut policies = watch_policies(client, self.dry_run, &policies);
        let mut namespaces = watch_namespaces(client, &self.namespaces);
        loop {
            self.health.beat(LOOP);
            self.follow_up();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Time first: a window that is over deletes nothing, whatever else happens.
                () = until(self.state.due()) => self.state.tick(Now::read()),
                // Policies and namespaces decide what the others mean.
                Some(event) = policies.next() => self.state.policy_event(event, Now::read()),
                Some(event) = namespaces.next() => self.state.namespace_event(event, Now::read()),
                Some(event) = self.slices.next() => {
                    self.state.slice_event(&self.slices.names, event, Now::read());
                }
                Some(done) = self.deletions.next() => self.deleted(done),
                Some((watch, news)) = self.pods.next() => match news {
                    PodWatchNews::Event(event) => self.state.pod_event(&watch, *event, Now::read()),
                    PodWatchNews::Broke(message) => self.state.pod_watch_broke(&watch, message),
                    PodWatchNews::Works => self.state.pod_watch_works(&watch),
                },
                () = end_of(&mut self.turn) => {
                    self.turn = None;
                    self.delete_next();
                }
                () = until(self.reports.due) => {
                    match self.expected_until() {
                        Some(end) => self.reports.due = Some(end),
                        None => self.report(),
                    }
                    continue;
                }
                // That a watch stays broken nobody tells.
                () = sleep(Health::BEAT) => if self.unwatched() == self.unwatched {
                    continue;
                },
            }
            self.reports.call_for();
        }
        // Whoever comes next would ask for the same again.
        let last = async {
            while let Some(done) = self.deletions.next().await {
                self.deleted(done);
            }
        };
        let _ = timeout(LAST_DELETIONS, last).await;
        self.tell_news();
        // Who ends while it begins knows nothing better than what stands.
        if self.reports.said.is_some() || self.expected_until().is_none() {
            self.report();
        }
    }

    /// Does what follows from the state as it is now.
    fn follow_up(&mut self) {
        self.tell_news();
        let names = self.state.service_names();
        if *names != self.slices.names {
            self.slices.restart(names.clone());
        }
        let wanted = self.state.pod_watches();
        if self.pods.want(wanted) {
            self.metrics.watching(wanted.iter());
        }
        if self.turn.is_none() && self.state.may_delete() {
            let seed = self.seed.clone();
            self.turn = Some(async move { seed.turn().await }.boxed());
        }
    }

    fn delete_next(&mut self) {
        let Some(deletion) = self.state.next_deletion(Now::read()) else {
            return;
        };
        let seed = self.seed.clone();
        self.deletions.push(Box::pin(async move {
            let ended = delete(&seed, &deletion).await;
            (deletion, ended)
        }));
        self.metrics.deleting(self.deletions.len());
    }

    fn deleted(&mut self, (deletion, ended): Done) {
        self.metrics.deleted(&ended, deletion.called_for.elapsed());
        self.metrics.deleting(self.deletions.len());
        self.state.deletion_ended(deletion, ended, Now::read());
    }

    fn tell_news(&mut self) {
        let news = self.state.take_news();
        log::happened(&news);
        for news in news {
            self.metrics.happened(&news);
            if let News::Pod { news, .. } = news {
                self.reports.reporter.pod(news);
            }
        }
    }

    /// Until when reports wait for lists that are under way; `None` if none is, or they do not wait any
    /// more.
    fn expected_until(&self) -> Option<Instant> {
        let patience = match self.reports.said {
            None => START,
            Some(_) => FIRST_LIST,
        };
        let began = self.slices.began.filter(|_| !self.state.services_listed());
        began
            .map(|it| it + patience)
            .filter(|it| *it > Instant::now())
    }

    fn report(&mut self) {
        // What is not known yet is not over.
        let mut reports = self.state.listed().then(|| self.state.reports());
        self.unwatched = self.unwatched();
        if let Some(reports) = &mut reports {
            for report in reports.iter_mut().filter(|report| is_in_force(report)) {
                report.troubles.extend(self.unwatched.clone());
            }
            self.metrics.reported(reports, self.state.sizes());
        }
        self.reports.say(reports);
    }

    /// The watches that have been broken for long, so that it is not known which services are ready.
    fn unwatched(&self) -> Vec<WeedTrouble> {
        let watches = [&self.namespaces, &self.slices.state].into_iter();
        let broken = watches.filter_map(|watch| {
            Some(WeedTrouble {
                reason: SERVICES_UNWATCHED,
                message: format!("{}: {}", watch.what(), watch.broken()?),
            })
        });
        broken.collect()
    }
}

/// What was said of the policies, and when it is said again.
struct Reports {
    reporter: WeedReporter,
    /// For which rights are reviewed.
    in_force: watch::Sender<InForce>,
    said: Option<Vec<WeedReport>>,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Reports {
    fn new(reporter: WeedReporter, in_force: watch::Sender<InForce>) -> Self {
        Self {
            reporter,
            in_force,
            said: None,
            due: None,
            last: None,
        }
    }

    /// Something has changed.
    fn call_for(&mut self) {
        let soonest = self.last.map_or_else(Instant::now, |last| last + REPORT);
        self.due = Some(self.due.map_or(soonest, |due| due.min(soonest)));
    }

    /// Says it if it is new.
    fn say(&mut self, reports: Option<Vec<WeedReport>>) {
        self.due = None;
        if let Some(reports) = reports {
            self.last = Some(Instant::now());
            if self.said.as_ref() != Some(&reports) {
                let in_force = in_force(&reports);
                self.in_force.send_if_modified(|known| {
                    let differs = *known != in_force;
                    *known = in_force;
                    differs
                });
                self.reporter.policies(reports.clone());
                self.said = Some(reports);
            }
        }
    }
}

/// The policies for which pods may have to be deleted.
fn in_force(reports: &[WeedReport]) -> InForce {
    let policies = reports.iter().filter(|report| is_in_force(report));
    policies.map(|it| (it.uid.clone(), it.generation)).collect()
}

fn is_in_force(report: &WeedReport) -> bool {
    !report.suspend && !report.deleting && report.problems.is_empty()
}

/// Waits for the end of what is under way; for ever if nothing is.
async fn end_of(turn: &mut Option<BoxFuture<'static, ()>>) {
    match turn {
        Some(turn) => turn.await,
        None => std::future::pending().await,
    }
}
