//! `ClusterHealth`: the operator's record of one cluster, written by it and read by people.
//!
//! It says what was seen and done and why, and holds what must survive a restart or the end of
//! the policy: which dependents are owed how many replicas, and how they are put back.

use super::condition::conditions_schema;
use super::{DependentRef, Duration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the dependents of a cluster are scaled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protection {
    /// They are as their owner wants them.
    #[default]
    None,
    /// They are being scaled down.
    ScalingDown,
    /// They are scaled down.
    Active,
    /// They are being scaled back.
    Restoring,
}

/// What the operator did to the dependents of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// It scaled them down.
    ScaledDown,
    /// It scaled them back.
    Restored,
    /// It took its marks off them and left their replicas as they were.
    Released,
}

/// What the operator did last to the dependents of a cluster, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastAction {
    /// When it was done.
    pub time: Time,

    /// What was done: ScaledDown, Restored or Released.
    pub action: Action,

    /// Which dependents it was done to, and why, as a sentence for people.
    pub message: String,
}

/// Empty: a ClusterHealth is written by the operator alone, and all of it is status.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "dependency-watchdog.gardener.cloud",
    version = "v1alpha1",
    kind = "ClusterHealth",
    plural = "clusterhealths",
    shortname = "ch",
    category = "dwd",
    status = "ClusterHealthStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterHealth is the operator's record of the cluster of the same name: what it sees, \
           what it did, what it owes, and why. It is written by the operator alone.",
    printcolumn(
        name = "Protection",
        type_ = "string",
        json_path = ".status.protection",
        description = "Whether dependents of the cluster are scaled down."
    ),
    printcolumn(
        name = "Policy",
        type_ = "string",
        json_path = ".status.policy",
        description = "The ProbePolicy that applies."
    ),
    printcolumn(
        name = "Expired",
        type_ = "integer",
        json_path = ".status.leases.expired",
        description = "Node leases that count and are expired."
    ),
    printcolumn(
        name = "Leases",
        type_ = "integer",
        json_path = ".status.leases.candidates",
        description = "Node leases that count."
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why the cluster is protected or not."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the cluster is selected."
    ),
    printcolumn(
        name = "Protected",
        type_ = "date",
        json_path = ".status.protectedSince",
        description = "For how long dependents of the cluster have been scaled down.",
        priority = 1
    ),
    printcolumn(
        name = "Skipped",
        type_ = "string",
        json_path = ".status.skipped",
        description = "Why the cluster is not probed.",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        description = "Why the cluster is protected or not, in words.",
        priority = 1
    )
)]
pub struct ClusterHealthSpec {}

/// The leases of a cluster's nodes at the last verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseCounts {
    /// Leases of the nodes that count.
    #[schemars(range(min = 0))]
    pub candidates: i32,
    /// Leases that count and are expired.
    #[schemars(range(min = 0))]
    pub expired: i32,
    /// Leases that count and whose age cannot be told.
    #[schemars(range(min = 0))]
    pub unknown: i32,
}

/// Enough to restore a dependent when its policy is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependentStatus {
    /// The resource, in the namespace of the cluster's control plane.
    pub r#ref: DependentRef,

    /// The replicas found before it was scaled to zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub recorded_replicas: Option<i32>,

    /// Whether it was scaled down by the operator and is not yet really back.
    #[serde(default)]
    pub owed: bool,

    /// Its place in the order of a scale-up: the lowest level comes first.
    #[schemars(range(min = 0))]
    pub level: i32,

    /// How long a scale-up waits before it.
    pub initial_delay: Duration,

    /// How long a scale-up waits for it to be really back.
    pub timeout: Duration,
}

/// What the operator sees of a cluster, did to it, and owes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterHealthStatus {
    /// Whether dependents are scaled down: None, ScalingDown, Active or Restoring.
    #[serde(default)]
    pub protection: Protection,

    /// The responsible ProbePolicy: the one that applies, or, of a cluster that none selects any
    /// more, the one that has yet to let go of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// Why the cluster is not probed. Absent while it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,

    /// The leases of the cluster's nodes at the last verdict. Absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,

    /// What may be scaled, from the first probe on, and what is owed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<DependentStatus>,

    /// Why the cluster is protected or not, as one CamelCase word for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why the cluster is protected or not, as a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Since when dependents are scaled down, or not all back. Absent while the cluster is not
    /// protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_since: Option<Time>,

    /// What was last done to the dependents, and why. It stays when the protection is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastAction>,

    /// When the protection last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// When the cluster was last probed. Refreshed with other changes, and now and then without,
    /// so that it may lag by minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,

    /// What the other fields say, as conditions for kubectl wait and GitOps tools: Ready, Protecting
    /// and Degraded always, ProtectedTooLong while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
