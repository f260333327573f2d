//! `ClusterHealth`: the operator's record of one cluster, written by it and read by people.
//!
//! It says what was seen and done and why, and holds what must survive a restart or the end of
//! the policy: which dependents are owed how many replicas, and how they are put back.

use super::crd::{adapt, by_type};
use super::{CheckRole, DependentRef, Duration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the dependents of a cluster are scaled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Protection {
    /// The dependents are as their owner wants them.
    #[default]
    None,
    /// The dependents are being scaled down.
    ScalingDown,
    /// The dependents are scaled down.
    Active,
    /// The dependents are being scaled back up.
    Restoring,
}

/// Most entries of [`ClusterHealthStatus::unhealthy_nodes`].
pub const MAX_UNHEALTHY_NODES: usize = 32;
/// Most characters of [`CheckStatus::message`].
pub const MAX_OUTPUT: usize = 512;

/// Observed state of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterState {
    /// The nodes, or the readiness of the API server, have not been seen yet.
    #[default]
    Pending,
    /// The API server was OFFLINE and answers again.
    Connecting,
    /// The cluster is reachable, healthy and ready.
    Online,
    /// The API server cannot be reached, and there are retries left.
    Degraded,
    /// The API server cannot be reached, and the retries are used up.
    Offline,
    /// A node reports PID, disk or memory pressure.
    Unhealthy,
    /// A node is not ready or, by the leases, most are silent; or the API server says that it is not
    /// ready.
    #[serde(rename = "NOTREADY")]
    NotReady,
    /// Something that serves its metrics does not answer.
    FailingMetrics,
}

impl ClusterState {
    /// Returns the state as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Connecting => "CONNECTING",
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Offline => "OFFLINE",
            Self::Unhealthy => "UNHEALTHY",
            Self::NotReady => "NOTREADY",
            Self::FailingMetrics => "FAILING_METRICS",
        }
    }
}

/// A node that is not ready or under pressure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNode {
    /// Name of the node.
    pub name: String,

    /// Problems of the node: NotReady, PIDPressure, MemoryPressure, DiskPressure.
    pub problems: Vec<String>,
}

/// Kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckType {
    /// A command in a pod.
    Exec,
    /// A request over HTTP.
    HttpGet,
    /// A connection over TCP.
    TcpSocket,
    /// A request to the API of an APIService in the cluster.
    ApiService,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckResult {
    /// The check has not run yet, or cannot run: no evidence either way.
    #[default]
    Unknown,
    /// The check passes.
    Passing,
    /// The check fails.
    Failing,
}

/// Result of a check of the policy, or of a request to a provider of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// Name of the check in the policy.
    pub name: String,

    /// Role: what depends on the result. Absent for a provider of metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<CheckRole>,

    /// Kind of the check: Exec, HttpGet, TcpSocket or ApiService.
    pub r#type: CheckType,

    /// Result: Unknown, Passing or Failing.
    pub result: CheckResult,

    /// Time of the last change of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// Why the check fails or is unknown. At most 512 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_OUTPUT))]
    pub message: Option<String>,
}

/// Act on the dependents of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// The dependents were scaled down.
    ScaledDown,
    /// The dependents were scaled back up.
    Restored,
    /// The marks were removed, and the replicas left as they were.
    Released,
}

/// Last act of the operator on the dependents of a cluster, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastAction {
    /// Time of the act.
    pub time: Time,

    /// ScaledDown, Restored or Released.
    pub action: Action,

    /// Names of the dependents and the reason, as a sentence for people.
    pub message: String,
}

/// Empty: a ClusterHealth is written by the operator alone, and all of it is status.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "dependency-watchdog.gardener.cloud",
    version = "v1alpha1",
    kind = "ClusterHealth",
    plural = "clusterhealths",
    shortname = "chealth",
    category = "dwd",
    status = "ClusterHealthStatus",
    selectable = ".status.state",
    selectable = ".status.protection",
    selectable = ".status.reason",
    selectable = ".status.policy",
    selectable = ".status.skipped",
    derive = "Default",
    doc = "ClusterHealth is the operator's record of the cluster of the same name: what it sees, \
           what it did, which dependents it still has to scale back up, and why. The operator alone \
           writes it.",
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "Nodes", "type": "string", "jsonPath": ".status.nodes"}"#,
    printcolumn = r#"{"name": "Protection", "type": "string", "jsonPath": ".status.protection"}"#,
    printcolumn = r#"{"name": "Protected", "type": "date", "jsonPath": ".status.protectedSince"}"#,
    printcolumn = r#"{"name": "Policy", "type": "string", "jsonPath": ".status.policy"}"#,
    printcolumn = r#"{"name": "Expired", "type": "integer", "jsonPath": ".status.leases.expired"}"#,
    printcolumn = r#"{"name": "Leases", "type": "integer", "jsonPath": ".status.leases.candidates"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "PID pressure", "type": "string", "jsonPath": ".status.nodesPidPressure", "priority": 1}"#,
    printcolumn = r#"{"name": "Memory pressure", "type": "string", "jsonPath": ".status.nodesMemoryPressure", "priority": 1}"#,
    printcolumn = r#"{"name": "Disk pressure", "type": "string", "jsonPath": ".status.nodesDiskPressure", "priority": 1}"#,
    printcolumn = r#"{"name": "Skipped", "type": "string", "jsonPath": ".status.skipped", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1}"#
)]
#[schemars(transform = adapt)]
pub struct ClusterHealthSpec {}

