//! The index: all policies and all clusters, and which belongs to which.
//!
//! Watches change it, one event at a time; each change returns the names of the clusters whose
//! assignment is another now. What it holds is a function of the last state of each object, so
//! neither the order of events nor a repeated list makes a difference; but for one memory: which
//! policy applied last to a cluster that none selects any more, since that one has to let go of it.
//!
//! Nothing is assigned before both kinds have been listed completely once: a cluster whose policy
//! has not been seen yet must not look like one that lost its policy.

mod known;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use kube::{core::DeserializeGuard, runtime::watcher::Event};

use super::{
    assignment::{Assignment, Selected},
    eligibility::skip,
    selection::{Policy, Rules, name, select},
    settings::{Settings, SettingsError},
};
use crate::{
    api::ProbePolicy,
    gardener::{Cluster, ClusterLabels},
};

/// The names of the clusters whose assignment is another than before, those that came or went
/// included.
pub type Changed = BTreeSet<Arc<str>>;

/// All policies and clusters, and what follows from them.
#[derive(Debug, Default)]
pub struct Index {
    policies: BTreeMap<Arc<str>, Policy>,
    clusters: BTreeMap<Arc<str>, Entry>,
    /// Whether all policies have been listed once, and all Clusters.
    policies_listed: bool,
    clusters_listed: bool,
    /// Lists in progress. They take effect as a whole: half a list of policies would assign
    /// clusters to the wrong ones.
    policy_list: Vec<Policy>,
    cluster_list: Vec<Cluster>,
    /// By cluster, the policy that applied last before this process began.
    recalled: BTreeMap<Arc<str>, Arc<str>>,
}

/// A policy, and the clusters that it selects.
#[derive(Debug, PartialEq)]
pub struct PolicyView<'a> {
    /// The policy, with its problems.
    pub policy: &'a Policy,
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
    /// What policies select by, merged once.
    labels: ClusterLabels,
    /// The policy that applied last.
    last: Option<Arc<str>>,
    /// It was let go, so that nobody is responsible any more.
    let_go: bool,
    /// `None` until both kinds have been listed.
    assignment: Option<Assignment>,
}

impl Index {
    /// Remembers this alone from now on: by cluster, the policy that applied last, as far as is known from an
    /// earlier run. The objects stay.
    pub fn recall(&mut self, recalled: BTreeMap<Arc<str>, Arc<str>>) {
        self.recalled = recalled;
        for (name, entry) in &mut self.clusters {
            (entry.last, entry.let_go) = (self.recalled.remove(name), false);
        }
        self.reassign();
    }

    /// Takes up an event of the watch on policies.
    pub fn policy_event(&mut self, event: Event<DeserializeGuard<ProbePolicy>>) -> Changed {
        match event {
            Event::Apply(object) => self.apply_policy(policy(&object)),
            Event::Delete(object) => self.delete_policy(&policy(&object).name),
            Event::Init => {
                self.policy_list.clear();
                Changed::new()
            }
            Event::InitApply(object) => {
                self.policy_list.push(policy(&object));
                Changed::new()
            }
            Event::InitDone => {
                let list = mem::take(&mut self.policy_list);
                self.replace_policies(list)
            }
        }
    }

    /// Takes up an event of the watch on Clusters.
    pub fn cluster_event(&mut self, event: Event<Cluster>) -> Changed {
        match event {
            Event::Apply(cluster) => self.apply_cluster(cluster),
            Event::Delete(cluster) => self.delete_cluster(&name(&cluster.metadata)),
            Event::Init => {
                self.cluster_list.clear();
                Changed::new()
            }
            Event::InitApply(cluster) => {
                self.cluster_list.push(cluster);
                Changed::new()
            }
            Event::InitDone => {
                let list = mem::take(&mut self.cluster_list);
                self.replace_clusters(list)
            }
        }
    }

