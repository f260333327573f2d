//! The index: all policies and all clusters, and which belongs to which.
//!
//! Watches change it; each change returns the names of the clusters whose
//! assignment is another now. What it holds is a function of the last state of each object, so
//! neither the order of events nor a repeated list makes a difference; but for one memory: which
//! policy applied last to a cluster that none selects any more, since that one has to let go of it.
//!
//! Nothing is assigned before both kinds have been listed completely once: a cluster whose policy
//! has not been seen yet must not look like one that lost its policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    assignment::{Assignment, Selected},
    eligibility::skip,
    selection::{Policy, name, ranked},
    settings::SettingsError,
};
use crate::{gardener::Cluster, runtime::watch::Change};

/// The names of the clusters whose assignment is another than before, those that came or went
/// included.
pub type Changed = BTreeSet<Arc<str>>;

type Policies = BTreeMap<Arc<str>, Policy>;

/// All policies and clusters, and what follows from them.
#[derive(Debug, Default)]
pub struct Index {
    policies: Policies,
    clusters: BTreeMap<Arc<str>, Entry>,
    /// All policies have been listed once, and all Clusters.
    policies_listed: bool,
    clusters_listed: bool,
    /// The policy that applied last before this process began, by cluster.
    recalled: BTreeMap<Arc<str>, Arc<str>>,
}

/// A policy, and the clusters that it selects.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyView {
    /// The policy, with its problems.
    pub policy: Policy,
    /// The clusters to which it applies.
    pub selected: Vec<Arc<str>>,
    /// The clusters that no policy selects any more, and this one did last.
    pub kept: Vec<Arc<str>>,
    /// The clusters that it selects in vain, by the policy that applies to them.
    pub lost: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

#[derive(Debug)]
struct Entry {
    cluster: Cluster,
    /// The policy that applied last, as far as is known; an empty name, which none has, once the cluster was let go.
    last: Option<Arc<str>>,
    /// `None` until both kinds have been listed.
    assignment: Option<Assignment>,
}

impl Index {
    /// Remembers this alone from now on: by cluster, the policy that applied last, as far as is known from an
    /// earlier run. The objects stay.
    pub fn recall(&mut self, recalled: BTreeMap<Arc<str>, Arc<str>>) {
        self.recalled = recalled;
        for (name, entry) in &mut self.clusters {
            entry.last = self.recalled.remove(name);
        }
        self.reassign();
    }

    /// Takes up a change of the policies.
    pub fn policies_changed(&mut self, change: Change<Policy>) -> Changed {
        match change {
            Change::All(list) => {
                self.policies = list.into_iter().map(|it| (it.name.clone(), it)).collect();
                self.policies_listed = true;
            }
            // One that differs in its status alone costs a comparison.
            Change::Put(policy) if self.policies.get(&policy.name) == Some(&policy) => {
                return Changed::new();
            }
            Change::Put(policy) => drop(self.policies.insert(policy.name.clone(), policy)),
            Change::Gone(policy) => drop(self.policies.remove(&policy.name)),
        }
        self.reassign()
    }

    /// Takes up a change of the Clusters.
    pub fn clusters_changed(&mut self, change: Change<Cluster>) -> Changed {
        match change {
            Change::All(list) => {
                let listed: BTreeSet<_> = list.into_iter().map(|it| self.put(it)).collect();
                self.clusters_listed = true;
                let is_gone = |name: &Arc<str>, _: &mut Entry| !listed.contains(name);
                let gone = self.clusters.extract_if(.., is_gone);
                let gone: Changed = gone.map(|(name, _)| name).collect();
                &self.reassign() | &gone
            }
            Change::Put(cluster) => {
                let name = self.put(cluster);
                let synced = self.synced();
                let entry = self.clusters.get_mut(&name).filter(|_| synced);
                let changed = entry.is_some_and(|entry| entry.refresh(&self.policies));
                changed.then_some(name).into_iter().collect()
            }
            Change::Gone(cluster) => {
                let gone = self.clusters.remove_entry(&name(&cluster.metadata));
                gone.into_iter().map(|(name, _)| name).collect()
            }
        }
    }

    /// This cluster has been let go: which policy applied last makes no difference any more.
    pub fn forget(&mut self, cluster: &str) {
        if let Some(entry) = self.clusters.get_mut(cluster) {
            entry.last = Some(Arc::default());
            entry.refresh(&self.policies);
        }
    }

    /// Returns what the objects say of a cluster; `None` if there is no such Cluster, or not yet.
    pub fn assignment(&self, cluster: &str) -> Option<&Assignment> {
        self.clusters.get(cluster)?.assignment.as_ref()
    }

    /// All assignments, by the name of the cluster.
    pub fn assignments(&self) -> impl Iterator<Item = (&Arc<str>, &Assignment)> {
        let entries = self.clusters.iter();
        entries.filter_map(|(name, entry)| Some((name, entry.assignment.as_ref()?)))
    }

