//! The writer of the prober: ClusterHealths, the statuses of ProbePolicies and their finalizer, and
//! events. No other task writes these.
//!
//! A status that says nothing new is not written, except for a refresh now and then, by which a
//! reader can tell a record that nobody keeps any more.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{ClusterReport, HealthMetrics, policies::Policies};
use crate::{
    api::{ClusterHealth, ProbePolicyStatus},
    cluster::PolicyView,
    prober::dependents::Event as Met,
    report::{
        desk::Desk,
        writer::{Sender, Writer, send},
    },
    runtime::{health::Health, seed::Seed, watch::Change},
};

/// The name of the controller in events.
const CONTROLLER: &str = "dependency-watchdog-prober";

/// Hands reports to the writer. Never blocks.
#[derive(Clone, Debug)]
pub struct Reporter(pub(super) Sender<Policies>);

/// Objects that an earlier run has left: the ClusterHealths, and the statuses of the ProbePolicies by name.
pub type Left = (Vec<ClusterHealth>, BTreeMap<Arc<str>, ProbePolicyStatus>);

impl Reporter {
    /// The writer, and who hands it reports, with what an earlier run has left.
    pub fn new(
        seed: Seed,
        (clusters, policies): Left,
        metrics: HealthMetrics,
        health: Health,
    ) -> (Writer, Self) {
        let counts = metrics.writer.clone();
        let mut desk = Desk::new(counts.events.clone());
        let policies = Policies::new(clusters, policies, metrics, &mut desk);
        let (writer, sender) = Writer::new(seed, CONTROLLER, policies, desk, counts, health);
        (writer, Self(sender))
    }

    /// Reports all that is known of this cluster.
    pub fn cluster(&self, name: &Arc<str>, report: ClusterReport) {
        let name = name.clone();
        send(&self.0, move |all, desk| {
            all.take_cluster(&name, &report, desk)
        });
    }

    /// Reports what was done to a dependent of this cluster, or is amiss with it.
    pub fn dependent(&self, cluster: &Arc<str>, met: Met) {
        let cluster = cluster.clone();
        send(&self.0, move |all, desk| {
            all.take_dependent(&cluster, &met, desk)
        });
    }

    /// A command that this check of the cluster runs has not ended in time, which the feature gate
    /// ExecProbeTimeout has tolerated. Each call is told, so this is for the caller to limit.
    pub fn exec_tolerated(&self, cluster: &Arc<str>, check: String, message: String) {
        let name = cluster.clone();
        send(&self.0, move |all, desk| {
            all.take_tolerated(name, &check, message, desk)
        });
    }

    /// Reports that this Cluster is gone, and its ClusterHealth is deleted; what is owed to it keeps its policy all
    /// the same, until nobody keeps a record of it any more.
    pub fn cluster_gone(&self, name: &Arc<str>) {
        let name = name.clone();
        send(&self.0, move |all, desk| all.take_gone(&name, false, desk));
    }

    /// Reports that nobody keeps a record of this cluster any more: its ClusterHealth is deleted.
    pub fn cluster_unselected(&self, name: &Arc<str>) {
        let name = name.clone();
        send(&self.0, move |all, desk| all.take_gone(&name, true, desk));
    }

    /// Reports all policies that there are.
    pub fn policies(&self, policies: Vec<PolicyView>) {
        send(&self.0, |all, desk| all.take_policies(policies, desk));
    }

    /// The rights that the operator lacks for what the policy of this UID needs in an outage.
    pub fn rights(&self, policy: &Arc<str>, uid: &Arc<str>, missing: Vec<String>) {
        let (policy, uid) = (policy.clone(), uid.clone());
        send(&self.0, move |all, _| {
            all.take_rights(&policy, &uid, &missing)
        });
    }

    /// Takes a change of the ClusterHealths: one that somebody deletes is created anew, one with
    /// another owner than its Cluster is given that one.
    pub fn cluster_healths(&self, change: Change<ObjectMeta>) {
        send(&self.0, |all, desk| all.take_healths(change, desk));
    }
}
