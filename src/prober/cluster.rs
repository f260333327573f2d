//! One cluster's loop: observe, act, report.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    acting::{Acting, Term},
    decide::{Decider, Input},
    reader::{LeaseReader, Read, ReadContext, ReadSettings},
    recall,
    treatment::{Known, Treatment},
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    checks::Checks,
    cluster::Assignment,
    observer::{View, state::Observation},
    runtime::metrics::InFlight,
    util::now::Now,
};

mod report;

/// Content of a ClusterHealth that an earlier run has left, if that can be used.
pub(super) type Record = Option<Box<ClusterHealthStatus>>;

/// Judgement: the pause after which a loop that ended by a defect is started again.
const RESTART: Duration = Duration::from_secs(10);

/// Beginning of a loop's term.
#[derive(Clone)]
pub(super) struct Beginning {
    pub(super) term: Term,
    /// Record of an earlier run. `None`: it is not known, and to be read.
    pub(super) known: Option<Record>,
    /// The cluster was there before the operator.
    pub(super) is_start: bool,
    /// True if a dependent was marked then.
    pub(super) is_marked: bool,
}

/// Loop of one cluster in a term: reads, tells the decider, carries out what that decides, and reports.
struct ClusterLoop {
    name: Arc<str>,
    assignment: watch::Receiver<Box<Assignment>>,
    acting: Acting,
    /// `None` while the cluster is not probed.
    reader: Option<LeaseReader>,
    checks: Checks,
    /// The policy that was responsible last.
    policy: Option<Arc<str>>,
    /// The UID of the Cluster that is observed.
    uid: Option<Arc<str>>,
    /// State beside the leases, as last observed; `None` while the cluster is not probed.
    view: Option<View>,
    counted: Option<InFlight>,
}

/// Runs the loop of this cluster until it is stopped, or has no use any more. Before its term begins it observes, as
/// a leader would to which nothing is owed. A term that ends by a defect is begun again.
pub(super) async fn run(
    name: Arc<str>,
    mut assignment: watch::Receiver<Box<Assignment>>,
    context: Arc<ReadContext>,
    mut begins: oneshot::Receiver<Beginning>,
    stop: CancellationToken,
) {
    let mut reader = None;
    let mut beginning = loop {
        assignment.mark_changed();
        let observing = observe(&name, &mut assignment, &context, &mut begins, &mut reader);
        match unless_broken(&name, &stop, observing).await {
            Some(Some(beginning)) => break beginning,
            Some(None) => return,
            None => reader = None,
        }
    };
    loop {
        let begun = beginning.clone();
        let (name_of, assignment) = (name.clone(), assignment.clone());
        let term = lead(name_of, assignment, begun, reader.take(), &stop);
        if unless_broken(&name, &stop, term).await.is_some() {
            return;
        }
        // Its knowledge is lost.
        (beginning.known, beginning.is_start) = (None, false);
    }
}

/// Runs a part of the loop to its end; `None` if that is a defect, after a pause.
async fn unless_broken<T>(
    name: &str,
    stop: &CancellationToken,
    part: impl Future<Output = T>,
) -> Option<T> {
    // A future is as large as all that it ever holds, for as long as it lives: hence the box.
    let ended = AssertUnwindSafe(Box::pin(part)).catch_unwind().await;
    if ended.is_err() {
        tracing::error!(cluster = name, "the cluster's loop ended by a defect");
        stop.run_until_cancelled(sleep(RESTART)).await;
    }
    ended.ok()
}

/// Observes until the term begins; `None` if it never does, since the Cluster is gone.
async fn observe(
    name: &Arc<str>,
    assignment: &mut watch::Receiver<Box<Assignment>>,
    context: &Arc<ReadContext>,
    begins: &mut oneshot::Receiver<Beginning>,
    reader: &mut Option<LeaseReader>,
) -> Option<Beginning> {
    loop {
        tokio::select! {
            biased;
            beginning = &mut *begins => return beginning.ok(),
            Ok(()) = assignment.changed() => {
                let assignment = assignment.borrow_and_update();
                let known = Known {
                    looked_at: true,
                    hold: assignment.hold(),
                    ..Known::default()
                };
                let treatment = Treatment::new(&assignment, known);
                let Some(settings) = treatment.settings() else {
                    *reader = None;
                    continue;
                };
                let orders = ReadSettings {
                    context: context.clone(),
                    uid: Some(assignment.uid.clone()),
                    protected: false,
                    cut: None,
                    awaits: None,
                    settings: settings.clone(),
                };
                LeaseReader::obtain(reader, name, orders);
            }
            _ = next(reader) => {}
        }
    }
}

/// Runs the loop in a term; `reader` goes on from what this replica has read before.
async fn lead(
    name: Arc<str>,
    assignment: watch::Receiver<Box<Assignment>>,
    beginning: Beginning,
    reader: Option<LeaseReader>,
    stop: &CancellationToken,
) {
    let Beginning { term, is_start, .. } = beginning;
    let known = match beginning.known {
        Some(known) => known,
        None => {
            let read = recall::read(&term.scaler.seed, &name);
            match stop.run_until_cancelled(read).await {
                Some(read) => read.map(Box::new),
                None => return,
            }
        }
    };
    let (flags, now) = ((term.scaler.dry_run, is_start), Now::read());
    let object = assignment.borrow().clone();
    let mut decider = Decider::recall(known.as_deref(), object, flags, now);
    if is_start || known.is_some() {
        decider.distrust();
    }
    if beginning.is_marked {
        decider.expect_marks();
    }
    let policy = known.as_ref().and_then(|known| known.policy.as_deref());
    let begun = ClusterLoop {
        checks: Checks::new(name.clone(), term.checks.clone()),
        reader,
        policy: policy.map(Arc::from),
        uid: None,
        view: None,
        counted: None,
        acting: Acting::new(name.clone(), term, decider),
        name,
        assignment,
    };
    begun.run(stop).await;
}

impl ClusterLoop {
    /// Runs until it is stopped, or until nobody has any use for it and nothing is owed: since no
    /// policy selects the cluster, or since the Cluster is gone. A write that was sent is answered before.
    async fn run(mut self, stop: &CancellationToken) {
        self.objects_changed();
        self.report();
        while !self.acting.decider.is_over() {
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
                self.acting.term.reporter.cluster_gone(&self.name);
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
        let decider = &self.acting.decider;
        let Some(settings) = decider.treatment().settings().cloned() else {
            self.checks.stop();
            (self.reader, self.view) = (None, None);
            return;
        };
        self.checks.adopt(&settings.policy, &settings.checks);
        let now = Instant::now();
        if self.view.is_none() {
            self.view = Some(Observation::new(settings.observer.clone()).view());
        }
        let orders = ReadSettings {
            context: self.acting.term.reads.clone(),
            uid: self.uid.clone(),
            protected: decider.protection() != Protection::None,
            cut: decider.cut(),
            awaits: decider.awaits_nodes(now).map(|(since, _)| since),
            settings,
        };
        LeaseReader::obtain(&mut self.reader, &self.name, orders);
    }

    fn learn_checks(&mut self) {
        self.acting.learn(Input::Gate(self.checks.gate()));
    }

    /// Takes in what was read. Returns whether that changes anything.
    fn observed(&mut self, read: Read) -> bool {
        let settings = self.acting.decider.treatment().settings();
        if settings.is_none_or(|settings| *settings != read.settings) {
            // It was read by settings that are not in force any more.
            return false;
        }
        self.view = Some(read.view);
        if let Some(leases) = &read.leases {
            let gate = self.checks.gate();
            self.acting.learn(Input::Leases(leases.as_ref(), gate));
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