    /// All policies, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// A policy with the clusters that it selects, and those that it lost to others.
    pub fn policy_view(&self, policy: &str) -> Option<PolicyView> {
        let policy = self.policies.get(policy)?;
        let mut view = PolicyView {
            policy: policy.clone(),
            selected: vec![],
            kept: vec![],
            lost: BTreeMap::new(),
        };
        for (cluster, assignment) in self.assignments() {
            let (selected, former) = (&assignment.selected, &assignment.former);
            if selected.as_ref().is_some_and(|it| it.policy == policy.name) {
                view.selected.push(cluster.clone());
            } else if former.as_ref().is_some_and(|it| it.policy == policy.name) {
                view.kept.push(cluster.clone());
            } else if let Some(other) = selected
                && other.outranked.contains(&policy.name)
            {
                let lost = view.lost.entry(other.policy.clone()).or_default();
                lost.push(cluster.clone());
            }
        }
        Some(view)
    }

    /// Returns whether policies and Clusters have both been listed; nothing is assigned before.
    pub fn synced(&self) -> bool {
        self.policies_listed && self.clusters_listed
    }

    /// The `metadata.resourceVersion` of a Cluster to which a policy applies, and the name of that.
    pub fn version(&self, cluster: &str) -> Option<(String, Arc<str>)> {
        let entry = self.clusters.get(cluster)?;
        let selected = entry.assignment.as_ref()?.selected.as_ref()?;
        let version = entry.cluster.metadata.resource_version.clone();
        Some((version.unwrap_or_default(), selected.policy.clone()))
    }

    /// Returns whether this Cluster is the one that is known, and comes to the same.
    pub fn is_as_known(&self, cluster: &Cluster) -> bool {
        let known = self.clusters.get(&name(&cluster.metadata));
        known.is_some_and(|known| {
            let read = assign(cluster, known.last.as_ref(), &self.policies);
            known.assignment.as_ref() == Some(&read)
        })
    }

    /// Tells whether the policy with this metadata is known, and says the same. Its status makes no difference.
    pub fn is_policy_as_known(&self, metadata: &ObjectMeta) -> bool {
        let known = self.policies.get(&name(metadata));
        known.is_some_and(|known| {
            metadata.uid.as_deref().unwrap_or_default() == &*known.uid
                && metadata.generation.unwrap_or_default() <= known.generation
                && metadata.deletion_timestamp.is_some() <= known.deleting
        })
    }

    /// Stores a Cluster, of which it remembers what it did of one of the same name.
    fn put(&mut self, cluster: Cluster) -> Arc<str> {
        let name = name(&cluster.metadata);
        if let Some(known) = self.clusters.get_mut(&name) {
            known.cluster = cluster;
        } else {
            let entry = Entry {
                cluster,
                last: self.recalled.remove(&name),
                assignment: None,
            };
            self.clusters.insert(name.clone(), entry);
        }
        name
    }

    fn reassign(&mut self) -> Changed {
        if !self.synced() {
            return Changed::new();
        }
        // What is left of it is about Clusters that are gone; one that comes under the name of one of
        // them is another.
        self.recalled.clear();
        let clusters = self.clusters.iter_mut();
        let changed = clusters
            .filter_map(|(name, entry)| entry.refresh(&self.policies).then(|| name.clone()));
        changed.collect()
    }
}

impl Entry {
    /// Assigns the cluster anew and returns whether that made a difference. If it made none, the
    /// previous value stays, so that its `Arc`s stay the same.
    fn refresh(&mut self, policies: &Policies) -> bool {
        let assignment = assign(&self.cluster, self.last.as_ref(), policies);
        if let Some(selected) = &assignment.selected {
            self.last = Some(selected.policy.clone());
        }
        let changed = self.assignment.as_ref() != Some(&assignment);
        if changed {
            self.assignment = Some(assignment);
        }
        changed
    }
}

/// Assigns a cluster to the policies that select it, or else to the one of this name, which applied last.
fn assign(cluster: &Cluster, last: Option<&Arc<str>>, policies: &Policies) -> Assignment {
    let recent = last.and_then(|last| policies.get(last));
    // It may still select the cluster, and may be suspended: no other acts in its place meanwhile.
    let unreadable = recent.filter(|last| last.hold.undecodable && !last.deleting);
    let selecting = policies.values().filter(|policy| !policy.deleting);
    let selecting = ranked(selecting, cluster);
    let first = unreadable.filter(|_| !selecting.is_empty());
    let mut selecting = first.into_iter().chain(selecting);
    let selected = selecting.next().map(|policy| Selected {
        outranked: selecting.map(|policy| policy.name.clone()).collect(),
        ..by(policy, cluster)
    });
    let former = recent.or_else(|| {
        // It may be held by this cluster, although no record tells.
        let held = policies.values().filter(|it| it.deleting && it.held);
        ranked(held.filter(|_| last.is_none()), cluster)
            .into_iter()
            .next()
    });
    let former = former.filter(|_| selected.is_none());
    Assignment {
        uid: cluster.metadata.uid.as_deref().unwrap_or_default().into(),
        skip: skip(cluster),
        former: former.map(|policy| by(policy, cluster)),
        selected,
    }
}

/// Assigns the cluster to this policy, whether or not that selects it.
fn by(policy: &Policy, cluster: &Cluster) -> Selected {
    let settings = match &policy.rules {
        Some(rules) => rules.settings.for_cluster(cluster).map(Arc::new),
        None => Err(SettingsError::Policy(format!(
            "the policy {} is not valid, and nothing is scaled until it is: {}",
            policy.name,
            policy.problems.join("; ")
        ))),
    };
    Selected {
        policy: policy.name.clone(),
        hold: policy.hold,
        settings,
        outranked: vec![],
    }
}

#[cfg(test)]
mod tests;
