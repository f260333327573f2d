//! What the writer knows: no client, no task.

mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use tokio::time::Instant;

use super::{
    ClusterReport,
    cluster::Cluster,
    events::{self, dependent},
    metrics::HealthMetrics,
    policy::{More, PolicyReport, RIGHTS},
    record::Record,
};
use crate::{
    api::{ClusterHealth, ProbePolicy, ProbePolicyStatus},
    prober::dependents::Event as Met,
    runtime::watch::Change,
    status::{
        events::Event,
        policies::{Policies, Policy, Reported},
    },
};

/// All clusters and policies, and what is written of each.
#[derive(Default)]
pub(super) struct Objects {
    /// In boxes, since half of the places in a tree are empty.
    clusters: BTreeMap<Arc<str>, Box<Cluster>>,
    /// When each is due that is to be written. A thousand clusters send a hundred reports a second, of
    /// which hardly any changes that.
    due: BTreeSet<(Instant, Arc<str>)>,
    policies: Policies<PolicyReport, More>,
    /// Statuses of policies of which the watch has not told yet.
    left: BTreeMap<Arc<str>, ProbePolicyStatus>,
    metrics: HealthMetrics,
    /// Something has changed that concerns policies.
    concerns_policies: bool,
    /// What is to be told.
    news: Vec<(ObjectReference, Event)>,
}

impl Reported for PolicyReport {
    type Policy = ProbePolicy;
    type Status = ProbePolicyStatus;

    const KIND: &'static str = "ProbePolicy";

