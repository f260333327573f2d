//! What the writer knows, and what is to be written next: no client, no task.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kube::{core::PartialObjectMeta, runtime::watcher::Event};
use tokio::time::Instant;

use super::{
    clusters::Clusters,
    events::dependent::{self, DependentNews},
    metrics::{Census, HealthMetrics},
    policy::{self, PolicyReport},
    record::{ClusterRecord, PolicyRecord},
    reporter::{Known, Update},
    summary::Standing,
    widespread::{Widespread, widespread},
};
use crate::{
    api::{ClusterHealth, ProbePolicyStatus},
    health::{events, kept::log_problems, rights::OUTAGE},
};

/// All clusters and policies, and what is written of each.
pub(super) struct Book {
    pub(super) clusters: Clusters,
    pub(super) policies: BTreeMap<Arc<str>, PolicyRecord>,
    /// Statuses of policies of which the watch has not told yet.
    left: BTreeMap<Arc<str>, ProbePolicyStatus>,
    /// A list of ClusterHealths in progress.
    listed: BTreeMap<String, ObjectMeta>,
    widespread: Option<Widespread>,
    pub(super) metrics: HealthMetrics,
    /// Something has changed that concerns policies.
    pub(super) concerns_policies: bool,
    /// What is to be told.
    pub(super) news: Vec<(ObjectReference, events::Event)>,
}

/// What goes before what, of all that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A finalizer.
    First,
    /// That a cluster is protected, or is not any more.
    Urgent,
    /// Any other news.
    News,
    /// That a cluster is observed otherwise, if only that it cannot be reached, which may be all of them at
    /// once, again and again.
    Observed,
}

/// What can be written.
pub(super) enum Object {
    Finalizer(Arc<str>),
    Cluster(Arc<str>),
    Policy(Arc<str>),
}

impl Book {
    /// What an earlier run has left.
    pub(super) fn new(known: Known) -> Self {
        let clusters = known.clusters.into_iter().filter_map(|health| {
            let name = health.metadata.name.as_deref()?.into();
            Some((name, ClusterRecord::known(health)))
        });
        Self {
            clusters: clusters.collect(),
            policies: BTreeMap::new(),
            left: known.policies,
            listed: BTreeMap::new(),
            widespread: None,
            metrics: HealthMetrics::default(),
            concerns_policies: false,
            news: Vec::new(),
        }
    }

