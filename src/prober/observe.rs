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
        state::Transition,
    },
    shoot::{Consistency, LeaseRead},
};

/// For `/version`: no more than the pause after a failed read, so that nothing waits for it that a
/// proof may depend on.
const VERSION_LIMIT: Duration = Duration::from_secs(1);

/// A first read that takes longer keeps no other waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

/// Watches one cluster by the settings it was last given.
pub struct Observer {
    origin: Origin,
    settings: Arc<Settings>,
    sources: Sources,
    metrics: Arc<ProberMetrics>,
    watch: Watch,
    /// The next round reads at once, whatever the schedule says.
    at_once: bool,
    /// The reason why the first of the failed lists of leases in a row failed, and what could be
    /// found out about it.
    failure: Option<(&'static str, Option<String>)>,
    /// When Nodes and Machines may next be read at leisure.
    facts_due: Instant,
    /// The state of the cluster.
    observation: Observation,
    looks: Looks,
    /// When the connection was given up because it showed no writes.
    redialled: Option<Instant>,
    /// Whether the last list of leases came, or why it did not.
    reached: Option<Result<(), String>>,
    /// When the newest list of leases that came was asked for.
    answered: Option<Instant>,
    /// Silence is being proven: nothing else is read meanwhile.
    proving: bool,
    /// Something new is to be told of the state.
    news: bool,
}

/// What a round has come to.
#[derive(Debug)]
pub enum Outcome {
    /// It was woken before its read was due.
    Woken,
    /// Something new is known of the cluster's state, and no read was due yet.
    Looked,
    /// The leases were judged.
    Judged(Conclusion),
    /// The leases came, and for this reason are no evidence.
    LeasesAlone(EvidenceError),
    /// There is no evidence.
    NoEvidence(EvidenceError),
}

impl Observer {
    /// Starts watching by these settings; `recalled` is what an earlier run has left in the
    /// ClusterHealth.
    pub fn new(
        origin: Origin,
        settings: Arc<Settings>,
        (sources, looks): (Sources, Looks),
        metrics: Arc<ProberMetrics>,
        recalled: Option<&ClusterHealthStatus>,
    ) -> Self {
        let observer = settings.observer.clone();
        let (now, draw) = (Instant::now(), fastrand::f64());
        Self {
            observation: Observation::new(observer, recalled, now, draw),
            looks,
            redialled: None,
            reached: None,
            answered: None,
            proving: false,
            news: false,
            origin,
            watch: Watch::new(rules(&settings)),
            settings,
            sources,
            metrics,
            at_once: true,
            failure: None,
            facts_due: now,
        }
    }

    /// Goes on by other settings, with the evidence that there is. Nothing is read out of turn: a
    /// policy may apply to a thousand clusters.
    pub fn adopt(&mut self, settings: Arc<Settings>) {
        self.watch.set_rules(rules(&settings));
        if self.settings.pools != settings.pools {
            self.watch.want_facts();
        }
        self.sources.set_secret(&settings.secret_name);
        self.settings = settings;
        self.observe_anew();
    }

    /// Observes the cluster anew: it is another, or its settings are.
    pub fn observe_anew(&mut self) {
        self.looks.stop();
        let observer = self.settings.observer.clone();
        let now = Instant::now();
        self.observation.restart(observer, now, fastrand::f64());
    }

    /// The state of the cluster.
    pub fn view(&self) -> View {
        self.observation.view()
    }

    /// What the looks at its providers of metrics have come to.
    pub fn providers(&self) -> Vec<CheckStatus> {
        self.observation.statuses()
    }

    /// When the newest list of leases that came was asked for.
    pub fn answered(&self) -> Option<Instant> {
        self.answered
    }

    /// Whether it goes by exactly these settings.
    pub fn follows(&self, settings: &Settings) -> bool {
        *self.settings == *settings
    }

