//! The reading half of one cluster's loop: waits until a read is due, reads, and judges.

mod between_probes;
mod read;

use std::{pin::pin, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    api::{CheckStatus, ClusterHealthStatus, ClusterState},
    cluster::Settings,
    observer::{View, look::Looks, observation::Observation},
    prober::{
        evidence::{Evidence, Sources},
        metrics::ProberMetrics,
        proof::Proof,
        verdict::{Doubt, Returning, Verdict},
        watch::{Conclusion, Watch},
    },
    runtime::metrics::InFlight,
    shoot::Unread,
    util::{
        mono_time::{MonoTime, Origin},
        now::{Now, wall},
        since::Since,
    },
};

/// Judgement: Nodes for which a restore waits are read this often at most.
const AWAITED_PAUSE: Duration = Duration::from_secs(10);
/// Judgement: a first read that takes longer no longer keeps others waiting.
const FIRST_READ: Duration = Duration::from_secs(5);

/// Watches one cluster by the settings it was last given.
pub(crate) struct Observer {
    origin: Origin,
    settings: Arc<Settings>,
    sources: Sources,
    metrics: Arc<ProberMetrics>,
    watch: Watch,
    stage: Stage,
    contact: Contact,
    background: FactReads,
    /// Leases that have been silent since before count neither way.
    cut: Option<Since>,
    observation: Observation,
    looks: Looks,
    /// There is news of the state to report.
    news: bool,
}

/// What the next round is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It reads immediately, whatever the schedule says.
    Beginning,
    /// Silence is being proven: nothing else is read meanwhile.
    Proving,
    /// The next probe is awaited.
    Resting,
}

/// Reads of Nodes and Machines in the background.
struct FactReads {
    /// When they may next be read.
    due: Instant,
    /// When that was last begun.
    began: Option<Instant>,
    /// A restore waits for nodes.
    awaited: bool,
}

/// The contact with the API server, by the lists of leases and of Nodes.
#[derive(Default)]
struct Contact {
    /// Whether the last list of leases came, or why it did not.
    reached: Option<Result<(), String>>,
    /// Whether a list of leases has come.
    answered: bool,
    /// When the connection was given up because it showed no writes.
    redialled: Option<Instant>,
    /// Why Nodes and Machines could not be read, if that is the last that is known of them.
    unread_facts: Option<Unread>,
}

/// The result of a round.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// No read was due yet: it was woken, or there is news of the cluster's state.
    Early,
    Judged(Box<Conclusion>),
    /// There is no evidence; and whether the API server answered, or `None` if it could not be asked.
    Unread(Unread, Option<bool>),
}

impl Observer {
    /// Starts watching by these settings. Nothing but what a verdict needs is read before
    /// [`Self::recall`].
    pub(crate) fn new(
        origin: Origin,
        settings: Arc<Settings>,
        sources: Sources,
        metrics: Arc<ProberMetrics>,
    ) -> Self {
        let observer = settings.observer.clone();
        let now = Instant::now();
        Self {
            origin,
            watch: Watch::new(settings.rules),
            looks: Looks::none(sources.cluster().clone()),
            settings,
            sources,
            metrics,
            stage: Stage::Beginning,
            contact: Contact::default(),
            background: FactReads {
                due: now,
                began: None,
                awaited: false,
            },
            cut: None,
            observation: Observation::new(observer, None, now, 0.0),
            news: false,
        }
    }

    /// Goes on as the observer of a leader. What was seen counts, and what was concluded from it does not.
    /// The leases are read again immediately.
    pub(crate) fn begin_term(&mut self, shared: Evidence, metrics: Arc<ProberMetrics>) {
        self.watch.begin_term();
        self.sources.begin_term(shared);
        self.metrics = metrics;
        self.stage = Stage::Beginning;
    }

    /// Observes the state of the cluster as well; `recalled` is what an earlier run has left in the
    /// ClusterHealth. Of a cluster that is protected already, `protected` says when the outage began, if known.
    pub(crate) fn recall(
        &mut self,
        looks: Looks,
        recalled: Option<&ClusterHealthStatus>,
        protected: Option<Option<Timestamp>>,
    ) {
        let observer = self.settings.observer.clone();
        let (now, draw) = (Instant::now(), fastrand::f64());
        self.looks = looks;
        self.observation = Observation::new(observer, recalled, now, draw);
        if let Some(silent_since) = protected {
            let onset = silent_since.map(|since| {
                let age = wall().duration_since(since);
                let age = Duration::try_from(age).unwrap_or_default();
                self.origin.moment(now.into_std()) - age
            });
            self.watch.recall(onset);
        }
    }

    /// Replaces the settings and keeps the evidence. Nothing is read out of turn: a policy may
    /// apply to a thousand clusters.
    pub(crate) fn adopt(&mut self, settings: Arc<Settings>) {
        self.watch.set_rules(settings.rules);
        if self.settings.pools != settings.pools {
            self.watch.facts.want();
        }
        self.sources.set_secret(&settings.secret_name);
        self.settings = settings;
        self.observe_anew();
    }

