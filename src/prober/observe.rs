//! The reading half of one cluster's loop: waits until a read is due, reads, and judges.

mod rest;

use std::{mem, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    candidates::Roster,
    evidence::{EvidenceError, Sources},
    facts::Facts,
    heartbeat::{LeaseNames, LeaseSnapshot},
    metrics::ProberMetrics,
    moment::{Moment, Origin},
    proof::Proof,
    schedule::{Occasion, Pace},
    verdict::{Doubt, Thresholds, Verdict},
    watch::{Conclusion, Request, Rules, Taken, Watch},
};
use crate::{
    api::{CheckStatus, ClusterHealthStatus, ClusterState},
    cluster::Settings,
    observer::{
        NodeCounts, View,
        look::Looks,
        observation::{Found, Observation},
    },
    shoot::{Consistency, LeaseRead},
};

/// For `/version`: no longer than the pause after a failed read, so that it delays no read of a proof.
const VERSION_LIMIT: Duration = Duration::from_secs(1);

/// Judgement: a first read that takes longer no longer keeps others waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

/// Watches one cluster by the settings it was last given.
pub(super) struct Observer {
    origin: Origin,
    settings: Arc<Settings>,
    sources: Sources,
    metrics: Arc<ProberMetrics>,
    watch: Watch,
    /// The next round reads immediately, whatever the schedule says.
    at_once: bool,
    /// Silence is being proven: nothing else is read meanwhile.
    proving: bool,
    server: Server,
    /// When Nodes and Machines may next be read at leisure.
    facts_due: Instant,
    observation: Observation,
    looks: Looks,
    /// There is news of the state to report.
    news: bool,
}

/// The API server as the lists of leases show it.
#[derive(Default)]
struct Server {
    /// The reason of the first of the failures in a row, and what could be found out about it.
    failure: Option<(&'static str, Option<String>)>,
    /// Whether the last list of leases came, or why it did not.
    reached: Option<Result<(), String>>,
    /// When the newest list of leases that came was requested.
    answered: Option<Instant>,
    /// When the connection was given up because it showed no writes.
    redialled: Option<Instant>,
}

/// The result of a round.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was woken before its read was due.
    Woken,
    /// There is news of the cluster's state, and no read was due yet.
    Looked,
    Judged(Conclusion),
    /// The leases came, and for this reason are no evidence.
    LeasesAlone(EvidenceError),
    NoEvidence(EvidenceError),
}

impl Observer {
    /// Starts watching by these settings; `recalled` is what an earlier run has left in the
    /// ClusterHealth.
    pub(super) fn new(
        origin: Origin,
        settings: Arc<Settings>,
        (sources, looks): (Sources, Looks),
        metrics: Arc<ProberMetrics>,
        recalled: Option<&ClusterHealthStatus>,
    ) -> Self {
        let observer = settings.observer.clone();
        let (now, draw) = (Instant::now(), fastrand::f64());
        Self {
            origin,
            watch: Watch::new(rules(&settings)),
            settings,
            sources,
            metrics,
            at_once: true,
            proving: false,
            server: Server::default(),
            facts_due: now,
            observation: Observation::new(observer, recalled, now, draw),
            looks,
            news: false,
        }
    }

    /// Replaces the settings and keeps the evidence. Nothing is read out of turn: a policy may apply to
    /// a thousand clusters.
    pub(super) fn adopt(&mut self, settings: Arc<Settings>) {
        self.watch.set_rules(rules(&settings));
        if self.settings.pools != settings.pools {
            self.watch.facts_mut().want();
        }
        self.sources.set_secret(&settings.secret_name);
        self.settings = settings;
        self.observe_anew();
    }

    /// Restarts the observation, since the cluster or its settings changed.
    pub(super) fn observe_anew(&mut self) {
        self.looks.stop();
        let observer = self.settings.observer.clone();
        let now = Instant::now();
        self.observation.restart(observer, now, fastrand::f64());
    }

    pub(super) fn view(&self) -> View {
        self.observation.view()
    }

    /// The statuses of the providers of metrics.
    pub(super) fn providers(&self) -> Vec<CheckStatus> {
        self.observation.statuses()
    }

    /// When the newest list of leases that came was requested.
    pub(super) fn answered(&self) -> Option<Instant> {
        self.server.answered
    }

    /// Whether these are its settings.
    pub(super) fn follows(&self, settings: &Settings) -> bool {
        *self.settings == *settings
    }

    /// Sets whether the cluster is protected, which changes what counts.
    pub(super) fn set_protected(&mut self, protected: bool) {
        self.watch.set_protected(protected);
    }