    /// Tells whether the cluster is protected, which changes what counts.
    pub fn set_protected(&mut self, protected: bool) {
        self.watch.set_protected(protected);
    }

    /// One round. It takes the observer and hands it back, so that a round that is dropped takes
    /// its connection along. Nearly all of its time it rests, so what it needs to read, which is several
    /// kilobytes, is not held meanwhile.
    pub async fn round(mut self: Box<Self>, wake: Arc<Notify>) -> (Box<Self>, Outcome) {
        let outcome = if mem::take(&mut self.at_once) {
            Box::pin(self.read_first()).await
        } else {
            let next = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(next.at));
            tokio::select! {
                // A read that is due is not put off by whoever wakes.
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
            // What has yet to wait for its turn would begin in the midst of it.
            self.looks.drop_all();
        }
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        // All that is new is told with what the read has come to.
        self.news = false;
        let reached = self.reached.take();
        let leases_came = matches!(reached, Some(Ok(())));
        let transition = match reached {
            Some(Ok(())) => self.observation.reached(began),
            Some(Err(why)) => self.observation.unreached(began, &why),
            None => None,
        };
        if let Some(Transition {
            to: ClusterState::Connecting,
            ..
        }) = transition
        {
            // What began before it was away tells nothing of what is.
            self.looks.stop();
        }
        match read {
            Ok(conclusion) => Outcome::Judged(conclusion),
            Err(error) if leases_came => Outcome::LeasesAlone(error),
            Err(error) => Outcome::NoEvidence(error),
        }
    }

