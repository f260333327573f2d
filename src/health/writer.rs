//! Writes statuses, the finalizer of policies, and events: one task, the only one that does.
//!
//! Reports are coalesced: what is written is the newest that is known when its turn comes. A
//! status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more. A few objects are written at once, so that
//! one whose write hangs keeps no other waiting. Events go one at a time, and none is begun while a
//! status is due.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    book::{Book, Object},
    cluster,
    events::{
        EventCounts,
        publisher::{Publisher, Publishing},
    },
    metrics::HealthMetrics,
    report::ClusterReport,
    reporter::{Known, Reporter, Update},
    request::{WriteError, delete, establish, set_finalizer, write_status},
    schedule::Schedule,
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    runtime::{
        pulse::Pulses,
        seed::{CallError, Seed},
        timer::until,
    },
};

/// So many objects are written at once.
const WRITES_AT_ONCE: usize = 16;
/// When the writer is stopped, what is due may still be written within this, and after that events.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// Whether a policy's status says anything new is looked at most this often.
const POLICY_LOOK: Duration = Duration::from_secs(1);

/// The name of the writer's pulse.
const PULSE: &str = "writer";

/// Writes ClusterHealths, the statuses of ProbePolicies and their finalizer, and events.
pub struct Writer {
    seed: Seed,
    updates: UnboundedReceiver<Update>,
    book: Book,
    writes: FuturesUnordered<BoxFuture<'static, Done>>,
    pulses: Pulses,
    publisher: Publisher,
    /// The event on its way.
    publishing: Option<Publishing>,
}

/// A write that has come to an end. A policy is named with its UID: another may have taken its name
/// meanwhile.
enum Done {
    Cluster(
        Arc<str>,
        Arc<ClusterReport>,
        Box<ClusterHealthStatus>,
        /// With the UID of the ClusterHealth.
        Result<Option<String>, WriteError>,
    ),
    Deleted(Arc<str>, Result<(), WriteError>),
    Policy(
        Arc<str>,
        Arc<str>,
        Box<ProbePolicyStatus>,
        Result<(), WriteError>,
    ),
    Finalizer(Arc<str>, Arc<str>, bool, Result<(), WriteError>),
}

impl Done {
    fn kind(&self) -> &'static str {
        match self {
            Self::Cluster(..) | Self::Deleted(..) => "ClusterHealth",
            Self::Policy(..) | Self::Finalizer(..) => "ProbePolicy",
        }
    }

    fn succeeded(&self) -> bool {
        match self {
            Self::Deleted(_, ended) => match ended {
                Ok(()) => true,
                Err(error) => error.is_not_found(),
            },
            Self::Cluster(_, _, _, ended) => ended.is_ok(),
            Self::Policy(_, _, _, ended) | Self::Finalizer(_, _, _, ended) => ended.is_ok(),
        }
    }
}

impl Writer {
    /// A writer for what its reporter is told.
    pub fn new(seed: Seed, known: Known) -> (Self, Reporter) {
        let (sender, updates) = mpsc::unbounded_channel();
        let book = Book::new(known);
        let writer = Self {
            publisher: Publisher::new(seed.clone(), book.events.counts().clone()),
            publishing: None,
            seed,
            updates,
            book,
            writes: FuturesUnordered::new(),
            pulses: Pulses::default(),
        };
        (writer, Reporter(sender))
    }

    /// How many events were written, and how many were not.
    pub fn event_counts(&self) -> EventCounts {
        self.book.events.counts().clone()
    }

