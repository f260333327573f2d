//! What is handed to the writer, and by whom: loops, the fleet, who asks for rights, and the watch of
//! ClusterHealths.

use std::{collections::BTreeMap, sync::Arc};

use kube::{core::PartialObjectMeta, runtime::watcher::Event};
use tokio::sync::mpsc::UnboundedSender;

use super::{ClusterReport, events::dependent::DependentNews, policy::PolicyReport};
use crate::api::{ClusterHealth, ProbePolicyStatus};

/// What an earlier run has left in statuses.
#[derive(Debug, Default)]
pub struct Known {
    /// The ClusterHealths that there are.
    pub clusters: Vec<ClusterHealth>,
    /// The statuses of the ProbePolicies, by name.
    pub policies: BTreeMap<Arc<str>, ProbePolicyStatus>,
}

/// Hands reports to the writer. Never blocks.
#[derive(Clone, Debug)]
pub struct Reporter(pub(super) UnboundedSender<Update>);

/// One of these.
#[derive(Debug)]
pub(super) enum Update {
    Cluster(Arc<str>, Box<ClusterReport>),
    Dependent(Arc<str>, Box<DependentNews>),
    /// The cluster, the check, and what there is to say.
    ExecTolerated(Arc<str>, String, String),
    ClusterUnselected(Arc<str>),
    ClusterGone(Arc<str>),
    Policies(Vec<PolicyReport>),
    Rights(Arc<str>, Arc<str>, Vec<String>),
    ClusterHealth(Box<Event<PartialObjectMeta<ClusterHealth>>>),
}

impl Reporter {
    /// All that is known of this cluster.
    pub fn cluster(&self, name: &Arc<str>, report: ClusterReport) {
        self.send(Update::Cluster(name.clone(), Box::new(report)));
    }

    /// What was done to a dependent of this cluster, or is amiss with it.
    pub fn dependent(&self, cluster: &Arc<str>, news: DependentNews) {
        self.send(Update::Dependent(cluster.clone(), Box::new(news)));
    }

    /// A command that this check of the cluster runs has not ended in time, which the feature gate
    /// ExecProbeTimeout has tolerated. Each call is told, so this is for the caller to limit.
    pub fn exec_tolerated(&self, cluster: &Arc<str>, check: String, message: String) {
        self.send(Update::ExecTolerated(cluster.clone(), check, message));
    }

    /// This Cluster is gone, and its ClusterHealth is deleted; what is owed to it keeps its policy all
    /// the same, until nobody keeps a record of it any more.
    pub fn cluster_gone(&self, name: &Arc<str>) {
        self.send(Update::ClusterGone(name.clone()));
    }

    /// Nobody keeps a record of this cluster any more: its ClusterHealth is deleted.
    pub fn cluster_unselected(&self, name: &Arc<str>) {
        self.send(Update::ClusterUnselected(name.clone()));
    }

    /// All policies that there are.
    pub fn policies(&self, policies: Vec<PolicyReport>) {
        self.send(Update::Policies(policies));
    }

    /// The rights that the operator lacks for what the policy of this UID needs in an outage.
    pub fn rights(&self, policy: &Arc<str>, uid: &Arc<str>, missing: Vec<String>) {
        self.send(Update::Rights(policy.clone(), uid.clone(), missing));
    }

    /// What the watch of ClusterHealths tells: one that somebody deletes is created anew, one with
    /// another owner than its Cluster is given that one.
    pub fn cluster_health(&self, event: Event<PartialObjectMeta<ClusterHealth>>) {
        self.send(Update::ClusterHealth(Box::new(event)));
    }

    /// One that tells nobody but a test, in words.
    #[cfg(test)]
    pub(crate) fn tapped() -> (Self, impl FnMut() -> Option<String>) {
        let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
        let told = move || Some(format!("{:?}", updates.try_recv().ok()?));
        (Self(sender), told)
    }

    fn send(&self, update: Update) {
        // The writer ends only with the process.
        let _ = self.0.send(update);
    }
}
