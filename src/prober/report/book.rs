//! What the writer knows, and what is to be written next: no client, no task.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::{core::PartialObjectMeta, runtime::watcher};
use tokio::time::Instant;

use super::{
    ClusterReport, Known,
    cluster::Cluster,
    events::{
        self,
        dependent::{self, DependentNews},
    },
    metrics::HealthMetrics,
    policy::{self, More, PolicyReport, RIGHTS},
    record::{Rank, Record, Said, Written},
    summary::Standing,
    widespread::{Widespread, widespread},
};
use crate::{
    api::{ClusterHealth, ProbePolicy, ProbePolicyStatus},
    runtime::seed::Seed,
    status::{
        events::Event,
        policies::{Policies, Policy, Reported},
        request::{Applied, WriteError, complain, delete, set_finalizer, write_health},
        writer::{Content, Next, Write, write},
    },
};

/// All clusters and policies, and what is written of each.
pub(super) struct Book {
    /// In boxes, since half of the places in a tree are empty.
    clusters: BTreeMap<Arc<str>, Box<Cluster>>,
    /// When each is due that is to be written. A thousand clusters send a hundred reports a second, of
    /// which hardly any changes that.
    due: BTreeSet<(Instant, Arc<str>)>,
    policies: Policies<PolicyReport, More>,
    /// Statuses of policies of which the watch has not told yet.
    left: BTreeMap<Arc<str>, ProbePolicyStatus>,
    /// The clusters without a ClusterHealth in the list that is in progress.
    unlisted: BTreeSet<Arc<str>>,
    widespread: Option<Widespread>,
    pub(super) metrics: HealthMetrics,
    /// Something has changed that concerns policies.
    concerns_policies: bool,
    /// What is to be told.
    news: Vec<(ObjectReference, Event)>,
}

/// What can be written.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Finalizer,
    Cluster,
    Policy,
}

impl Reported for PolicyReport {
    type Policy = ProbePolicy;
    type Status = ProbePolicyStatus;

    const KIND: &'static str = "ProbePolicy";

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

impl Content for Book {
    type Object = (Kind, Arc<str>);

    const CONTROLLER: &'static str = "dependency-watchdog-prober";

    /// Counts the clusters, and finds the policies that need the finalizer, and whether many clusters
    /// fell silent at once.
    fn review(&mut self) {
        if !std::mem::take(&mut self.concerns_policies) {
            return;
        }
        let now = Instant::now();
        let clusters = self.clusters.iter();
        let clusters = clusters.filter_map(|(name, it)| Some((name, it, it.summary(now)?)));
        let clusters: Vec<_> = clusters.collect();
        let summaries: Vec<_> = clusters.iter().map(|(.., it)| *it).collect();
        self.metrics.counted(&summaries);
        let probed = summaries.iter().filter(|it| it.probed).count();
        let silent = clusters.iter();
        let silent = silent.filter_map(|(name, it, _)| Some(((*name).clone(), it.silent_since?)));
        let widespread = widespread(&silent.collect(), probed);
        let mut of_policies: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for cluster @ (.., summary) in &clusters {
            let policy = summary.policy.unwrap_or_default();
            of_policies.entry(policy).or_default().push(cluster);
        }
        for policy in self.policies.0.values_mut() {
            let deleting = policy.report.deleting;
            let clusters = of_policies.remove(&*policy.report.name).unwrap_or_default();
            let holding = clusters.iter();
            let holding = holding.filter(|(.., it)| it.protected || deleting && !it.looked_at);
            let mut holding: BTreeSet<_> = holding.map(|(name, ..)| (*name).clone()).collect();
            if deleting {
                // A loop that has not reported yet has not looked.
                let unreported = policy.report.kept.iter().filter(|kept| {
                    let cluster = self.clusters.get(&***kept);
                    cluster.is_none_or(|it| it.record.wanted.is_none())
                });
                holding.extend(unreported.cloned());
            }
            if policy.more.holding != holding {
                policy.more.holding = holding;
                policy.schedule.hurry(now);
            }
            let new = clusters
                .iter()
                .filter(|(.., it)| it.standing == Standing::Pending);
            if let Some(at) = new.map(|(_, it, _)| it.new_until).min() {
                policy.schedule.hurry(at);
            }
            if policy.finalizer_change().is_some() {
                policy.more.finalizer.schedule.hurry(now);
            }
        }
        self.tell_widespread(widespread);
    }