    fn transitions(before: &Self::Status, after: &Self::Status) -> Vec<Event> {
        events::policy::transitions(before, after)
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl Policy<PolicyReport, More> {
    /// Whether the finalizer is to be put on or taken off.
    fn finalizer_change(&self) -> Option<bool> {
        let needed = !self.more.holding.is_empty();
        self.more.finalizer.change(needed, self.report.deleting)
    }

    /// What has become of the finalizer.
    fn finalizer_event(&mut self) -> Option<(ObjectReference, Event)> {
        let on = self.more.finalizer.news(!self.more.holding.is_empty())?;
        let event = events::policy::finalizer(on, &self.more.holding);
        Some((self.regarding(), event))
    }
}

impl Objects {
    /// What an earlier run has left.
    pub(super) fn new(
        clusters: Vec<ClusterHealth>,
        left: BTreeMap<Arc<str>, ProbePolicyStatus>,
        metrics: HealthMetrics,
    ) -> Self {
        let clusters = clusters.into_iter().filter_map(|health| {
            let name = health.metadata.name.as_deref()?.into();
            Some((name, Box::new(Cluster::new(Record::known(health)))))
        });
        Self {
            clusters: clusters.collect(),
            left,
            metrics,
            ..Self::default()
        }
    }

    /// Changes a cluster, and when it is due.
    fn edit<T>(&mut self, name: &str, edit: impl FnOnce(&mut Cluster) -> T) -> Option<T> {
        let name = self.clusters.get_key_value(name)?.0.clone();
        let cluster = self.clusters.get_mut(&name)?;
        let before = cluster.record.due();
        let result = edit(cluster);
        let after = cluster.record.due();
        if before != after {
            self.due.extend(after.map(|due| (due, name.clone())));
            if let Some(before) = before {
                self.due.remove(&(before, name));
            }
        }
        Some(result)
    }

    /// Nobody has any use for a cluster.
    fn forget(&mut self, name: &str) {
        let removed = self.clusters.remove_entry(name);
        if let Some((name, Some(due))) = removed.map(|(name, it)| (name, it.record.due())) {
            self.due.remove(&(due, name));
        }
    }

    /// Events about a ClusterHealth.
    fn tell(&mut self, name: &str, events: impl IntoIterator<Item = Event>) {
        if let Some(cluster) = self.clusters.get(name) {
            let events = events.into_iter();
            let events = events.map(|event| (cluster.record.regarding(name), event));
            self.news.extend(events);
        }
    }

    /// All that is known of a cluster.
    pub(super) fn take_cluster(&mut self, name: &Arc<str>, report: ClusterReport) {
        let new = || Box::new(Cluster::new(Record::new()));
        let known = self.clusters.entry(name.clone()).or_insert_with(new);
        let before = known.record.wanted.as_ref();
        let before = before.and_then(|it| it.report.policy.clone());
        let policies = [before, report.policy.clone()];
        let taken = self.edit(name, |cluster| cluster.take(name, report));
        let (event, concerns_policies) = taken.unwrap_or_default();
        self.tell(name, event);
        if concerns_policies {
            self.concerns_policies = true;
            for policy in policies.into_iter().flatten() {
                if let Some(policy) = self.policies.0.get_mut(&policy) {
                    policy.schedule.hurry(Instant::now());
                }
            }
        }
    }

    /// What was done to a dependent.
    pub(super) fn take_dependent(&mut self, cluster: &str, met: &Met) {
        let event = match self.edit(cluster, |cluster| cluster.dependent(met)) {
            Some(event) => event,
            None => dependent::event(met, None, None),
        };
        let event = event.map(|event| (dependent::regarding(cluster, met), event));
        self.news.extend(event);
    }

    /// A command that a check runs has not ended in time, which was tolerated.
    pub(super) fn take_tolerated(&mut self, name: &str, check: &str, message: String) {
        let cluster = self.clusters.get(name);
        let cluster = cluster.filter(|it| !it.record.unwanted);
        let event = cluster.map(|it| it.tolerated(check, message));
        self.tell(name, event);
    }

    /// The Cluster is gone, or even no record of it is kept any more.
    pub(super) fn take_gone(&mut self, name: &str, unselected: bool) {
        self.edit(name, |cluster| cluster.delete(unselected));
        self.concerns_policies = true;
    }

    /// All policies that there are.
    pub(super) fn take_policies(&mut self, reports: Vec<PolicyReport>) {
        self.concerns_policies = true;
        self.metrics.policies(&reports);
        self.policies.take(reports, |report| {
            let status = self.left.remove(&report.name).unwrap_or_default();
            let more = More::new(report.held, &status);
            (status, more)
        });
        for policy in self.policies.0.values_mut() {
            policy.more.finalizer.seen(policy.report.held);
            self.news.extend(policy.finalizer_event());
        }
    }

    /// The rights that are missing for the policy with this UID.
    pub(super) fn take_rights(&mut self, name: &str, uid: &str, missing: &[String]) {
        let Some(policy) = self.policies.with_uid(name, uid) else {
            return;
        };
        let lacking = RIGHTS.lacking(missing);
        if policy.more.lacking == lacking {
            return;
        }
        match &lacking {
            Some(lacking) => tracing::warn!(policy = name, "{lacking}"),
            None => tracing::info!(policy = name, "{}", RIGHTS.suffice),
        }
        policy.more.lacking = lacking;
        policy.schedule.hurry(Instant::now());
    }

    /// What the watch of ClusterHealths says.
    pub(super) fn take_healths(&mut self, change: Change<ObjectMeta>) {
        let name = |health: &ObjectMeta| health.name.clone().unwrap_or_default();
        match change {
            Change::All(list) => {
                let mut unlisted: BTreeSet<_> = self.clusters.keys().cloned().collect();
                for health in list {
                    let name = name(&health);
                    unlisted.remove(&*name);
                    self.seen(&name, Some(&health));
                }
                for name in unlisted {
                    self.seen(&name, None);
                }
            }
            Change::Put(health) => self.seen(&name(&health), Some(&health)),
            Change::Gone(health) => self.seen(&name(&health), None),
        }
    }

    /// There is such a ClusterHealth, or none.
    fn seen(&mut self, name: &str, health: Option<&ObjectMeta>) {
        // What an earlier run has left of a Cluster that is gone.
        if self.edit(name, |cluster| cluster.record.seen(health)) == Some(true) {
            self.forget(name);
            self.concerns_policies = true;
        }
    }
}

#[cfg(test)]
mod tests;
