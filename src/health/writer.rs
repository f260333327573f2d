//! Writes statuses, and the finalizer of policies: one task, the only one that does.
//!
//! Reports are coalesced: what is written is the newest that is known when its turn comes. A
//! status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more. A few objects are written at once, so that
//! one whose write hangs keeps no other waiting.

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
    report::ClusterReport,
    reporter::{Known, Reporter, Update},
    request::{WriteError, delete, establish, set_finalizer, write_status},
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    runtime::{seed::Seed, timer::until},
};

/// So many objects are written at once.
const WRITES_AT_ONCE: usize = 16;
/// When the writer is stopped, what is due may still be written within this.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// Whether a policy's status says anything new is looked at most this often.
const POLICY_LOOK: Duration = Duration::from_secs(1);

/// Writes ClusterHealths, the statuses of ProbePolicies and their finalizer.
pub struct Writer {
    seed: Seed,
    updates: UnboundedReceiver<Update>,
    book: Book,
    writes: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// A write that has come to an end. A policy is named with its UID: another may have taken its name
/// meanwhile.
enum Done {
    Cluster(
        Arc<str>,
        Arc<ClusterReport>,
        Box<ClusterHealthStatus>,
        Result<(), WriteError>,
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

impl Writer {
    /// A writer for what its reporter is told.
    pub fn new(seed: Seed, known: Known) -> (Self, Reporter) {
        let (sender, updates) = mpsc::unbounded_channel();
        let writer = Self {
            seed,
            updates,
            book: Book::new(known),
            writes: FuturesUnordered::new(),
        };
        (writer, Reporter(sender))
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            self.book.review();
            let next = self
                .book
                .next()
                .filter(|_| self.writes.len() < WRITES_AT_ONCE);
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
            }
        }
        // Whoever comes next learns from it what was done last. A failure is not tried again: the
        // marks on the dependents tell as much.
        let _ = timeout(LAST_WRITES, self.write_what_is_due()).await;
    }

    async fn write_what_is_due(&mut self) {
        self.take_all();
        self.book.review();
        loop {
            let due = self.book.next().filter(|(due, _)| *due <= Instant::now());
            match due.filter(|_| self.writes.len() < WRITES_AT_ONCE) {
                Some((_, object)) => self.write(&object),
                None => match self.writes.next().await {
                    Some(done) => self.written(done),
                    None => return,
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
            Done::Policy(name, uid, Box::new(status), written)
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
        written: Result<(), WriteError>,
    ) {
        let Some(record) = self.book.clusters.get_mut(name) else {
            return;
        };
        match written {
            Ok(()) => record.wrote(report, status),
            Err(error) => {
                complain("write the status of", "ClusterHealth", name, &error);
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
                complain("delete", "ClusterHealth", name, &error);
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
                complain("write the status of", "ProbePolicy", name, &error);
                record.failed();
            }
            // It may have been deleted, which the watch will tell.
            _ => record.wrote(status),
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
                record.schedule.hurry(Instant::now());
                self.book.concerns_policies = true;
            }
            // Of one that is gone or is being deleted the watch will tell.
            Err(error) => {
                let tried = match on {
                    true => "put the finalizer on",
                    false => "take the finalizer off",
                };
                complain(tried, "ProbePolicy", name, &error);
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
) -> Result<(), WriteError> {
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

fn complain(tried: &str, kind: &str, name: &str, error: &WriteError) {
    tracing::warn!(kind, name, %error, "could not {tried} it; that is tried again");
}
