//! Policies, and their clusters in brief: which need the finalizer, and what their statuses say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{
    ClusterReport,
    brief::Brief,
    dependent,
    metrics::HealthMetrics,
    policy::{self, Known},
    status::{is_complete, status},
};
use crate::{
    api::{ClusterHealth, ProbePolicy, ProbePolicyStatus},
    cluster::PolicyView,
    prober::dependents::Event as Met,
    report::{
        desk::Desk,
        events::{Event, kinds::EXEC_TIMEOUT_TOLERATED, regarding},
        object::{Kind, Status},
        writer::Content,
    },
    runtime::watch::Change,
};

/// Policies, and their clusters in brief.
#[derive(Default)]
pub(super) struct Policies {
    policies: BTreeMap<Arc<str>, Known>,
    clusters: BTreeMap<Arc<str>, Brief>,
    /// Statuses that an earlier run has left of policies of which the watch has not told yet.
    left: BTreeMap<Arc<str>, ProbePolicyStatus>,
    metrics: HealthMetrics,
    /// Something has changed that concerns policies.
    is_changed: bool,
}

impl Policies {
    /// Takes up what an earlier run has left.
    pub(super) fn new(
        clusters: Vec<ClusterHealth>,
        left: BTreeMap<Arc<str>, ProbePolicyStatus>,
        metrics: HealthMetrics,
        desk: &mut Desk,
    ) -> Self {
        let mut briefs = BTreeMap::new();
        for health in clusters {
            let Some(name) = health.metadata.name.as_deref().map(Arc::from) else {
                continue;
            };
            let status = health.status.clone().unwrap_or_default();
            briefs.insert(Arc::clone(&name), Brief::of(&status, None));
            desk.left_health(&name, health);
        }
        Self {
            clusters: briefs,
            left,
            metrics,
            ..Self::default()
        }
    }

    /// Takes up all that is known of a cluster.
    pub(super) fn take_cluster(
        &mut self,
        name: &Arc<str>,
        report: &ClusterReport,
        desk: &mut Desk,
    ) {
        let status = status(report);
        let brief = Brief::of(&status, Some(report.looked_at));
        let is_complete = is_complete(&status);
        let status = Status::Cluster(Box::new(status));
        let counts = desk.want(name, &report.uid, status, is_complete);
        if counts && self.clusters.get(name) != Some(&brief) {
            self.clusters.insert(name.clone(), brief);
            self.is_changed = true;
        }
    }

    /// Takes up what was done to a dependent.
    pub(super) fn take_dependent(&self, cluster: &str, met: &Met, desk: &mut Desk) {
        if let Some(event) = dependent::event(met, self.policy_of(cluster)) {
            desk.tell_of(dependent::regarding(cluster, met), event);
        }
    }

    /// A command that a check runs has not ended in time, which was tolerated. Those of several checks of
    /// a policy are not taken for the same.
    pub(super) fn take_tolerated(
        &self,
        name: Arc<str>,
        check: &str,
        message: String,
        desk: &mut Desk,
    ) {
        let check = ObjectReference {
            field_path: Some(format!("spec.checks{{{check}}}")),
            ..regarding::<ProbePolicy>(self.policy_of(&name).unwrap_or_default(), None)
        };
        let event = Event {
            related: Some(Box::new(check)),
            ..Event::new(&EXEC_TIMEOUT_TOLERATED, message)
        };
        desk.tell(&(Kind::ClusterHealth, name), event);
    }

    /// The Cluster is gone, or even no record of it is kept any more.
    pub(super) fn take_gone(&mut self, name: &Arc<str>, unselected: bool, desk: &mut Desk) {
        desk.delete(name, unselected);
        if unselected {
            self.clusters.remove(name);
        }
        self.is_changed = true;
    }

