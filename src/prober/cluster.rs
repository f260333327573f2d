//! One cluster's loop: observe, act, report.

use std::{mem, sync::Arc};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    evidence::Evidence,
    io::confirm::Confirm,
    machine::{ClusterMachine, Input, Leases},
    metrics::ProberMetrics,
    observe::{Observer, Outcome},
    protector::{Protector, SharedTurns},
    report::Reporter,
    scale::Scaler,
    treatment::{ClusterObject, Treatment},
};
use crate::{
    api::{CheckStatus, ClusterHealthStatus, Protection},
    checks::{Checks, Runner},
    observer::{
        View,
        look::{Looks, Means},
    },
    runtime::{metrics::InState, timer::until},
    util::{mono_time::Origin, now::Now},
};

mod reading;
mod report;

pub(super) use self::reading::Reading;

/// What all loops share.
#[derive(Clone)]
pub(crate) struct LoopContext {
    /// Reads what is needed for verdicts.
    pub(crate) evidence: Evidence,
    /// Reads and writes dependents.
    pub(crate) scaler: Scaler,
    /// Asks about a Cluster and its policy.
    pub(crate) confirm: Confirm,
    /// What is counted.
    pub(crate) metrics: Arc<ProberMetrics>,
    /// Makes the runs of the policies' checks.
    pub(crate) checks: Runner,
    /// Lets clusters be restored by turns.
    pub(crate) turns: SharedTurns,
    /// Takes reports.
    pub(crate) reporter: Reporter,
    /// Reads the state of clusters, beside their leases.
    pub(crate) looks: Means,
    /// Ties moments to the clock.
    pub(crate) origin: Origin,
}

/// One cluster's loop: it reads, tells the machine, carries out what the machine decides, and reports.
pub(crate) struct ClusterLoop {
    name: Arc<str>,
    shared: LoopContext,
    presence: watch::Receiver<ClusterObject>,
    protector: Protector,
    reading: Reading,
    checks: Checks,
    /// When the protection will have lasted for too long.
    overdue_at: Option<Instant>,
    /// The policy that was responsible last.
    policy: Option<Arc<str>>,
    /// The UID of the Cluster that is observed.
    uid: Option<Arc<str>>,
    seen: Seen,
    counted: InState,
}

/// What was last observed of the cluster beside its leases.
#[derive(Default)]
struct Seen {
    /// Its state.
    view: Option<View>,
    /// What the looks at its providers of metrics have come to.
    providers: Vec<CheckStatus>,
}

/// Beginning of a loop.
#[derive(Clone, Copy)]
pub(super) struct Beginning {
    /// Whether the cluster was there before the operator.
    pub(super) is_start: bool,
    /// Whether one of its dependents was marked then.
    pub(super) is_marked: bool,
}

impl ClusterLoop {
    /// The loop of this cluster. `presence` says what the index knows of it, `known` is what an earlier run
    /// has left in its ClusterHealth, and `reading` goes on from what a replica has observed that did not lead
    /// yet.
    pub(super) fn new(
        name: Arc<str>,
        shared: LoopContext,
        presence: watch::Receiver<ClusterObject>,
        known: Option<&ClusterHealthStatus>,
        reading: Option<Reading>,
        beginning: Beginning,
    ) -> Self {
        let is = presence.borrow().clone();
        let flags = (shared.scaler.is_dry_run(), beginning.is_start);
        let mut machine = ClusterMachine::recall(known, is, flags, Now::read());
        if beginning.is_start || known.is_some() {
            machine.distrust();
        }
        if beginning.is_marked {
            machine.expect_marks();
        }
        let (scaler, turns) = (&shared.scaler, &shared.turns);
        let confirm = shared.confirm.clone();
        let metrics = shared.metrics.clone();
        Self {
            protector: Protector::new(
                name.clone(),
                scaler,
                confirm,
                turns,
                metrics,
                machine,
                known,
            ),
            checks: Checks::new(name.clone(), shared.checks.clone()),
            reading: Reading {
                recalled: known.cloned().map(Box::new),
                ..reading.unwrap_or_default()
            },
            policy: known.and_then(|known| Some(known.policy.as_deref()?.into())),
            uid: None,
            seen: Seen::default(),
            counted: shared.metrics.observed.cluster(),
            name,
            shared,
            presence,
            overdue_at: None,
        }
    }