    /// Restarts the observation, since the cluster or its settings changed.
    pub(crate) fn observe_anew(&mut self) {
        self.looks.stop();
        let observer = self.settings.observer.clone();
        let now = Instant::now();
        self.observation.restart(observer, now, fastrand::f64());
    }

    pub(crate) fn view(&self) -> View {
        self.observation.view()
    }

    /// The statuses of the providers of metrics.
    pub(crate) fn providers(&self) -> Vec<CheckStatus> {
        self.observation.statuses()
    }

    /// Whether these are its settings.
    pub(crate) fn follows(&self, settings: &Settings) -> bool {
        *self.settings == *settings
    }

    /// Sets whether the cluster is protected, which changes what counts.
    pub(crate) fn set_protected(&mut self, protected: bool) {
        self.watch.set_protected(protected);
    }

    /// Leases that have been silent since before this count neither way.
    pub(crate) fn set_cut(&mut self, cut: Option<Since>, now: Now) {
        if cut != self.cut {
            let age = cut.map(|cut| cut.elapsed(now));
            let present = self.origin.moment(now.mono.into_std());
            self.watch.set_cut(age.map(|age| present - age));
            self.cut = cut;
        }
    }

    /// Since when a restore has been allowed that waits for the nodes, if one does, and how
    /// many of them are back.
    pub(crate) fn set_awaits(&mut self, awaits: Option<(Instant, Returning)>) {
        let missing = awaits.is_some_and(|(_, returning)| !returning.is_complete());
        let reads = &mut self.background;
        if missing && !reads.awaited {
            let soonest = reads.began.map(|began| began + AWAITED_PAUSE);
            reads.due = reads.due.min(soonest.unwrap_or_else(Instant::now));
        }
        reads.awaited = missing;
        let since = awaits.map(|(since, _)| self.origin.moment(since.into_std()));
        self.watch.set_awaits(since);
    }

    /// Runs one round. It takes the observer and returns it, so that a round that is dropped takes
    /// its connection with it. A round rests nearly all the time, so the futures that read, of
    /// several kilobytes, are boxed.
    pub(crate) async fn round(mut self: Box<Self>, wake: Arc<Notify>) -> (Box<Self>, Outcome) {
        let outcome = if self.stage == Stage::Beginning {
            self.stage = Stage::Resting;
            match self.contact.answered {
                // It is connected, and knows its nodes.
                true => Box::pin(self.read()).await,
                false => Box::pin(self.read_first()).await,
            }
        } else {
            let (due, _) = self.watch.next(self.now(), fastrand::f64());
            let due = Instant::from_std(self.origin.instant(due));
            tokio::select! {
                // A read that is due comes before a wake-up.
                biased;
                news = self.rest(due) => {
                    if news {
                        return (self, Outcome::Early);
                    }
                }
                () = wake.notified() => return (self, Outcome::Early),
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
        let (in_flight, began) = (InFlight::new(&self.metrics.probing), Instant::now());
        let read = self.read_and_conclude().await;
        drop(in_flight);
        self.metrics.probed(&read, began.elapsed());
        self.stage = match &read {
            Ok(conclusion) if is_proving(conclusion) => {
                // A look that still waits for its turn would begin during the proof.
                self.looks.drop_all();
                Stage::Proving
            }
            _ => Stage::Resting,
        };
        if let Ok(conclusion) = &read {
            self.judged(conclusion);
        }
        // The result of this read reports all news.
        self.news = false;
        let reached = self.contact.reached.take();
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
            Ok(conclusion) => Outcome::Judged(Box::new(conclusion)),
            Err(error) => {
                let answered = match reached {
                    Some(Ok(())) => Some(true),
                    _ => error.is_silence().then_some(false),
                };
                Outcome::Unread(error, answered)
            }
        }
    }

    /// Derives the state, and the use of the connection, from the leases. Without a verdict, what
    /// was found before stands.
    fn judged(&mut self, conclusion: &Conclusion) {
        let (seen, now) = (&conclusion.assessment, Instant::now());
        let silent = match conclusion.verdict {
            Verdict::Outage => Some((seen.expired, seen.candidates)),
            Verdict::Healthy => None,
            Verdict::Undetermined(Doubt::NoWrites) => {
                // This connection may lead to a server that has been replaced. The next one has the
                // same time to show a write.
                let window = Proof::write_window(seen.period);
                if self.contact.redialled.is_none_or(|at| now >= at + window) {
                    self.contact.redialled = Some(now);
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

    fn now(&self) -> MonoTime {
        self.origin.moment(Instant::now().into_std())
    }
}

/// Whether further reads decide on an outage: they have the connection to themselves.
fn is_proving(conclusion: &Conclusion) -> bool {
    match conclusion.verdict {
        Verdict::Undetermined(Doubt::Unproven(_) | Doubt::FactsOutdated) => true,
        Verdict::Outage => !conclusion.decides,
        Verdict::Undetermined(_) | Verdict::Healthy => false,
    }
}
