//! One cluster's loop: observe, act, report.

use std::{
    mem,
    sync::{Arc, Mutex},
};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    acting::{Acting, Means},
    decide::{Decider, Input, Leases},
    reader::{LeaseReader, Read, ReadContext, ReadSettings, Recalled},
    report::Reporter,
    treatment::Treatment,
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    checks::{Checks, Runner},
    cluster::{Assignment, Settings},
    observer::{View, state::Observation},
    runtime::{metrics::InState, timer::until},
    util::{mono_time::MonoTime, now::Now},
};

mod report;

/// What all loops share.
#[derive(Clone)]
pub(crate) struct LoopContext {
    /// Reads clusters.
    pub(crate) reads: Arc<ReadContext>,
    /// Acts on dependents.
    pub(crate) means: Means,
    /// Makes the runs of the policies' checks.
    pub(crate) checks: Runner,
    /// Takes reports.
    pub(crate) reporter: Reporter,
}

/// One cluster's loop: it reads, tells the decider, carries out what that decides, and reports.
pub(crate) struct ClusterLoop {
    name: Arc<str>,
    shared: LoopContext,
    assignment: watch::Receiver<Box<Assignment>>,
    acting: Acting,
    /// `None` while the cluster is not probed.
    reader: Option<LeaseReader>,
    /// The reader has been told of this term.
    leads: bool,
    /// What an earlier run has left, until the cluster is read.
    recalled: Option<Box<ClusterHealthStatus>>,
    checks: Checks,
    /// When the protection will have lasted for too long.
    overdue_at: Option<Instant>,
    /// The policy that was responsible last.
    policy: Option<Arc<str>>,
    /// The UID of the Cluster that is observed.
    uid: Option<Arc<str>>,
    /// What was last observed of the cluster beside its leases.
    view: Option<View>,
    counted: InState,
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
    /// The loop of this cluster. `assignment` says what the index knows of it, `known` is what an earlier run
    /// has left in its ClusterHealth, and `reader` goes on from what this replica has read while it did not
    /// lead.
    pub(super) fn new(
        name: Arc<str>,
        shared: LoopContext,
        assignment: watch::Receiver<Box<Assignment>>,
        known: Option<&ClusterHealthStatus>,
        reader: Option<LeaseReader>,
        beginning: Beginning,
    ) -> Self {
        let flags = (shared.means.scaler.is_dry_run(), beginning.is_start);
        let mut decider = Decider::recall(known, assignment.borrow().clone(), flags, Now::read());
        if beginning.is_start || known.is_some() {
            decider.distrust();
        }
        if beginning.is_marked {
            decider.expect_marks();
        }
        Self {
            acting: Acting::new(name.clone(), &shared.means, decider),
            checks: Checks::new(name.clone(), shared.checks.clone()),
            reader,
            leads: false,
            recalled: known.cloned().map(Box::new),
            policy: known.and_then(|known| Some(known.policy.as_deref()?.into())),
            uid: None,
            view: None,
            counted: shared.means.metrics.observed.cluster(),
            name,
            shared,
            assignment,
            overdue_at: None,
        }
    }

    /// Runs until it is stopped, or until nobody has any use for it and nothing is owed: since no
    /// policy selects the cluster, or since the Cluster is gone. A write that was sent is answered before.
    pub(crate) async fn run(mut self: Box<Self>, stop: CancellationToken) {
        self.objects_changed();
        self.report();
        while !self.acting.decider().is_over() {
            let give_up_at = self.acting.decider().give_up_at();
            tokio::select! {
                // What is known now comes before what is written by it.
                biased;
                () = stop.cancelled() => break,
                changed = self.assignment.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.objects_changed();
                    // They may be others.
                    self.learn_checks();
                }
                () = self.checks.changed() => self.learn_checks(),
                read = next(&mut self.reader) => {
                    if !self.observed(*read) {
                        continue;
                    }
                }
                () = self.acting.progress() => {}
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
        self.acting.shut_down().await;
        // The next leader needs to know what was done last.
        self.report();
    }

    /// The index says something else.
    fn objects_changed(&mut self) {
        let assignment = self.assignment.borrow_and_update().clone();
        if assignment.is_gone() {
            if self.uid.take().is_some() {
                self.shared.reporter.cluster_gone(&self.name);
            }
        } else {
            if let Some(responsible) = assignment.responsible() {
                self.policy = Some(responsible.policy.clone());
            }
            let before = self.uid.replace(assignment.uid.clone());
            if before.is_some() && before != self.uid {
                // What they have come to is about the other.
                self.checks.stop();
            }
        }
        self.acting.learn(Input::Objects(assignment));
        self.follow();
    }

    /// Reads by the settings that the decider goes by now.
    fn follow(&mut self) {
        let decider = self.acting.decider();
        match decider.treatment() {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => {
                self.checks.adopt(&settings.policy, &settings.checks);
            }
            _ => self.checks.stop(),
        }
        let Some(settings) = decider.treatment().settings().cloned() else {
            (self.reader, self.recalled, self.leads) = (None, None, false);
            return;
        };
        let awaits = decider.awaits_nodes(Instant::now());
        let mut orders = ReadSettings {
            context: self.shared.reads.clone(),
            uid: self.uid.clone(),
            protected: decider.protection() != Protection::None,
            cut: decider.cut().map(|cut| (cut, decider.is_ended())),
            awaits: awaits.map(|(since, returning)| (since, !returning.is_complete())),
            recalled: None,
            settings,
        };
        if !mem::replace(&mut self.leads, true) {
            orders.recalled = Some(self.recall(&orders.settings));
        }
        match &self.reader {
            Some(reader) => reader.follow(orders),
            None => self.reader = Some(LeaseReader::begin(self.name.clone(), orders, None)),
        }
    }

    /// What an earlier run has left, which is shown until there is something else.
    fn recall(&mut self, settings: &Settings) -> Arc<Recalled> {
        let status = self.recalled.take();
        let observer = settings.observer.clone();
        let observation = Observation::new(observer, status.as_deref(), Instant::now(), 0.0);
        self.view = Some(observation.view());
        Arc::new(Mutex::new(status))
    }

    fn learn_checks(&mut self) {
        self.acting.learn(Input::Gate(self.checks.gate()));
    }

    /// Takes in what was read. Returns whether that changes anything.
    fn observed(&mut self, read: Read) -> bool {
        let settings = self.acting.decider().treatment().settings();
        if settings.is_none_or(|settings| *settings != read.settings) {
            // It was read by settings that are not in force any more.
            return false;
        }
        self.view = Some(read.view);
        let gate = self.checks.gate();
        match read.leases {
            None => {}
            Some(Ok(conclusion)) => {
                let provable = conclusion.provable.map(MonoTime::instant);
                self.acting.learn_verdict(&conclusion, provable, gate);
            }
            Some(Err(error)) => {
                let leases = Leases::Unread {
                    reason: error.reason,
                    message: &error.message,
                };
                self.acting.learn(Input::Leases(leases, gate));
            }
        }
        true
    }
}

/// Waits for what is read next; for ever if nothing is.
async fn next(reader: &mut Option<LeaseReader>) -> Box<Read> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}