/// Node leases of a cluster at the last verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseCounts {
    /// Leases of the nodes that count.
    pub candidates: i32,
    /// Leases that count and are expired.
    pub expired: i32,
    /// Leases that count and whose age is unknown.
    pub unknown: i32,
}

/// Record of a dependent, sufficient to restore it when its policy is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependentStatus {
    /// The resource, in the namespace of the cluster's control plane.
    pub r#ref: DependentRef,

    /// Replicas of the dependent before it was scaled to zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub recorded_replicas: Option<i32>,

    /// true: the operator scaled the dependent down, and has not seen it back with its replicas yet.
    #[serde(default)]
    pub owed: bool,

    /// true: the dependent has its replicas back and still carries the operator's mark, for a minute. If
    /// somebody scales it to zero in that minute, the mark shows that this was decided before the restore.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_mark: bool,

    /// Place of the dependent in the order of a scale-up: the lowest level comes first.
    #[schemars(range(min = 0))]
    pub level: i32,

    /// How long a scale-up waits before this dependent.
    pub initial_delay: Duration,

    /// How long the next level of a scale-up waits for this dependent.
    pub timeout: Duration,
}

/// State of a cluster as the operator sees it, its last act, and the dependents that it scaled down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = adapt)]
pub struct ClusterHealthStatus {
    /// Observed state of the cluster. Absent while the cluster is not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,

    /// Why the cluster is in this state, as a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_message: Option<String>,

    /// Time of the last change of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_state_transition_time: Option<Time>,

    /// Nodes that are ready and under no pressure, of all nodes: 3/3. Absent until the nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,

    /// Nodes that run out of process IDs, of all nodes: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_pid_pressure: Option<String>,

    /// Nodes that run out of memory, of all nodes: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_memory_pressure: Option<String>,

    /// Nodes that run out of disk, of all nodes: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_disk_pressure: Option<String>,

    /// The first 32 nodes, by name, that are not ready or under pressure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UNHEALTHY_NODES))]
    pub unhealthy_nodes: Vec<UnhealthyNode>,

    /// Results of the checks and of the providers of metrics of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckStatus>,

    /// Whether dependents are scaled down: None, ScalingDown, Active or Restoring.
    #[serde(default)]
    pub protection: Protection,

    /// The responsible ProbePolicy: the one that applies or, if none selects the cluster any more, the one
    /// whose protection is not over yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// Why the cluster is not probed, or is probed only until its dependents are restored. Absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,

    /// Node leases of the cluster at the last verdict. Absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,

    /// The dependents of the cluster, and which of them are still scaled down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<DependentStatus>,

    /// Why the cluster is protected or not, as one CamelCase word for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why the cluster is protected or not, as a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The node monitor grace period by which the cluster is judged: the Shoot's or, without one, the policy's.
    /// Absent while the cluster is not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_monitor_grace_period: Option<Duration>,

    /// Last renewal of the lease of the first node of the outage. Nodes that fell silent long before do not
    /// belong to the outage. Absent without an outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Time>,

    /// When a protection was ended because it had lasted for the policy's maxProtection. Nodes that have
    /// been silent since then are ignored until they renew their leases. Absent once all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_protection_reached: Option<Time>,

    /// Start of the protection: when the operator began to scale down. Absent while the cluster is not
    /// protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_since: Option<Time>,

    /// Last act on the dependents, and its reason. Stays when the protection is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_action: Option<LastAction>,

    /// Time of the last change of protection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// Time of a recent probe. Written with other changes, and otherwise at least every 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,

    /// Conditions for kubectl wait and GitOps tools: Ready, Protecting and Degraded always,
    /// ProtectedTooLong while true. Degraded: a person must look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_type)]
    pub conditions: Vec<Condition>,
}

/// `status.reason` while enough leases are expired.
pub const OUTAGE: &str = "Outage";

impl ClusterHealthStatus {
    /// Returns whether the cluster is not probed. A cluster that is let go is probed until it is restored, so its
    /// reason is not that for which it would be skipped.
    pub fn is_skipped(&self) -> bool {
        self.skipped.is_some() && self.skipped == self.reason
    }
}
