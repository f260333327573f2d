//! One cluster: its ClusterHealth, and what events and the log have said of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{
    ClusterReport,
    changes::Changes,
    events::{
        self,
        dependent::{self, Troubles},
        hysteresis::Hysteresis,
    },
    finding::{Finding, NO_CANDIDATES, PENDING},
    recall::Recalled,
    record::{Record, Said, Written},
    summary::{Standing, Summary},
    urgency::concerns_policies,
};
use crate::{
    api::{ClusterHealthStatus, ClusterState, OUTAGE, ProbePolicy},
    observer::told::ToldState,
    prober::dependents::Event as Met,
    status::{
        conditions::DEGRADED,
        events::{Event, holding, kinds::EXEC_TIMEOUT_TOLERATED, regarding},
        request::{Applied, WriteError},
    },
};

/// A cluster without a verdict counts as new for this long, and then as one that cannot be judged. Twice
/// the default of probeTimeout: a first read may wait for others of that length, and then take as long. So
/// does one of which no lease counts yet: its Machines may just be coming.
const NEW: Duration = Duration::from_secs(60);

/// A cluster.
pub(super) struct Cluster {
    /// Its ClusterHealth.
    pub(super) record: Record,
    /// Until when it counts as new while it has no verdict.
    pub(super) new_until: Instant,
    /// Whether it can be judged, as it was told.
    hysteresis: Hysteresis,
    /// Its state, as it was told.
    state: ToldState,
    /// Its state, as the log has told it.
    changes: Changes,
    /// What was amiss with its dependents, as an earlier run has told it.
    troubles: Option<Troubles>,
    /// What checks had come to in an earlier run.
    recalled: Recalled,
}

impl Cluster {
    /// A cluster with this ClusterHealth, which an earlier run may have left.
    pub(super) fn new(record: Record) -> Self {
        let status = record.status();
        let is_known = status.reason.as_deref().is_some_and(|it| it != PENDING);
        let new_for = if is_known { Duration::ZERO } else { NEW };
        Self {
            new_until: Instant::now() + new_for,
            hysteresis: Hysteresis::recorded(status),
            state: ToldState::recorded(status),
            changes: Changes::new(status.state),
            troubles: Troubles::recorded(status),
            recalled: Recalled::new(&status.checks),
            record,
        }
    }

    /// The newest status.
    pub(super) fn status(&self) -> &ClusterHealthStatus {
        let wanted = self.record.wanted.as_ref().map(|it| &it.status);
        wanted.unwrap_or(self.record.status())
    }

    /// What policies need to know of the cluster; `None` if it has been let go.
    pub(super) fn summary(&self, now: Instant) -> Option<Summary<'_>> {
        let wanted = self.record.wanted.as_ref();
        if wanted.is_none() && self.record.unwanted {
            return None;
        }
        let mut summary = Summary::of(self.status());
        summary.looked_at = wanted.is_some_and(|it| it.report.looked_at);
        let first = summary.reason == NO_CANDIDATES && summary.standing == Standing::Doubtful;
        if summary.standing == Standing::Pending || first && wanted.is_some() {
            summary.standing = match now < self.new_until {
                true => Standing::Pending,
                false => Standing::Doubtful,
            };
        }
        Some(summary)
    }

    /// Takes up a report. Returns an event, and whether policies have to know.
    pub(super) fn take(&mut self, name: &str, mut report: ClusterReport) -> (Option<Event>, bool) {
        self.recalled.fill_in(&mut report.checks);
        let mut now = Said::by(report);
        now.keep_nodes(self.status());
        self.log_state(name, &now.status);
        let event = self.hysteresis.look(&now.status);
        let before = self.record.wanted.as_ref();
        let pending = now.report.finding == Finding::Pending;
        if pending && before.is_none() && self.record.status().reason.is_some() {
            // What an earlier run has left stands until there is something to say.
            return (event, false);
        }
        log_conditions(name, before.map(|it| &it.status), &now.status);
        if pending && before.is_none_or(|it| it.report.finding != Finding::Pending) {
            self.new_until = Instant::now() + NEW;
        }
        if !pending && now.status.reason.as_deref() != Some(NO_CANDIDATES) {
            self.new_until = Instant::now();
        }
        let concerns_policies = before.is_none_or(|it| concerns_policies(it, &now));
        self.record.want(now);
        (event, concerns_policies)
    }

    /// Its ClusterHealth is deleted.
    pub(super) fn delete(&mut self, unselected: bool) {
        self.record.delete(unselected);
    }

    /// A write has ended. Returns the events.
    pub(super) fn written(&mut self, name: &str, written: Written, result: Applied) -> Vec<Event> {
        let (before, after) = self.record.written(name, written, result);
        let mut events = events::cluster::transitions(&before, &after);
        events.extend(self.state.tell(&after));
        events
    }

    /// A deletion has ended. Returns whether nobody has any use for the cluster.
    pub(super) fn deleted(&mut self, name: &str, result: Result<(), WriteError>) -> bool {
        if result.is_ok() {
            (self.hysteresis, self.state) = Default::default();
        }
        self.record.deleted(name, result)
    }

    /// The event about a dependent.
    pub(super) fn dependent(&mut self, met: &Met) -> Option<Event> {
        let policy = self.status().policy.clone();
        dependent::event(met, policy.as_deref(), self.troubles.as_mut())
    }

    /// The event that a command has not ended in time, which was tolerated. Those of several checks of
    /// a policy are not taken for the same.
    pub(super) fn tolerated(&self, check: &str, message: String) -> Event {
        let wanted = self.record.wanted.as_ref();
        let policy = wanted.and_then(|it| it.report.policy.as_deref());
        let check = ObjectReference {
            field_path: Some(format!("spec.checks{{{check}}}")),
            ..regarding::<ProbePolicy>(policy.unwrap_or_default(), None)
        };
        Event {
            related: Some(Box::new(check)),
            ..Event::new(&EXEC_TIMEOUT_TOLERATED, message)
        }
    }

    /// Says in the log that the state of the cluster is another than before.
    fn log_state(&mut self, cluster: &str, status: &ClusterHealthStatus) {
        let Some((state, message)) = status.state.zip(status.state_message.as_ref()) else {
            // Whatever it is next, it begins anew.
            return self.changes.rest();
        };
        if let Some((from, between)) = self.changes.take(state, Instant::now()) {
            let (from, to) = (from.map(ClusterState::name), state.name());
            let between = Some(between).filter(|number| *number > 0);
            tracing::info!(cluster, from, to, between, "state: {message}");
        }
    }
}

/// Logs what is said of a cluster, once one of its conditions has another reason than before.
fn log_conditions(cluster: &str, before: Option<&ClusterHealthStatus>, now: &ClusterHealthStatus) {
    fn reasons(of: &ClusterHealthStatus) -> impl Iterator<Item = (&str, &str)> {
        let conditions = of.conditions.iter();
        conditions.map(|it| (&*it.type_, &*it.reason))
    }
    if before.is_some_and(|before| reasons(before).eq(reasons(now))) {
        return;
    }
    let (reason, protection) = (now.reason.as_deref(), now.protection);
    let message = now.message.as_deref().unwrap_or_default();
    if reason == Some(OUTAGE) || holding(&now.conditions, DEGRADED).is_some() {
        tracing::warn!(cluster, reason, ?protection, "{message}");
    } else {
        tracing::info!(cluster, reason, ?protection, "{message}");
    }
}