    /// Takes up all policies that there are.
    pub(super) fn take_policies(&mut self, views: Vec<PolicyView>, desk: &mut Desk) {
        self.is_changed = true;
        self.metrics.policies(&views);
        let mut before = std::mem::take(&mut self.policies);
        for view in views {
            let (name, uid) = (view.policy.name.clone(), view.policy.uid.clone());
            // One that was created anew under its name is another.
            let known = before.remove(&name).filter(|it| it.view.policy.uid == uid);
            if known.as_ref().map(|it| it.view.policy.held) != Some(view.policy.held) {
                desk.found_finalizer(&name, &uid, view.policy.held);
            }
            let mut known = match known {
                Some(known) => Known { view, ..known },
                None => Known::new(view),
            };
            if let Some(status) = self.left.remove(&name) {
                known.lacking = policy::recalled(&status);
                desk.left(&name, &uid, Status::Probe(Box::new(status)));
            }
            self.policies.insert(name, known);
        }
        let is_there = |name: &str| self.policies.contains_key(name);
        desk.retain(&[Kind::Finalizer, Kind::ProbePolicy], is_there);
    }

    /// The rights that are missing for the policy with this UID.
    pub(super) fn take_rights(&mut self, name: &str, uid: &str, missing: &[String]) {
        let policy = self.policies.get_mut(name);
        if let Some(policy) = policy.filter(|it| *it.view.policy.uid == *uid) {
            policy.lacking = policy::lacking(missing);
            self.is_changed = true;
        }
    }

    /// Takes up what the watch of ClusterHealths says.
    pub(super) fn take_healths(&mut self, change: Change<ObjectMeta>, desk: &mut Desk) {
        let name = |health: &ObjectMeta| health.name.clone().unwrap_or_default();
        match change {
            Change::All(list) => {
                let mut unlisted: BTreeSet<_> = desk.healths().cloned().collect();
                for health in list {
                    let name = name(&health);
                    unlisted.remove(&*name);
                    desk.seen(&name, Some(&health));
                }
                for name in unlisted {
                    self.take_deletion(&name, desk);
                }
            }
            Change::Put(health) => {
                desk.seen(&name(&health), Some(&health));
            }
            Change::Gone(health) => self.take_deletion(&name(&health), desk),
        }
    }

    /// Takes up that there is no such ClusterHealth any more.
    fn take_deletion(&mut self, name: &str, desk: &mut Desk) {
        // What an earlier run has left of a Cluster that is gone.
        if desk.seen(name, None) {
            self.clusters.remove(name);
            self.is_changed = true;
        }
    }

    fn policy_of(&self, cluster: &str) -> Option<&str> {
        self.clusters.get(cluster)?.policy.as_deref()
    }
}

impl Content for Policies {
    /// Counts the clusters, and makes the statuses of policies.
    fn review(&mut self, desk: &mut Desk) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        self.metrics.counted(&self.clusters);
        let mut of_policies = BTreeMap::<&str, Vec<_>>::new();
        for cluster @ (_, brief) in &self.clusters {
            let policy = brief.policy.as_deref().unwrap_or_default();
            of_policies.entry(policy).or_default().push(cluster);
        }
        for (name, known) in &mut self.policies {
            let view = &known.view;
            let (deleting, uid) = (view.policy.deleting, &view.policy.uid);
            let clusters = of_policies.remove(&**name).unwrap_or_default();
            let holding = clusters.into_iter().filter(|(_, it)| {
                it.protected || it.marked || deleting && it.looked_at != Some(true)
            });
            known.holding = holding.map(|(name, _)| name.clone()).collect();
            if deleting {
                // A loop that has not reported yet has not looked.
                let unreported = view.kept.iter().filter(|kept| {
                    let cluster = self.clusters.get(&***kept);
                    cluster.is_none_or(|it| it.looked_at.is_none())
                });
                known.holding.extend(unreported.cloned());
            }
            // The API server puts none on an object that is being deleted.
            let is_held = !known.holding.is_empty() && (!deleting || view.policy.held);
            desk.want(name, uid, Status::Finalizer(is_held), true);
            let status = policy::status(known, |name| self.clusters.get(name));
            desk.want(name, uid, Status::Probe(Box::new(status)), true);
        }
    }
}