    /// A policy came or changed. One that differs in nothing that matters here, for instance only
    /// in its status, costs a comparison.
    pub fn apply_policy(&mut self, policy: Policy) -> Changed {
        if self.policies.get(&policy.name) == Some(&policy) {
            return Changed::new();
        }
        self.policies.insert(policy.name.clone(), policy);
        self.reassign()
    }

    /// A policy is gone.
    pub fn delete_policy(&mut self, name: &str) -> Changed {
        let removed = self.policies.remove(name);
        removed.map_or_else(Changed::new, |_| self.reassign())
    }

    /// The policies have been listed: there are no others.
    pub fn replace_policies(&mut self, policies: impl IntoIterator<Item = Policy>) -> Changed {
        let objects = policies
            .into_iter()
            .map(|policy| (policy.name.clone(), policy))
            .collect();
        if mem::replace(&mut self.policies_listed, true) && self.policies == objects {
            return Changed::new();
        }
        self.policies = objects;
        self.reassign()
    }

    /// A Cluster came or changed.
    pub fn apply_cluster(&mut self, cluster: Cluster) -> Changed {
        let name = name(&cluster.metadata);
        let previous = self.clusters.remove(&name);
        let mut entry = self.entry(&name, cluster, previous);
        let changed = self.synced() && entry.refresh(&self.policies);
        self.clusters.insert(name.clone(), entry);
        changed.then_some(name).into_iter().collect()
    }

    /// A Cluster is gone.
    pub fn delete_cluster(&mut self, name: &str) -> Changed {
        let removed = self.clusters.remove_entry(name);
        let assigned = removed.filter(|(_, entry)| entry.assignment.is_some());
        assigned.map(|(name, _)| name).into_iter().collect()
    }

    /// The Clusters have been listed: there are no others.
    pub fn replace_clusters(&mut self, clusters: impl IntoIterator<Item = Cluster>) -> Changed {
        let mut vanished = mem::take(&mut self.clusters);
        for cluster in clusters {
            let name = name(&cluster.metadata);
            let previous = vanished.remove(&name);
            let entry = self.entry(&name, cluster, previous);
            self.clusters.insert(name, entry);
        }
        self.clusters_listed = true;
        let mut changed = self.reassign();
        let gone = vanished.into_iter();
        let assigned = gone.filter(|(_, entry)| entry.assignment.is_some());
        changed.extend(assigned.map(|(name, _)| name));
        changed
    }

    /// This cluster has been let go: which policy applied last makes no difference any more.
    pub fn forget(&mut self, cluster: &str) {
        if let Some(entry) = self.clusters.get_mut(cluster) {
            entry.last = None;
            entry.let_go = true;
            entry.refresh(&self.policies);
        }
    }

    /// What the objects say of a cluster; `None` if there is no such Cluster, or not yet.
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
    pub fn policy_view(&self, policy: &str) -> Option<PolicyView<'_>> {
        let policy = self.policies.get(policy)?;
        let mut view = PolicyView {
            policy,
            selected: vec![],
            kept: vec![],
            lost: BTreeMap::new(),
        };
        for (cluster, assignment) in self.assignments() {
            let Some(selected) = &assignment.selected else {
                let former = assignment.former.as_ref();
                if former.is_some_and(|it| it.policy == policy.name) {
                    view.kept.push(cluster.clone());
                }
                continue;
            };
            if selected.policy == policy.name {
                view.selected.push(cluster.clone());
            } else if selected.outranked.contains(&policy.name) {
                view.lost
                    .entry(selected.policy.clone())
                    .or_default()
                    .push(cluster.clone());
            }
        }
        Some(view)
    }

    fn entry(&mut self, name: &str, cluster: Cluster, previous: Option<Entry>) -> Entry {
        let recalled = self.recalled.remove(name);
        let (last, let_go, assignment) = match previous {
            Some(previous) => (previous.last, previous.let_go, previous.assignment),
            None => (recalled, false, None),
        };
        Entry {
            labels: cluster.labels(),
            cluster,
            last,
            let_go,
            assignment,
        }
    }

    fn reassign(&mut self) -> Changed {
        if !self.synced() {
            return Changed::new();
        }
        // What is left of it is about Clusters that are gone; one that comes under the name of one of
        // them is another.
        self.recalled.clear();
        let mut changed = Changed::new();
        for (name, entry) in &mut self.clusters {
            if entry.refresh(&self.policies) {
                changed.insert(name.clone());
            }
        }
        changed
    }
}