    /// The same, counted by these, and with a pulse among those.
    #[must_use]
    pub fn measured(mut self, metrics: HealthMetrics, pulses: Pulses) -> Self {
        self.book.events.count_by(metrics.events().clone());
        self.publisher.count_by(metrics.events().clone());
        self.book.metrics = metrics;
        Self { pulses, ..self }
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut pulse = self.pulses.begin(PULSE);
        loop {
            pulse.beat();
            self.book.review();
            self.book.metrics.writing(self.writes.len());
            let next = self.book.next();
            if next.as_ref().is_none_or(|(due, _)| *due > Instant::now()) {
                self.publish_next();
            }
            let next = next.filter(|_| self.writes.len() < WRITES_AT_ONCE);
            let due = next.as_ref().map(|(due, _)| *due);
            tokio::select! {
                // What is newest is worth more than what is due.
                biased;
                () = stop.cancelled() => break,
                update = self.updates.recv() => match update {
                    Some(update) => {
                        self.book.take(update);
                        self.take_all();
                    }
                    None => break,
                },
                Some(done) = self.writes.next() => self.written(done),
                () = until(due) => if let Some((_, object)) = next {
                    self.write(&object);
                },
                // One that is begun is always followed: it may have the turn that all others, of
                // statuses too, wait for.
                published = end_of(&mut self.publishing) => self.published(published),
                () = pulse.due() => self.book.metrics.due(self.book.due()),
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again: the
        // marks on the dependents tell as much.
        let last = async {
            self.write_what_is_due().await;
            self.publish_what_waits().await;
        };
        let _ = timeout(LAST_WRITES, last).await;
        self.book.events.give_up(self.publishing.is_some());
    }

    fn publish_next(&mut self) {
        if self.publishing.is_none()
            && let Some((regarding, event)) = self.book.events.pop()
        {
            self.publishing = Some(self.publisher.publish(regarding, event));
        }
    }

    fn published(&mut self, published: Result<(), CallError>) {
        self.publishing = None;
        self.publisher.published(published);
    }

    async fn publish_what_waits(&mut self) {
        loop {
            self.publish_next();
            if self.publishing.is_none() {
                return;
            }
            let published = end_of(&mut self.publishing).await;
            self.published(published);
        }
    }

    async fn write_what_is_due(&mut self) {
        self.take_all();
        self.book.review();
        loop {
            let due = self.book.next().filter(|(due, _)| *due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some((_, object)) => self.write(&object),
                None if self.writes.is_empty() => return,
                None => tokio::select! {
                    biased;
                    Some(done) = self.writes.next() => self.written(done),
                    published = end_of(&mut self.publishing) => self.published(published),
                },
            }
        }
    }

    fn take_all(&mut self) {
        while let Ok(update) = self.updates.try_recv() {
            self.book.take(update);
        }
    }

    fn write(&mut self, object: &Object) {
        match object {
            Object::Cluster(name) => self.write_cluster(name),
            Object::Policy(name) => self.write_policy(name),
            Object::Finalizer(name) => self.write_finalizer(name),
        }
    }

    fn write_cluster(&mut self, name: &Arc<str>) {
        let Some(record) = self.book.clusters.get_mut(name) else {
            return;
        };
        let (seed, name) = (self.seed.clone(), name.clone());
        if record.unwanted {
            record.begin();
            self.writes.push(Box::pin(async move {
                let deleted = delete(&seed, &name).await;
                Done::Deleted(name, deleted)
            }));
            return;
        }
        let Some(report) = record.report.clone() else {
            return;
        };
        let status = cluster::status(&report, &record.status, Timestamp::now());
        let established = record.is_established();
        record.begin();
        self.writes.push(Box::pin(async move {
            let written = write_health(&seed, &name, &report.uid, established, &status).await;
            Done::Cluster(name, report, Box::new(status), written)
        }));
    }

    fn write_policy(&mut self, name: &Arc<str>) {
        let Some(status) = self.book.policy_status(name) else {
            return;
        };
        let Some(record) = self.book.policies.get_mut(name) else {
            return;
        };
        if !record.calls_for(&status) {
            record.schedule.settle(POLICY_LOOK);
            return;
        }
        record.begin();
        let (seed, name, uid) = (self.seed.clone(), name.clone(), record.report.uid.clone());
        self.writes.push(Box::pin(async move {
            let written = write_status::<ProbePolicy>(&seed, &name, &status).await;
            Done::Policy(name, uid, Box::new(status), written.map(|_| ()))
        }));
    }

    fn write_finalizer(&mut self, name: &Arc<str>) {
        let Some(record) = self.book.policies.get_mut(name) else {
            return;
        };
        let Some(on) = record.finalizer_change() else {
            record.finalizer.schedule.settle(Duration::ZERO);
            return;
        };
        record.finalizer.schedule.begin();
        let (seed, name, uid) = (self.seed.clone(), name.clone(), record.report.uid.clone());
        self.writes.push(Box::pin(async move {
            let written = set_finalizer(&seed, &name, &uid, on).await;
            Done::Finalizer(name, uid, on, written)
        }));
    }

    /// Takes down how a write ended. What it was about may have gone meanwhile.
    fn written(&mut self, done: Done) {
        self.book.metrics.wrote(done.kind(), done.succeeded());
        match done {
            Done::Cluster(name, report, status, written) => {
                self.cluster_written(&name, report, *status, written);
            }
            Done::Deleted(name, deleted) => self.cluster_deleted(&name, deleted),
            Done::Policy(name, uid, status, written) => {
                self.policy_written(&name, &uid, *status, written);
            }
            Done::Finalizer(name, uid, on, written) => {
                self.finalizer_written(&name, &uid, on, written);
            }
        }
    }

    fn cluster_written(
        &mut self,
        name: &str,
        report: Arc<ClusterReport>,
        status: ClusterHealthStatus,
        written: Result<Option<String>, WriteError>,
    ) {
        let Some(record) = self.book.clusters.get_mut(name) else {
            return;
        };
        match written {
            Ok(uid) => {
                for event in record.wrote(report, status, uid) {
                    self.book.events.push(record.regarding(name), event);
                }
            }
            Err(error) => {
                complain(
                    "write the status of",
                    "ClusterHealth",
                    name,
                    &record.schedule,
                    &error,
                );
                record.schedule.failed();
            }
        }
    }

    fn cluster_deleted(&mut self, name: &str, deleted: Result<(), WriteError>) {
        let Some(record) = self.book.clusters.get_mut(name) else {
            return;
        };
        match deleted {
            Err(error) if !error.is_not_found() => {
                complain("delete", "ClusterHealth", name, &record.schedule, &error);
                record.schedule.failed();
            }
            _ if record.unwanted && record.report.is_none() => {
                self.book.clusters.remove(name);
            }
            // Its cluster may be selected again, or what is owed to it still counts.
            _ => record.deleted(),
        }
    }

    fn policy_written(
        &mut self,
        name: &str,
        uid: &str,
        status: ProbePolicyStatus,
        written: Result<(), WriteError>,
    ) {
        let Some(record) = self.book.policies.get_mut(name) else {
            return;
        };
        if *record.report.uid != *uid {
            record.predecessor_ended();
            return;
        }
        match written {
            Err(error) if !error.is_not_found() => {
                complain(
                    "write the status of",
                    "ProbePolicy",
                    name,
                    &record.schedule,
                    &error,
                );
                record.failed();
            }
            // It was deleted, which the watch will tell.
            Err(_) => drop(record.wrote(status)),
            Ok(()) => {
                for event in record.wrote(status) {
                    self.book.events.push(record.regarding(), event);
                }
            }
        }
    }

    fn finalizer_written(
        &mut self,
        name: &str,
        uid: &str,
        on: bool,
        written: Result<(), WriteError>,
    ) {
        // It names the UID, so it says nothing of another policy that has the name now.
        let policy = self.book.policies.get_mut(name);
        let Some(record) = policy.filter(|it| *it.report.uid == *uid) else {
            return;
        };
        match written {
            Ok(()) => {
                record.finalizer.wrote(on);
                if let Some(event) = record.finalizer_event() {
                    self.book.events.push(record.regarding(), event);
                }
                record.schedule.hurry(Instant::now());
                self.book.concerns_policies = true;
            }
            // Of one that is gone or is being deleted the watch will tell.
            Err(error) => {
                let tried = match on {
                    true => "put the finalizer on",
                    false => "take the finalizer off",
                };
                complain(
                    tried,
                    "ProbePolicy",
                    name,
                    &record.finalizer.schedule,
                    &error,
                );
                record.finalizer.failed();
            }
        }
    }
}

async fn write_health(
    seed: &Seed,
    name: &str,
    uid: &str,
    established: bool,
    status: &ClusterHealthStatus,
) -> Result<Option<String>, WriteError> {
    if !established {
        establish(seed, name, uid).await?;
    }
    let written = write_status::<ClusterHealth>(seed, name, status).await;
    if !written.as_ref().is_err_and(WriteError::is_not_found) {
        return written;
    }
    // Somebody has just deleted it.
    establish(seed, name, uid).await?;
    write_status::<ClusterHealth>(seed, name, status).await
}

async fn end_of(publishing: &mut Option<Publishing>) -> Result<(), CallError> {
    match publishing {
        Some(publishing) => publishing.await,
        None => std::future::pending().await,
    }
}

/// Says that a write failed; what is tried again and again is told once.
fn complain(tried: &str, kind: &str, name: &str, schedule: &Schedule, error: &WriteError) {
    if schedule.is_failing() {
        tracing::debug!(kind, name, %error, "could still not {tried} it");
    } else {
        tracing::warn!(kind, name, %error, "could not {tried} it; that is tried again");
    }
}