    /// What the leases tell of the state, and of the connection. Without a verdict, what was found
    /// before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(Doubt::NoWrites) => {
                // The connection may be all that still leads to a server that has been replaced. What
                // the next one leads to has the same time to show a write.
                let window = Proof::write_window(seen.period);
                if self.redialled.is_none_or(|at| now >= at + window) {
                    self.redialled = Some(now);
                    self.sources.disconnect();
                }
                return;
            }
            Verdict::Undetermined(_) => return,
        };
        if self.observation.judged(now, silent) {
            // What began in the silence may tell of it as if it were not over.
            self.looks.drop_all();
        }
    }

    async fn read_and_conclude(&mut self) -> Result<Conclusion, EvidenceError> {
        if self.leases().await? == Taken::NeedsFacts {
            self.facts().await?;
            // What is acted on is fresh. A consistent list is always taken in.
            if self.watch.is_outlived(self.now()) {
                let consistent = Request {
                    consistent: true,
                    ..self.watch.request()
                };
                self.list(consistent).await?;
            }
        }
        // A consistent list is always taken in, so that there is something to conclude from.
        self.watch.conclude().ok_or(EvidenceError::NoLeases)
    }

    /// Reads the leases as the watch asks, and again if the answer is older than one before.
    async fn leases(&mut self) -> Result<Taken, EvidenceError> {
        let request = self.watch.request();
        match self.list(request).await? {
            Taken::ReadAgain => {
                let consistent = Request {
                    consistent: true,
                    ..request
                };
                self.list(consistent).await
            }
            taken => Ok(taken),
        }
    }

    async fn list(&mut self, request: Request) -> Result<Taken, EvidenceError> {
        let started = self.now();
        match self.sources.leases(request).await {
            Ok(read) => {
                self.reached = Some(Ok(()));
                self.answered = Some(Instant::from_std(read.started));
                let taken = self.watch.observe(&snapshot(self.origin, &read));
                if taken != Taken::ReadAgain {
                    self.failure = None;
                }
                Ok(taken)
            }
            Err(mut error) => {
                let finished = self.now();
                match error.throttled() {
                    Some(wait) => self.watch.throttled(started, finished, wait),
                    None => self.watch.failed(started, finished),
                }
                self.explain(&mut error, request, finished).await;
                self.reached = Some(Err(error.to_string()));
                Err(error)
            }
        }
    }

    /// Finds out more about the first failure in a row; those that follow for the same reason share
    /// it.
    async fn explain(&mut self, error: &mut EvidenceError, request: Request, failed: Moment) {
        if self.failure.is_none() {
            let next = self.watch.next(failed, 0.0);
            // A read that is due by the interval alone may be late by a second; others may not.
            let at_leisure =
                next.occasion == Occasion::Interval || next.at.since(failed) >= VERSION_LIMIT;
            let found = if at_leisure && !request.insist {
                self.sources.explain(error, VERSION_LIMIT).await
            } else {
                None
            };
            self.failure = Some((error.reason(), found));
        }
        if let Some((reason, Some(found))) = &self.failure
            && *reason == error.reason()
        {
            error.add(found);
        }
    }

    async fn facts(&mut self) -> Result<(), EvidenceError> {
        let started = self.now();
        let leases = self.watch.leases().names().clone();
        let mut request = self.watch.request();
        // What a cache has left in doubt, it cannot settle.
        request.consistent |= self.watch.doubted().is_some();
        let facts = match self.sources.facts(request).await {
            Ok(facts) => match self.beside_leases(facts).await? {
                Some(facts) => facts,
                None => return Ok(()),
            },
            Err(error) => Err(error),
        };
        match facts {
            Ok(facts) => {
                self.learn(&facts, &leases, request.consistent);
                Ok(())
            }
            Err(error) => {
                self.not_learnt(&error);
                let finished = self.now();
                match error.throttled() {
                    Some(wait) => self.watch.throttled(started, finished, wait),
                    None => self.watch.facts_failed(finished),
                }
                Err(error)
            }
        }
    }

    /// Waits for facts. However long they take, the leases are read meanwhile when they are due, since
    /// a proof bears no gap; `None` if these show that none are needed any more.
    async fn beside_leases<T: Send + 'static>(
        &mut self,
        facts: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, EvidenceError> {
        let mut facts = AbortOnDropHandle::new(tokio::spawn(facts));
        loop {
            let next = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(next.at));
            tokio::select! {
                // Who is waited for goes before.
                biased;
                facts = &mut facts => {
                    // Nothing but a defect ends them otherwise, and that is ours.
                    return Ok(Some(facts.unwrap_or_else(|it| resume_unwind(it.into_panic()))));
                }
                () = sleep_until(due) => {}
            }
            if self.leases().await? != Taken::NeedsFacts {
                return Ok(None);
            }
        }
    }

    /// Takes in facts; `leases` are the names of those that there were before they were read.
    fn learn(&mut self, facts: &Facts, leases: &Arc<LeaseNames>, consistent: bool) {
        let machines = facts.machines.as_deref();
        let roster = Roster::new(leases, &facts.nodes, machines, &self.settings.pools);
        let began = self.origin.moment(facts.began.into_std());
        self.watch.learn(roster, began, consistent);
        if let Some(pause) = self.watch.doubted() {
            self.facts_due = Instant::now() + pause;
        }
        self.found(Found::Nodes(Ok(NodeCounts::of(&facts.nodes))));
    }

    /// Whoever cannot read the Nodes for a verdict need not try it for the state.
    fn not_learnt(&mut self, error: &EvidenceError) {
        if let EvidenceError::Shoot { .. } | EvidenceError::NoRoom(_) = error {
            self.found(Found::Nodes(Err(error.to_string())));
        }
    }

    fn now(&self) -> Moment {
        self.origin.moment(Instant::now().into_std())
    }
}

/// Whether more reads decide on an outage: they have the connection to themselves.
fn is_proving(conclusion: &Conclusion) -> bool {
    match conclusion.verdict {
        Verdict::Undetermined(doubt) => {
            matches!(doubt, Doubt::Unproven(_) | Doubt::FactsOutdated)
        }
        Verdict::Outage => conclusion.act.is_none(),
        Verdict::Healthy => false,
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
