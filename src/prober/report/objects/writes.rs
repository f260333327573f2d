//! What is to be written next, and what has come of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::{
    super::{
        policy,
        record::{Rank, Said, Written},
        summary::Standing,
    },
    Objects,
};
use crate::{
    api::ProbePolicyStatus,
    runtime::seed::Seed,
    status::{
        events::Event,
        request::{Applied, WriteError, complain, delete, set_finalizer, write_health},
        writer::{Content, Next, Write, write},
    },
    util::now::wall,
};

/// What can be written.
#[derive(Clone, Copy)]
pub(in crate::prober::report) enum Kind {
    Finalizer,
    Cluster,
    Policy,
}

impl Content for Objects {
    type Object = (Kind, Arc<str>);

    const CONTROLLER: &'static str = "dependency-watchdog-prober";

    /// Counts the clusters, and finds the policies that need the finalizer.
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
        let mut of_policies: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for cluster @ (.., summary) in &clusters {
            let policy = summary.policy.unwrap_or_default();
            of_policies.entry(policy).or_default().push(cluster);
        }
        for policy in self.policies.0.values_mut() {
            let deleting = policy.report.deleting;
            let clusters = of_policies.remove(&*policy.report.name).unwrap_or_default();
            let holding = clusters.iter();
            let holding =
                holding.filter(|(.., it)| it.protected || it.marked || deleting && !it.looked_at);
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

impl Objects {
    /// The status that a policy asks for now; `None` if there is no such policy.
    pub(super) fn policy_status(&self, name: &str) -> Option<ProbePolicyStatus> {
        let policy = self.policies.0.get(name)?;
        let (time, now) = (wall(), Instant::now());
        let summary = |name: &str| self.clusters.get(name)?.summary(now);
        Some(policy::status(policy, summary, time))
    }

    fn write_cluster(&mut self, seed: &Seed, name: &Arc<str>) -> Option<Write<Self>> {
        const KIND: &str = "ClusterHealth";
        let record = &self.clusters.get(name)?.record;
        // Writes that were begun before it may be waiting for their turns.
        let seed = match record.rank() {
            Rank::Urgent => seed.acting(),
            _ => seed.clone(),
        };
        let (about, name) = (name.clone(), name.clone());
        if record.unwanted {
            self.edit(&name, |cluster| cluster.record.schedule.begin());
            let request = async move { delete(&seed, &about).await };
            let then = move |objects: &mut Self, result| objects.cluster_deleted(&name, result);
            return Some(write(KIND, request, then));
        }
        let written = self.edit(&name, |cluster| cluster.record.begin())??;
        let Said { report, status } = &written.wanted;
        let (uid, status) = (report.uid.clone(), status.clone());
        let established = written.was_established;
        let request = async move { write_health(&seed, &about, &uid, established, &status).await };
        let then =
            move |objects: &mut Self, result| objects.cluster_written(&name, written, result);
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
            |objects: &mut Self| &mut objects.policies,
            |objects: &mut Self, events| {
                objects.concerns_policies = true;
                objects.news.extend(events);
            },
        )
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
            move |objects: &mut Self, result| {
                objects.finalizer_written(&name, &uid, on, result);
            },
        ))
    }

    pub(super) fn cluster_written(&mut self, name: &str, written: Written, result: Applied) {
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