    /// Runs until it is stopped, or until nobody has any use for it and nothing is owed: since no
    /// policy selects the cluster, or since the Cluster is gone. A flow under way ends between two
    /// requests.
    pub(crate) async fn run(mut self: Box<Self>, stop: CancellationToken) {
        self.objects_changed();
        if self.reading.stands_by {
            // What it has judged does not count: the leases are read again, now.
            self.reading.wake.notify_one();
        }
        self.report();
        while !self.protector.machine().is_over() {
            let give_up_at = self.protector.machine().give_up_at();
            tokio::select! {
                // To stop comes first; then what was done, before what is to be done next.
                biased;
                () = stop.cancelled() => break,
                () = self.protector.progress() => {}
                changed = self.presence.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.objects_changed();
                    // They may be others.
                    self.learn_checks();
                }
                () = self.checks.changed() => self.learn_checks(),
                (observer, outcome) = self.reading.finished() => {
                    if !self.observed(observer, outcome) {
                        continue;
                    }
                }
                () = until(self.overdue_at) => {}
                () = until(give_up_at) => {
                    tracing::warn!(
                        cluster = &*self.name,
                        "the Cluster is gone, and marks may be left on its dependents"
                    );
                    break;
                }
            }
            self.follow();
            self.report();
        }
        self.protector.shut_down().await;
        // The next leader needs to know what was done last.
        self.report();
    }

    /// The index says something else.
    fn objects_changed(&mut self) {
        let presence = self.presence.borrow_and_update().clone();
        if let ClusterObject::There(assignment) = &presence {
            if let Some(responsible) = assignment.responsible() {
                self.policy = Some(responsible.policy.clone());
            }
            let before = self.uid.replace(assignment.uid.clone());
            if before.is_some() && before != self.uid {
                self.reading.replaced = true;
                self.reading.wake.notify_one();
                // What they have come to is about the other.
                self.checks.stop();
            }
        }
        self.protector.learn(Input::Objects(presence));
        self.follow();
    }

    /// Reads by the settings that the machine goes by now.
    fn follow(&mut self) {
        let machine = self.protector.machine();
        match machine.treatment() {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => {
                self.checks.adopt(&settings.policy, &settings.checks);
            }
            _ => self.checks.stop(),
        }
        let Some(settings) = machine.treatment().settings().cloned() else {
            self.reading.round = None;
            self.reading.recalled = None;
            return;
        };
        if self.reading.round.is_some() {
            self.reading.follow(settings);
            return;
        }
        self.reading.settings = Some(settings.clone());
        self.reading.stands_by = false;
        let sources = self
            .shared
            .evidence
            .of(self.name.clone(), &settings.secret_name);
        let metrics = self.shared.metrics.clone();
        let mut observer = Observer::new(self.shared.origin, settings, sources, metrics);
        self.recall(&mut observer);
        self.next_round(Box::new(observer));
    }

    /// Gives the observer what an earlier run has left, and what only a leader looks at.
    fn recall(&mut self, observer: &mut Observer) {
        let machine = self.protector.machine();
        let is_protected = machine.protection() != Protection::None;
        let protected = is_protected.then(|| machine.silent_since());
        let looks = Looks::new(self.name.clone(), self.shared.looks.clone());
        let recalled = self.reading.recalled.take();
        observer.recall(looks, recalled.as_deref(), protected);
    }

    fn learn_checks(&mut self) {
        self.protector.learn(Input::Gate(self.checks.gate()));
    }

    fn next_round(&mut self, mut observer: Box<Observer>) {
        let machine = self.protector.machine();
        observer.set_protected(machine.protection() != Protection::None);
        let now = Now::read();
        observer.set_awaits(machine.awaits_nodes(now.mono));
        observer.set_cut(machine.cut(), now);
        if mem::take(&mut self.reading.replaced) {
            observer.observe_anew();
        }
        self.seen.view = Some(observer.view());
        self.seen.providers = observer.providers();
        self.reading.begin(observer);
    }

    /// A round has ended: whether there is anything to report.
    fn observed(&mut self, mut observer: Box<Observer>, outcome: Outcome) -> bool {
        let outcome = match mem::take(&mut self.reading.stands_by) {
            true => {
                let (shared, metrics) = (&self.shared.evidence, &self.shared.metrics);
                observer.begin_term(shared.clone(), metrics.clone());
                self.recall(&mut observer);
                Outcome::Early
            }
            false => outcome,
        };
        let Some(settings) = self.protector.machine().treatment().settings().cloned() else {
            self.reading.round = None;
            return false;
        };
        if !observer.follows(&settings) {
            // The verdict, if there is one, was reached by settings that are not in force any more.
            observer.adopt(settings);
            self.next_round(observer);
            return false;
        }
        match outcome {
            Outcome::Early => {}
            Outcome::Judged(conclusion) => {
                let origin = self.shared.origin;
                let instant = |moment| Instant::from_std(origin.instant(moment));
                let provable = conclusion.provable.map(instant);
                let gate = self.checks.gate();
                self.protector.learn_verdict(&conclusion, provable, gate);
            }
            Outcome::Unread(error, answered) => {
                let leases = Leases::Unread {
                    reason: error.reason,
                    message: &error.message,
                    answered,
                };
                let gate = self.checks.gate();
                self.protector.learn(Input::Leases(leases, gate));
            }
        }
        self.next_round(observer);
        true
    }
}