    /// What is due first, of what is not being written; of all that is due, by its rank. So neither a
    /// finalizer nor a protection waits for the statuses of a thousand clusters, nor any other news for
    /// states that come and go.
    fn next(&mut self) -> Option<Next<(Kind, Arc<str>)>> {
        let now = Instant::now();
        let finalizers = self.policies.0.iter().filter_map(|(name, it)| {
            let due = it.more.finalizer.schedule.due()?;
            Some((due, Rank::First, Kind::Finalizer, name))
        });
        let due = self.due.iter().enumerate();
        let due = due.take_while(|(place, (due, _))| *place == 0 || *due <= now);
        let clusters = due.filter_map(|(_, (due, name))| {
            let rank = self.clusters.get(name)?.record.rank();
            Some((*due, rank, Kind::Cluster, name))
        });
        let policies =
            self.policies.0.iter().filter_map(|(name, it)| {
                Some((it.schedule.due()?, Rank::News, Kind::Policy, name))
            });
        let all = finalizers.chain(clusters).chain(policies);
        // What is not due yet comes in its time, whatever its rank.
        let first = all.min_by_key(|(due, rank, ..)| ((*due).max(now), *rank, *due));
        first.map(|(due, rank, kind, name)| Next {
            due,
            minor: rank == Rank::Observed,
            object: (kind, name.clone()),
        })
    }

    fn due(&self) -> usize {
        let now = Instant::now();
        let clusters = self.due.iter().take_while(|(due, _)| *due <= now);
        let policies = self.policies.0.iter();
        let policies =
            policies.flat_map(|(_, it)| [it.schedule.due(), it.more.finalizer.schedule.due()]);
        clusters.count() + policies.flatten().filter(|due| *due <= now).count()
    }

    fn write(&mut self, seed: &Seed, (kind, name): &(Kind, Arc<str>)) -> Option<Write<Self>> {
        match kind {
            Kind::Cluster => self.write_cluster(seed, name),
            Kind::Policy => self.write_policy(seed, name),
            Kind::Finalizer => self.write_finalizer(seed, name),
        }
    }