impl Entry {
    /// Assigns the cluster anew and tells whether that made a difference. If it made none, the
    /// previous value stays, so that its `Arc`s stay the same.
    fn refresh(&mut self, policies: &BTreeMap<Arc<str>, Policy>) -> bool {
        // It may still select the cluster, and may be suspended: no other acts in its place meanwhile.
        let last = self.last.as_ref().and_then(|last| policies.get(last));
        let unreadable = last.filter(|last| last.hold.undecodable && !last.deleting);
        let selection = select(policies.values(), &self.labels);
        let selected = selection.map(|selection| match unreadable {
            Some(last) => Selected {
                policy: last.name.clone(),
                hold: last.hold,
                settings: Err(in_the_way(last)),
                outranked: names([selection.policy].into_iter().chain(selection.outranked)),
            },
            None => Selected {
                policy: selection.policy.clone(),
                hold: selection.hold,
                settings: settings(selection.rules, &self.cluster),
                outranked: names(selection.outranked),
            },
        });
        if let Some(selected) = &selected {
            self.last = Some(selected.policy.clone());
            self.let_go = false;
        }
        let held = || held_by(policies, &self.labels).filter(|_| !self.let_go);
        let former = self.last.as_ref().or_else(held);
        let former = former.filter(|_| selected.is_none());
        let uid = self.cluster.metadata.uid.as_deref();
        let assignment = Assignment {
            uid: uid.unwrap_or_default().into(),
            skip: skip(&self.cluster),
            selected,
            former: former.and_then(|last| former_of(policies, last, &self.cluster)),
        };
        if self.assignment.as_ref() == Some(&assignment) {
            return false;
        }
        self.assignment = Some(assignment);
        true
    }
}

/// A policy that is being deleted and is held by something that it protects, which may be this
/// cluster, although no record tells. Of several, the one that applied before they were deleted.
fn held_by<'a>(
    policies: &'a BTreeMap<Arc<str>, Policy>,
    labels: &ClusterLabels,
) -> Option<&'a Arc<str>> {
    let held = policies
        .values()
        .filter(|policy| policy.deleting && policy.held);
    let selecting = held.filter_map(|policy| {
        let rules = policy.rules.as_ref()?;
        rules.selects(labels).then_some((policy, rules))
    });
    let first = selecting.min_by_key(|(policy, rules)| policy.rank(rules));
    first.map(|(policy, _)| &policy.name)
}

/// The policy of this name, whether or not it selects the cluster; `None` if it is gone.
fn former_of(
    policies: &BTreeMap<Arc<str>, Policy>,
    name: &str,
    cluster: &Cluster,
) -> Option<Selected> {
    let policy = policies.get(name)?;
    Some(Selected {
        policy: policy.name.clone(),
        hold: policy.hold,
        settings: match &policy.rules {
            Some(rules) => settings(rules, cluster),
            None => Err(in_the_way(policy)),
        },
        outranked: vec![],
    })
}

fn names<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> Vec<Arc<str>> {
    names.into_iter().cloned().collect()
}

/// What is wrong with a policy by which a cluster would be judged.
fn in_the_way(policy: &Policy) -> SettingsError {
    SettingsError::Policy {
        policy: policy.name.clone(),
        problems: policy.problems().join("; "),
    }
}

fn settings(rules: &Rules, cluster: &Cluster) -> Result<Arc<Settings>, SettingsError> {
    rules.template.settings(cluster).map(Arc::new)
}

fn policy(object: &DeserializeGuard<ProbePolicy>) -> Policy {
    match &object.0 {
        Ok(policy) => Policy::new(policy),
        Err(invalid) => Policy::unreadable(invalid),
    }
}

#[cfg(test)]
mod tests;