    /// Runs one round. It takes the observer and returns it, so that a round that is dropped takes its
    /// connection with it. A round rests nearly all the time, so the futures that read, of several
    /// kilobytes, are boxed.
    pub(super) async fn round(mut self: Box<Self>, wake: Arc<Notify>) -> (Box<Self>, Outcome) {
        let outcome = if mem::take(&mut self.at_once) {
            Box::pin(self.read_first()).await
        } else {
            let next = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(next.at));
            tokio::select! {
                // A read that is due comes before a wake-up.
                biased;
                news = self.rest(due) => {
                    if news {
                        return (self, Outcome::Looked);
                    }
                }
                () = wake.notified() => return (self, Outcome::Woken),
            }
            Box::pin(self.read()).await
        };
        (self, outcome)
    }

    async fn read_first(&mut self) -> Outcome {
        let turn = self.sources.first_turn().await;
        let mut read = pin!(self.read());
        if let Ok(outcome) = timeout(FIRST_READ, &mut read).await {
            return outcome;
        }
        drop(turn);
        read.await
    }

    async fn read(&mut self) -> Outcome {
        let (probing, began) = (self.metrics.probe(), Instant::now());
        let read = self.read_and_conclude().await;
        probing.ended(&read);
        self.proving = read.as_ref().is_ok_and(is_proving);
        if self.proving {
            // A look that still waits for its turn would begin during the proof.
            self.looks.drop_all();
        }
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        // The result of this read reports all news.
        self.news = false;
        let reached = self.server.reached.take();
        let transition = match &reached {
            Some(Ok(())) => self.observation.reached(began),
            Some(Err(why)) => self.observation.unreached(began, why),
            None => None,
        };
        if transition.is_some_and(|change| change.to == ClusterState::Connecting) {
            // A look that began before the server was away says nothing about it now.
            self.looks.stop();
        }
        match read {
            Ok(conclusion) => Outcome::Judged(conclusion),
            Err(error) if matches!(reached, Some(Ok(()))) => Outcome::LeasesAlone(error),
            Err(error) => Outcome::NoEvidence(error),
        }
    }

    /// Derives the state, and the use of the connection, from the leases. Without a verdict, what was
    /// found before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(Doubt::NoWrites) => {
                // This connection may lead to a server that has been replaced. The next one has the same
                // time to show a write.
                let window = Proof::write_window(seen.period);
                if self.server.redialled.is_none_or(|at| now >= at + window) {
                    self.server.redialled = Some(now);
                    self.sources.disconnect();
                }
                return;
            }
            Verdict::Undetermined(_) => return,
        };
        if self.observation.judged(now, silent) {
            // A look that began in the silence may show it although it is over.
            self.looks.drop_all();
        }
    }

    async fn read_and_conclude(&mut self) -> Result<Conclusion, EvidenceError> {
        if self.leases().await? == Taken::NeedsFacts {
            self.facts().await?;
            // Leases must be fresh to act on. A consistent list is always taken in.
            if self.watch.is_outlived(self.now()) {
                self.list(true).await?;
            }
        }
        // There is always a list to conclude from, since a consistent one is always taken in.
        self.watch.conclude().ok_or(EvidenceError::NoLeases)
    }

    /// Reads the leases as the watch asks, and again if the answer is older than one before.
    async fn leases(&mut self) -> Result<Taken, EvidenceError> {
        match self.list(false).await? {
            Taken::ReadAgain => self.list(true).await,
            taken => Ok(taken),
        }
    }

    /// Lists the leases once: consistently if the watch asks for it, or if told so.
    async fn list(&mut self, consistent: bool) -> Result<Taken, EvidenceError> {
        let started = self.now();
        let mut request = self.watch.request();
        request.consistent |= consistent;
        let mut error = match self.sources.leases(request).await {
            Ok(read) => {
                self.server.reached = Some(Ok(()));
                self.server.answered = Some(Instant::from_std(read.started));
                let taken = self.watch.observe(&snapshot(self.origin, &read));
                if taken != Taken::ReadAgain {
                    self.server.failure = None;
                }
                return Ok(taken);
            }
            Err(error) => error,
        };
        let finished = self.now();
        match error.throttled() {
            Some(wait) => self.watch.throttled(started, finished, wait),
            None => self.watch.failed(started, finished),
        }
        self.explain(&mut error, request, finished).await;
        self.server.reached = Some(Err(error.to_string()));
        Err(error)
    }

    /// Finds out more about the first failure in a row. Further failures for the same reason reuse it.
    async fn explain(&mut self, error: &mut EvidenceError, request: Request, failed: Moment) {
        if self.server.failure.is_none() {
            let next = self.watch.next(failed, 0.0);
            // Only a read that is due by the interval alone may be late by a second.
            let at_leisure =
                next.occasion == Occasion::Interval || next.at.since(failed) >= VERSION_LIMIT;
            let found = if at_leisure && !request.insist {
                self.sources.explain(error, VERSION_LIMIT).await
            } else {
                None
            };
            self.server.failure = Some((error.reason(), found));
        }
        if let Some((reason, Some(found))) = &self.server.failure
            && *reason == error.reason()
        {
            error.add(found);
        }
    }

    async fn facts(&mut self) -> Result<(), EvidenceError> {
        let started = self.now();
        let leases = self.watch.leases().names().clone();
        let mut request = self.watch.request();
        // Another cached list cannot settle what a cached list left in doubt.
        request.consistent |= self.watch.facts().doubted().is_some();
        let facts = match self.sources.facts(request).await {
            Ok(facts) => self.beside_leases(facts).await?.transpose(),
            Err(error) => Err(error),
        };
        match facts {
            Ok(Some(facts)) => self.learn(&facts, &leases, request.consistent),
            Ok(None) => {}
            Err(error) => {
                self.not_learnt(&error);
                let finished = self.now();
                match error.throttled() {
                    Some(wait) => self.watch.throttled(started, finished, wait),
                    None => self.watch.facts_failed(finished),
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for facts. The leases are read meanwhile when they are due, since a proof allows no gap;
    /// `None` if they show that facts are no longer needed.
    async fn beside_leases<T: Send + 'static>(
        &mut self,
        facts: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, EvidenceError> {
        let mut facts = AbortOnDropHandle::new(tokio::spawn(facts));
        loop {
            let next = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(next.at));
            tokio::select! {
                // The facts come first: the round waits for them.
                biased;
                facts = &mut facts => {
                    // The task can fail only by a panic, which belongs to this loop.
                    return Ok(Some(facts.unwrap_or_else(|it| resume_unwind(it.into_panic()))));
                }
                () = sleep_until(due) => {}
            }
            if self.leases().await? != Taken::NeedsFacts {
                return Ok(None);
            }
        }
    }

    /// Takes in facts; `leases` are the names from before they were read.
    fn learn(&mut self, facts: &Facts, leases: &Arc<LeaseNames>, consistent: bool) {
        let machines = facts.machines.as_deref();
        let roster = Roster::new(leases, &facts.nodes, machines, &self.settings.pools);
        let began = self.origin.moment(facts.began.into_std());
        self.watch.learn(roster, began, consistent);
        if let Some(pause) = self.watch.facts().doubted() {
            self.facts_due = Instant::now() + pause;
        }
        self.found(Found::Nodes(Ok(NodeCounts::of(&facts.nodes))));
    }

    /// Nodes that cannot be read for a verdict are not tried again for the state.
    fn not_learnt(&mut self, error: &EvidenceError) {
        if let EvidenceError::Shoot(..) | EvidenceError::NoRoom(_) = error {
            self.found(Found::Nodes(Err(error.to_string())));
        }
    }

    fn now(&self) -> Moment {
        self.origin.moment(Instant::now().into_std())
    }
}

/// Whether further reads decide on an outage: they have the connection to themselves.
fn is_proving(conclusion: &Conclusion) -> bool {
    match conclusion.verdict {
        Verdict::Undetermined(Doubt::Unproven(_) | Doubt::FactsOutdated) => true,
        Verdict::Outage => conclusion.act.is_none(),
        Verdict::Undetermined(_) | Verdict::Healthy => false,
    }
}

fn snapshot(origin: Origin, read: &LeaseRead) -> LeaseSnapshot<'_> {
    LeaseSnapshot {
        started: origin.moment(read.started),
        finished: origin.moment(read.finished),
        date: read.date,
        consistent: read.consistency == Consistency::Consistent,
        resource_version: read.list.resource_version,
        leases: &read.list.leases,
    }
}

fn rules(settings: &Settings) -> Rules {
    Rules {
        thresholds: Thresholds {
            grace: settings.grace,
            fraction: settings.fraction,
        },
        pace: Pace {
            interval: settings.interval,
            jitter_factor: settings.jitter_factor,
            timeout: settings.timeout,
        },
        failure_threshold: settings.failure_threshold,
        success_threshold: settings.success_threshold,
    }
}