    fn news(&mut self) -> Vec<(ObjectReference, Event)> {
        std::mem::take(&mut self.news)
    }
}

impl Book {
    /// What an earlier run has left.
    pub(super) fn new(known: Known) -> Self {
        let clusters = known.clusters.into_iter().filter_map(|health| {
            let name = health.metadata.name.as_deref()?.into();
            Some((name, Box::new(Cluster::new(Record::known(health)))))
        });
        Self {
            clusters: clusters.collect(),
            due: BTreeSet::new(),
            policies: Policies::default(),
            left: known.policies,
            unlisted: BTreeSet::new(),
            widespread: None,
            metrics: HealthMetrics::default(),
            concerns_policies: false,
            news: Vec::new(),
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
        self.metrics.reported(name, &report);
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
    pub(super) fn take_dependent(&mut self, cluster: &str, news: &DependentNews) {
        let event = match self.edit(cluster, |cluster| cluster.dependent(news)) {
            Some(event) => event,
            None => dependent::event(news, None, None),
        };
        let event = event.map(|event| (dependent::regarding(cluster, news), event));
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
        if unselected {
            self.metrics.gone(name);
        }
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
    pub(super) fn take_event(&mut self, event: watcher::Event<PartialObjectMeta<ClusterHealth>>) {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        match event {
            Init => self.unlisted = self.clusters.keys().cloned().collect(),
            InitApply(health) | Apply(health) => {
                let name = health.metadata.name.as_deref().unwrap_or_default();
                self.unlisted.remove(name);
                self.seen(name, Some(&health.metadata));
            }
            InitDone => {
                for name in std::mem::take(&mut self.unlisted) {
                    self.seen(&name, None);
                }
            }
            Delete(health) => self.seen(health.metadata.name.as_deref().unwrap_or_default(), None),
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

    fn tell_widespread(&mut self, found: Option<Widespread>) {
        if self.widespread == found {
            return;
        }
        match (&self.widespread, &found) {
            (None, Some(found)) => tracing::warn!("{}", found.message()),
            (Some(before), None) => {
                let first = before.first;
                tracing::warn!(%first, "of the clusters that fell silent at once, few still are");
            }
            _ => {}
        }
        let clusters = found.as_ref().map_or(0, |found| found.clusters.len());
        self.metrics.widespread(clusters);
        self.widespread = found;
        self.policies.hurry();
    }

    /// The status that a policy asks for now; `None` if there is no such policy.
    fn policy_status(&self, name: &str) -> Option<ProbePolicyStatus> {
        let policy = self.policies.0.get(name)?;
        let (time, now) = (Timestamp::now(), Instant::now());
        let summary = |name: &str| self.clusters.get(name)?.summary(now);
        let widespread = self.widespread.as_ref();
        Some(policy::status(policy, widespread, summary, time))
    }

    fn write_cluster(&mut self, seed: &Seed, name: &Arc<str>) -> Option<Write<Self>> {
        const KIND: &str = "ClusterHealth";
        let record = &self.clusters.get(name)?.record;
        // Writes that were begun before it may be waiting for their turns.
        let seed = match record.rank() {
            Rank::Urgent => seed.urgent(),
            _ => seed.clone(),
        };
        let (about, name) = (name.clone(), name.clone());
        if record.unwanted {
            self.edit(&name, |cluster| cluster.record.schedule.begin());
            let request = async move { delete(&seed, &about).await };
            let then = move |book: &mut Self, result| book.cluster_deleted(&name, result);
            return Some(write(KIND, request, then));
        }
        let written = self.edit(&name, |cluster| cluster.record.begin())??;
        let Said { report, status } = &written.wanted;
        let (uid, status) = (report.uid.clone(), status.clone());
        let established = written.was_established;
        let request = async move { write_health(&seed, &about, &uid, established, &status).await };
        let then = move |book: &mut Self, result| book.cluster_written(&name, written, result);
        Some(write(KIND, request, then))
    }

    fn write_policy(&mut self, seed: &Seed, name: &Arc<str>) -> Option<Write<Self>> {
        let status = self.policy_status(name)?;
        // A schedule that is settled forgets what is due later.
        self.concerns_policies = true;
        self.policies.write(
            seed,
            name,
            status,
            |book: &mut Self| &mut book.policies,
            Self::policy_written,
        )
    }

    fn policy_written(&mut self, name: &str, before: &ProbePolicyStatus) {
        self.concerns_policies = true;
        if let Some(policy) = self.policies.0.get(name) {
            let events = events::policy::transitions(before, &policy.status);
            let events = events.into_iter().map(|it| (policy.regarding(), it));
            self.news.extend(events);
        }
    }

    fn write_finalizer(&mut self, seed: &Seed, name: &Arc<str>) -> Option<Write<Self>> {
        let policy = self.policies.0.get_mut(name)?;
        let change = policy.finalizer_change();
        let schedule = &mut policy.more.finalizer.schedule;
        let Some(on) = change else {
            schedule.settle(Duration::ZERO);
            return None;
        };
        schedule.begin();
        let (seed, name, uid) = (seed.clone(), name.clone(), policy.report.uid.clone());
        let about = (name.clone(), uid.clone());
        let request = async move { set_finalizer(&seed, &about.0, &about.1, on).await };
        Some(write(
            "ProbePolicy",
            request,
            move |book: &mut Self, result| {
                book.finalizer_written(&name, &uid, on, result);
            },
        ))
    }

    fn cluster_written(&mut self, name: &str, written: Written, result: Applied) {
        let events = self.edit(name, |cluster| cluster.written(name, written, result));
        self.tell(name, events.into_iter().flatten());
    }

    fn cluster_deleted(&mut self, name: &str, result: Result<(), WriteError>) {
        if self.edit(name, |cluster| cluster.deleted(name, result)) == Some(true) {
            self.forget(name);
        }
    }

    fn finalizer_written(
        &mut self,
        name: &str,
        uid: &str,
        on: bool,
        result: Result<(), WriteError>,
    ) {
        // It names the UID, so it says nothing of another policy that has the name now.
        let Some(policy) = self.policies.with_uid(name, uid) else {
            return;
        };
        let finalizer = &mut policy.more.finalizer;
        // Of one that is gone or is being deleted the watch will tell.
        if let Err(error) = result {
            let tried = match on {
                true => "put the finalizer on",
                false => "take the finalizer off",
            };
            complain(tried, "ProbePolicy", name, &finalizer.schedule, &error);
            return finalizer.schedule.failed();
        }
        finalizer.wrote(on);
        policy.schedule.hurry(Instant::now());
        self.news.extend(policy.finalizer_event());
        self.concerns_policies = true;
    }
}

#[cfg(test)]
mod tests;
