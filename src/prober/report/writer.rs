//! The writer of the prober: ClusterHealths, the statuses of ProbePolicies and their finalizer, and
//! events. No other task writes these.
//!
//! A status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    ClusterReport,
    book::{Book, Object},
    metrics::HealthMetrics,
    record::ClusterRecord,
    reporter::{Known, Reporter, Update},
    status,
};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, ProbePolicyStatus},
    health::{
        events::{Event, EventCounts},
        request::{WriteError, complain, delete, establish, set_finalizer, write_status},
        scribe::{Content, Desk, Ended},
    },
    runtime::{pulse::Pulses, seed::Seed},
};

/// Writes ClusterHealths, the statuses of ProbePolicies and their finalizer, and events.
pub struct Writer(Desk<Book>);

impl Writer {
    /// A writer for what its reporter is told.
    pub fn new(seed: Seed, known: Known) -> (Self, Reporter) {
        let (desk, sender) = Desk::new(seed, Book::new(known));
        (Self(desk), Reporter(sender))
    }

    /// How many events were written, and how many were not.
    pub fn event_counts(&self) -> EventCounts {
        self.0.metrics.events().clone()
    }

    /// The same, counted by these, and with a pulse among those.
    #[must_use]
    pub fn measured(mut self, metrics: HealthMetrics, pulses: Pulses) -> Self {
        self.0.metrics = metrics.writer().clone();
        self.0.content.metrics = metrics;
        self.0.pulses = pulses;
        self
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(self, stop: CancellationToken) {
        self.0.run(stop).await;
    }
}

/// A write that has come to an end. A policy is named with its UID: another may have taken its name
/// meanwhile.
pub(super) enum Done {
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

impl Ended for Done {
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

impl Content for Book {
    type Update = Update;
    type Object = Object;
    type Done = Done;

    const CONTROLLER: &'static str = "dependency-watchdog-prober";

    fn take(&mut self, update: Update) {
        self.take(update);
    }

    fn review(&mut self) {
        self.review();
    }

    fn next(&self) -> Option<(Instant, Object)> {
        self.next()
    }

    fn is_minor(&self, object: &Object) -> bool {
        match object {
            Object::Cluster(name) => self.clusters.get(name).is_some_and(ClusterRecord::is_minor),
            Object::Finalizer(_) | Object::Policy(_) => false,
        }
    }

    fn due(&self) -> usize {
        self.due()
    }

    fn write(&mut self, seed: &Seed, object: &Object) -> Option<BoxFuture<'static, Done>> {
        match object {
            Object::Cluster(name) => self.write_cluster(seed, name),
            Object::Policy(name) => self.write_policy(seed, name),
            Object::Finalizer(name) => self.write_finalizer(seed, name),
        }
    }

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

    fn news(&mut self) -> Vec<(ObjectReference, Event)> {
        std::mem::take(&mut self.news)
    }
}

impl Book {
    fn write_cluster(&mut self, seed: &Seed, name: &Arc<str>) -> Option<BoxFuture<'static, Done>> {
        let mut record = self.clusters.get_mut(name)?;
        // Those that were begun before it may be waiting for their turns.
        let seed = match record.is_urgent() {
            true => seed.urgent(),
            false => seed.clone(),
        };
        let name = name.clone();
        if record.unwanted {
            record.begin();
            return Some(Box::pin(async move {
                let deleted = delete(&seed, &name).await;
                Done::Deleted(name, deleted)
            }));
        }
        let report = record.report.clone()?;
        let status = status::status(&report, &record.status, Timestamp::now());
        let established = record.is_established();
        record.begin();
        Some(Box::pin(async move {
            let written = write_health(&seed, &name, &report.uid, established, &status).await;
            Done::Cluster(name, report, Box::new(status), written)
        }))
    }

    fn write_policy(&mut self, seed: &Seed, name: &Arc<str>) -> Option<BoxFuture<'static, Done>> {
        let status = self.policy_status(name)?;
        let record = self.policies.get_mut(name)?;
        // A schedule that is settled forgets what is due later.
        self.concerns_policies |= record.look_again.is_some();
        if !record.calls_for(&status) {
            record.kept.settle();
            return None;
        }
        record.kept.begin();
        let (seed, name, uid) = (seed.clone(), name.clone(), record.report.uid.clone());
        Some(Box::pin(async move {
            let written = write_status::<ProbePolicy>(&seed, &name, &status).await;
            Done::Policy(name, uid, Box::new(status), written.map(|_| ()))
        }))
    }

    fn write_finalizer(
        &mut self,
        seed: &Seed,
        name: &Arc<str>,
    ) -> Option<BoxFuture<'static, Done>> {
        let record = self.policies.get_mut(name)?;
        let Some(on) = record.finalizer_change() else {
            record.finalizer.schedule.settle(Duration::ZERO);
            return None;
        };
        record.finalizer.schedule.begin();
        let (seed, name, uid) = (seed.clone(), name.clone(), record.report.uid.clone());
        Some(Box::pin(async move {
            let written = set_finalizer(&seed, &name, &uid, on).await;
            Done::Finalizer(name, uid, on, written)
        }))
    }

    fn cluster_written(
        &mut self,
        name: &str,
        report: Arc<ClusterReport>,
        status: ClusterHealthStatus,
        written: Result<Option<String>, WriteError>,
    ) {
        let Some(mut record) = self.clusters.get_mut(name) else {
            return;
        };
        match written {
            Ok(uid) => {
                for event in record.wrote(report, status, uid) {
                    self.news.push((record.regarding(name), event));
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
        let Some(mut record) = self.clusters.get_mut(name) else {
            return;
        };
        match deleted {
            Err(error) if !error.is_not_found() => {
                complain("delete", "ClusterHealth", name, &record.schedule, &error);
                record.schedule.failed();
            }
            _ if record.unwanted && record.report.is_none() => {
                drop(record);
                self.clusters.remove(name);
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
        let Some(record) = self.policies.get_mut(name) else {
            return;
        };
        if *record.report.uid != *uid {
            record.kept.predecessor_ended();
            return;
        }
        self.concerns_policies |= record.look_again.is_some();
        if let Some(before) = record.kept.ended(("ProbePolicy", name), status, written) {
            for event in super::events::policy::transitions(&before, &record.kept.status) {
                self.news.push((record.regarding(), event));
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
        let policy = self.policies.get_mut(name);
        let Some(record) = policy.filter(|it| *it.report.uid == *uid) else {
            return;
        };
        match written {
            Ok(()) => {
                record.finalizer.wrote(on);
                if let Some(event) = record.finalizer_event() {
                    self.news.push((record.regarding(), event));
                }
                record.kept.schedule.hurry(Instant::now());
                self.concerns_policies = true;
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