    /// Takes up what was reported.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Cluster(name, report) => {
                self.metrics.reported(&name, &report);
                let mut record = self.clusters.get_or_new(&name);
                let before = record.report.as_ref().and_then(|it| it.policy.clone());
                record.log_state(&name, &report);
                if let Some(event) = record.look_at(&report) {
                    self.news.push((record.regarding(&name), event));
                }
                let policy = report.policy.clone();
                let concerns_policies = record.take(*report);
                drop(record);
                if concerns_policies {
                    self.concerns_policies = true;
                    self.hurry_policy(before);
                    self.hurry_policy(policy);
                }
            }
            Update::Dependent(cluster, news) => self.take_news(&cluster, &news),
            Update::ExecTolerated(cluster, check, message) => {
                let record = self.clusters.get(&cluster);
                if let Some(record) = record.filter(|it| !it.unwanted) {
                    let event = record.tolerated(&check, message);
                    self.news.push((record.regarding(&cluster), event));
                }
            }
            Update::ClusterUnselected(name) => {
                self.metrics.gone(&name);
                if let Some(mut record) = self.clusters.get_mut(&name) {
                    record.unselect();
                }
                self.concerns_policies = true;
            }
            Update::ClusterGone(name) => {
                if let Some(mut record) = self.clusters.get_mut(&name) {
                    record.drop_health();
                }
                self.concerns_policies = true;
            }
            Update::Policies(reports) => self.take_policies(reports),
            Update::Rights(policy, uid, missing) => self.take_rights(&policy, &uid, &missing),
            Update::ClusterHealth(event) => self.take_event(*event),
        }
    }

    fn take_news(&mut self, cluster: &str, news: &DependentNews) {
        let record = self.clusters.get_mut(cluster);
        let event = match record {
            Some(mut record) => record.event(news),
            None => dependent::event(news, None, None),
        };
        if let Some(event) = event {
            self.news.push((dependent::regarding(cluster, news), event));
        }
    }

    fn hurry_policy(&mut self, name: Option<Arc<str>>) {
        if let Some(policy) = name.and_then(|name| self.policies.get_mut(&name)) {
            policy.kept.schedule.hurry(Instant::now());
        }
    }

    fn take_policies(&mut self, reports: Vec<PolicyReport>) {
        self.concerns_policies = true;
        self.metrics.policies(&reports);
        let mut before = std::mem::take(&mut self.policies);
        for report in reports {
            let name = report.name.clone();
            let known = before.remove(&name);
            let news = known.as_ref().is_none_or(|known| known.report != report);
            if news {
                log_problems(&name, &report.problems);
            }
            // One that was created anew under its name is another.
            let record = match known.filter(|known| known.report.uid == report.uid) {
                Some(mut record) => {
                    if news {
                        record.kept.schedule.hurry(Instant::now());
                    }
                    record.finalizer.seen(report.held);
                    record.report = report;
                    if let Some(event) = record.finalizer_event() {
                        self.news.push((record.regarding(), event));
                    }
                    record
                }
                None => {
                    let left = self.left.remove(&name).unwrap_or_default();
                    PolicyRecord::new(report, left)
                }
            };
            self.policies.insert(name, record);
        }
    }

    fn take_rights(&mut self, name: &str, uid: &str, missing: &[String]) {
        let record = self.policies.get_mut(name);
        let Some(record) = record.filter(|it| *it.report.uid == *uid) else {
            return;
        };
        let lacking = OUTAGE.lacking(missing);
        if record.lacking == lacking {
            return;
        }
        match &lacking {
            Some(lacking) => tracing::warn!(policy = name, "{lacking}"),
            None => tracing::info!(policy = name, "{}", OUTAGE.suffice),
        }
        record.lacking = lacking;
        record.kept.schedule.hurry(Instant::now());
    }

    fn take_event(&mut self, event: Event<PartialObjectMeta<ClusterHealth>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(PartialObjectMeta { metadata, .. }) => {
                if let Some(name) = metadata.name.clone() {
                    self.listed.insert(name, metadata);
                }
            }
            Event::InitDone => {
                let mut listed = std::mem::take(&mut self.listed);
                let names = self.clusters.iter().map(|(name, _)| name.clone());
                let names: Vec<Arc<str>> = names.collect();
                for name in names {
                    self.there_is(&name, listed.remove(&*name).as_ref());
                }
            }
            Event::Apply(PartialObjectMeta { metadata, .. }) => {
                if let Some(name) = &metadata.name {
                    self.there_is(name, Some(&metadata));
                }
            }
            Event::Delete(PartialObjectMeta { metadata, .. }) => {
                if let Some(name) = &metadata.name {
                    self.there_is(name, None);
                }
            }
        }
    }

    /// There is such a ClusterHealth, or none.
    fn there_is(&mut self, name: &str, health: Option<&ObjectMeta>) {
        let Some(mut record) = self.clusters.get_mut(name) else {
            return;
        };
        match health {
            Some(metadata) => record.seen(metadata),
            // We have never written it; but one that is being written may have been created and
            // deleted before the answer came.
            None if record.owner.is_none() && !record.schedule.is_writing() => {}
            None if record.report.is_some() || record.unwanted => record.vanished(),
            // What an earlier run has left of a Cluster that is gone.
            None => {
                drop(record);
                self.clusters.remove(name);
                self.concerns_policies = true;
            }
        }
    }

    /// Sees what the clusters come to: which policies need the finalizer, and whether many fell
    /// silent at once.
    pub(super) fn review(&mut self) {
        if !std::mem::take(&mut self.concerns_policies) {
            return;
        }
        let now = Instant::now();
        let mut silent = BTreeMap::new();
        let mut probed = 0;
        let mut census = Census::default();
        let mut holding: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let mut new: BTreeMap<Arc<str>, Instant> = BTreeMap::new();
        for (name, record) in self.clusters.iter() {
            let Some(summary) = record.summary(now) else {
                continue;
            };
            probed += usize::from(summary.probed);
            census.count(summary.standing);
            census.protected += usize::from(summary.protected);
            census.overdue += usize::from(summary.overdue);
            census.held += usize::from(summary.held);
            census.owed += record.owed();
            silent.extend(record.silent_since.map(|since| (name.clone(), since)));
            let responsible = summary.policy.and_then(|it| self.policies.get(it));
            if let Some(policy) = responsible
                && summary.standing == Standing::Pending
            {
                let first = new.entry(policy.report.name.clone());
                let first = first.or_insert(record.new_until);
                *first = record.new_until.min(*first);
            }
            if let Some(policy) = responsible
                && (summary.protected || policy.report.deleting && !summary.looked_at)
            {
                let policy = policy.report.name.clone();
                holding.entry(policy).or_default().insert(name.clone());
            }
        }
        for (name, policy) in &mut self.policies {
            let mut clusters = holding.remove(name).unwrap_or_default();
            if policy.report.deleting {
                // A loop that has not reported yet has not looked.
                let unreported = policy.report.kept.iter().filter(|kept| {
                    let record = self.clusters.get(kept);
                    record.is_none_or(|record| record.report.is_none())
                });
                clusters.extend(unreported.cloned());
            }
            if policy.holding != clusters {
                policy.holding = clusters;
                policy.kept.schedule.hurry(now);
            }
            policy.look_again = new.remove(name);
            if let Some(at) = policy.look_again {
                policy.kept.schedule.hurry(at);
            }
            if policy.finalizer_change().is_some() {
                policy.finalizer.schedule.hurry(now);
            }
        }
        self.metrics.counted(census);
        self.tell_widespread(widespread(&silent, probed));
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
        for policy in self.policies.values_mut() {
            policy.kept.schedule.hurry(Instant::now());
        }
    }

    /// What is due first, of what is not being written; of all that is due, by its rank. So neither a
    /// finalizer nor a protection waits for the statuses of a thousand clusters, nor any other news for
    /// states that come and go.
    pub(super) fn next(&self) -> Option<(Instant, Object)> {
        let now = Instant::now();
        let finalizers = self.policies.iter().filter_map(|(name, record)| {
            Some((record.finalizer.schedule.due()?, Rank::First, name))
        });
        let policies = self.policies.iter();
        let policies = policies
            .filter_map(|(name, record)| Some((record.kept.schedule.due()?, Rank::News, name)));
        let clusters = self.clusters.soonest(now);
        let clusters = clusters.map(|(due, name, record)| {
            let rank = match () {
                () if record.is_urgent() => Rank::Urgent,
                () if record.is_minor() => Rank::Observed,
                () => Rank::News,
            };
            (due, rank, name)
        });
        // What is not due yet comes in its time, whatever its rank.
        let order = |(due, rank, _): &(Instant, Rank, _)| ((*due).max(now), *rank, *due);
        let soonest = [
            finalizers
                .min_by_key(order)
                .map(|it| (order(&it), Object::Finalizer(it.2.clone()))),
            clusters
                .min_by_key(order)
                .map(|it| (order(&it), Object::Cluster(it.2.clone()))),
            policies
                .min_by_key(order)
                .map(|it| (order(&it), Object::Policy(it.2.clone()))),
        ];
        let soonest = soonest.into_iter().flatten();
        let (order, object) = soonest.min_by_key(|(order, _)| *order)?;
        Some((order.2, object))
    }

    /// How many objects are due to be written and are not being written.
    pub(super) fn due(&self) -> usize {
        let now = Instant::now();
        let policies = self.policies.values().map(|it| it.kept.schedule.due());
        let finalizers = self.policies.values();
        let finalizers = finalizers.map(|record| record.finalizer.schedule.due());
        let all = policies.chain(finalizers).flatten();
        self.clusters.due(now) + all.filter(|due| *due <= now).count()
    }

    /// The status that a policy asks for now; `None` if there is no such policy.
    pub(super) fn policy_status(&self, name: &str) -> Option<ProbePolicyStatus> {
        let record = self.policies.get(name)?;
        let view = policy::View {
            policy: &record.report,
            held: record.finalizer.is_on(),
            holding: &record.holding,
            lacking: record.lacking.as_deref(),
            widespread: self.widespread.as_ref(),
        };
        let now = Instant::now();
        let summary = |name: &str| self.clusters.get(name)?.summary(now);
        let status = &record.kept.status;
        Some(policy::status(&view, summary, status, Timestamp::now()))
    }
}

#[cfg(test)]
mod tests;
