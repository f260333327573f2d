//! What the operator's record, the ClusterHealth, says of the cluster.

use std::time::Duration;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::{SignedDuration, Timestamp},
};
use serde::Serialize;

use crate::{
    api::{
        CheckStatus, ClusterHealthStatus, ClusterState, LastAction, LeaseCounts, Protection,
        UnhealthyNode,
    },
    prober::finding::{WIDESPREAD, is_held_back},
    status::REFRESH,
};

/// A record may be so much older than it should become before it is called stale.
const SLACK: Duration = Duration::from_secs(60);

/// What the ClusterHealth says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether the dependents are scaled down.
    pub protection: Protection,
    /// Since when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_since: Option<Time>,
    /// The finding in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was seen and done and comes next, in the operator's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The leases at the last verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,
    /// Its state, as it was observed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// What the checks of its policy, and the looks at its providers of metrics, have come to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckStatus>,
    /// When the cluster was last probed; may lag by a quarter of an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// Whether it should have been refreshed by now, so that nobody seems to keep it.
    pub stale: bool,
    /// Whether what was found is deliberately not acted on at present.
    pub held_back: bool,
    /// The same, since a Trigger fails in many clusters at the same time.
    pub widespread: bool,
    /// What was last done to the dependents, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastAction>,
    /// The policy that applied when it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Why the cluster was not probed then, or only until it is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Whether it was not probed.
    #[serde(skip)]
    pub(super) is_skipped: bool,
    /// What somebody must look at: the cluster cannot be judged, dependents are not where they should
    /// be, or it is protected for too long.
    pub trouble: Vec<Trouble>,
}

/// The state of a cluster, as its ClusterHealth shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// The state.
    pub state: ClusterState,
    /// Why, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Nodes that are as they should be, of all, and those under each pressure; absent until they were
    /// seen.
    #[serde(flatten)]
    pub nodes: Option<NodeTable>,
    /// The first that are not as they should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_nodes: Vec<UnhealthyNode>,
}

/// The health of nodes, by the fields of a ClusterHealth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTable {
    /// Such as 3/3.
    pub nodes: String,
    /// Such as 0/3.
    pub nodes_pid_pressure: String,
    /// Such as 0/3.
    pub nodes_memory_pressure: String,
    /// Such as 0/3.
    pub nodes_disk_pressure: String,
}

/// A condition that tells of trouble.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// In one word.
    pub reason: String,
    /// As a sentence.
    pub message: String,
}

impl Record {
    /// Whether its time is so old that it would be taken for that of the last probe.
    pub(super) fn lags(&self, now: Timestamp) -> bool {
        let probed = self.last_probe_time.as_ref();
        let probed = probed.filter(|_| !self.is_skipped);
        probed.is_some_and(|probed| now.duration_since(probed.0) > SignedDuration::from_mins(1))
    }

    pub(super) fn new(status: &ClusterHealthStatus, now: Timestamp) -> Self {
        let mut conditions = status.conditions.iter();
        let protecting = conditions.find(|it| it.type_ == "Protecting");
        let protecting = protecting.map(|it| &*it.reason);
        Self {
            protection: status.protection,
            protected_since: status.protected_since.clone(),
            reason: status.reason.clone(),
            message: status.message.clone(),
            leases: status.leases,
            observed: observed(status),
            checks: status.checks.clone(),
            last_probe_time: status.last_probe_time.clone(),
            stale: is_stale(status, now),
            held_back: protecting.is_some_and(is_held_back),
            widespread: protecting == Some(WIDESPREAD),
            last_action: status.last_action.clone(),
            policy: status.policy.clone(),
            skipped: status.skipped.clone(),
            is_skipped: status.is_skipped(),
            trouble: trouble(&status.conditions, &["ProtectedTooLong", "Degraded"]),
        }
    }
}

/// Whether the record should have been refreshed by now, so that no operator seems to keep it.
pub(crate) fn is_stale(status: &ClusterHealthStatus, now: Timestamp) -> bool {
    let due = SignedDuration::try_from(REFRESH + SLACK).unwrap_or(SignedDuration::MAX);
    let probed = status.last_probe_time.as_ref();
    // One that is not probed has no time that would be refreshed.
    !status.is_skipped() && probed.is_some_and(|probed| now.duration_since(probed.0) > due)
}

fn observed(status: &ClusterHealthStatus) -> Option<Observed> {
    let table = || {
        Some(NodeTable {
            nodes: status.nodes.clone()?,
            nodes_pid_pressure: status.nodes_pid_pressure.clone()?,
            nodes_memory_pressure: status.nodes_memory_pressure.clone()?,
            nodes_disk_pressure: status.nodes_disk_pressure.clone()?,
        })
    };
    Some(Observed {
        state: status.state?,
        message: status.state_message.clone(),
        since: status.last_state_transition_time.clone(),
        nodes: table(),
        unhealthy_nodes: status.unhealthy_nodes.clone(),
    })
}

/// Those of these types that are true.
pub(super) fn trouble(conditions: &[Condition], types: &[&str]) -> Vec<Trouble> {
    let of = |kind: &&str| conditions.iter().find(|it| it.type_ == **kind);
    let found = types.iter().filter_map(of).filter(|it| it.status == "True");
    found
        .map(|it| Trouble {
            reason: it.reason.clone(),
            message: it.message.clone(),
        })
        .collect()
}
