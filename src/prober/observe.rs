//! The reading half of one cluster's loop: waits until a read is due, reads, and judges.

use std::{mem, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    candidates::Roster,
    evidence::{EvidenceError, Facts, Sources},
    heartbeat::LeaseSnapshot,
    metrics::ProberMetrics,
    moment::{Moment, Origin},
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
        observation::{Found, Look, Observation},
        state::Transition,
    },
    runtime::timer::until,
    shoot::{Consistency, LeaseRead},
};

/// For `/version`: no more than the pause after a failed read, so that nothing waits for it that a
/// proof may depend on.
const VERSION_LIMIT: Duration = Duration::from_secs(1);

/// A first read that takes longer keeps no other waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

/// What is good to know is tried to be read this often at most.
const FACTS_PAUSE: Duration = Duration::from_secs(60);

/// No look begins so shortly before a read of the leases: it would still have the connection.
const LOOK: Duration = Duration::from_millis(250);
/// And none at the Nodes, of which a large cluster has seconds of them, or half of the interval.
const NODES_LOOK: Duration = Duration::from_secs(2);
/// A look for which there has been no such pause for so long is made all the same, over a connection
/// of its own: where reads take as long as their interval, nothing would ever be seen otherwise.
const OVERDUE: Duration = Duration::from_secs(60);

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
    /// When Nodes and Machines were last read at leisure, or tried to be.
    facts_tried: Option<Instant>,
    /// The state of the cluster.
    observation: Observation,
    looks: Looks,
    /// Whether the last list of leases came, or why it did not.
    reached: Option<Result<(), String>>,
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
            reached: None,
            proving: false,
            news: false,
            origin,
            watch: Watch::new(rules(&settings)),
            settings,
            sources,
            metrics,
            at_once: true,
            failure: None,
            facts_tried: None,
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
        let read = if mem::take(&mut self.at_once) {
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
        let outcome = match read {
            Ok(conclusion) => Outcome::Judged(conclusion),
            Err(error) => Outcome::NoEvidence(error),
        };
        (self, outcome)
    }

    /// Waits until then, and reads in the meantime what is good to know; whether it is still before
    /// then, and something new is known of the state.
    async fn rest(&mut self, due: Instant) -> bool {
        let facts_due = self
            .facts_tried
            .is_none_or(|last| last.elapsed() >= FACTS_PAUSE);
        if facts_due && self.watch.wants_facts() {
            self.facts_tried = Some(Instant::now());
            let started = self.now();
            match timeout_at(due, Box::pin(self.sources.facts_at_leisure())).await {
                Ok(Ok(facts)) => self.learn(&facts, started),
                Ok(Err(error)) => {
                    self.not_learnt(&error);
                    self.watch.need_facts();
                }
                // There was no time; leases go before.
                Err(_) => {}
            }
        }
        loop {
            while let Some(found) = self.looks.ended().now_or_never() {
                self.found(found);
            }
            let next = self.observation.next();
            let next = next.filter(|_| !self.proving);
            let now = Instant::now();
            if let Some((at, look)) = next
                && self.looks.after(at + OVERDUE) <= now
                && due < now + self.lead(look)
            {
                self.look(look, true);
                continue;
            }
            if mem::take(&mut self.news) {
                return now < due;
            }
            let at = next.map(|(at, look)| (self.looks.after(at), look));
            let at = at.filter(|(at, look)| (*at).max(now) + self.lead(*look) <= due);
            let at = at.map(|(at, _)| at);
            tokio::select! {
                // Leases go before.
                biased;
                () = sleep_until(due) => return false,
                found = self.looks.ended() => self.found(found),
                () = until(at) => {
                    if let Some((_, look)) = next {
                        self.look(look, self.looks.apart(look));
                    }
                }
            }
        }
    }

    /// How long before a read of the leases this may begin at the latest.
    fn lead(&self, look: Look) -> Duration {
        match look {
            Look::Nodes => NODES_LOOK.min(self.settings.interval / 2).max(LOOK),
            Look::Ready | Look::Provider(_) => LOOK,
        }
    }

    fn look(&mut self, look: Look, apart: bool) {
        self.observation.began(look, Instant::now());
        let Some(shoot) = self.sources.shoot(apart) else {
            return;
        };
        match look {
            Look::Nodes => self.looks.nodes(shoot),
            Look::Ready => self.looks.ready(shoot, self.settings.timeout),
            Look::Provider(place) => {
                if let Some(provider) = self.settings.observer.metrics_providers.get(place) {
                    let policy = &self.settings.policy;
                    self.looks.provider(place, provider, (shoot, policy));
                }
            }
        }
    }

    fn found(&mut self, found: Found) {
        let (at, now) = (Instant::now(), Timestamp::now());
        self.news |= self.observation.take(found, at, now, fastrand::f64());
    }

    async fn read_first(&mut self) -> Result<Conclusion, EvidenceError> {
        let turn = self.sources.first_turn().await;
        let mut read = pin!(self.read());
        if let Ok(read) = timeout(FIRST_READ, &mut read).await {
            return read;
        }
        drop(turn);
        read.await
    }

    async fn read(&mut self) -> Result<Conclusion, EvidenceError> {
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
        let transition = match self.reached.take() {
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
        read
    }

    /// What the leases tell of the state. Without a verdict, what was found before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(_) => return,
        };
        self.observation.judged(now, silent);
    }

    async fn read_and_conclude(&mut self) -> Result<Conclusion, EvidenceError> {
        let request = self.watch.request();
        let mut taken = self.leases(request).await?;
        if taken == Taken::ReadAgain {
            let consistent = Request {
                consistent: true,
                ..request
            };
            taken = self.leases(consistent).await?;
        }
        if taken == Taken::NeedsFacts {
            self.facts().await?;
            // Nodes may take their time, but what is acted on is fresh. A consistent list is always
            // taken in.
            if self.watch.is_outlived(self.now()) {
                let consistent = Request {
                    consistent: true,
                    ..self.watch.request()
                };
                self.leases(consistent).await?;
            }
        }
        // A consistent list is always taken in, so that there is something to conclude from.
        self.watch.conclude().ok_or(EvidenceError::NoLeases)
    }

    async fn leases(&mut self, request: Request) -> Result<Taken, EvidenceError> {
        let started = self.now();
        match self.sources.leases(request).await {
            Ok(read) => {
                self.reached = Some(Ok(()));
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
        match self.sources.facts(self.watch.request()).await {
            Ok(facts) => {
                self.learn(&facts, started);
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

    fn learn(&mut self, facts: &Facts, started: Moment) {
        let machines = facts.machines.as_deref();
        let leases = self.watch.leases().names();
        let roster = Roster::new(leases, &facts.nodes, machines, &self.settings.pools);
        self.watch.learn(roster, started);
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
        Verdict::Undetermined(doubt) => matches!(doubt, Doubt::Unproven(_)),
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
