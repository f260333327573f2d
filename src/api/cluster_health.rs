//! `ClusterHealth`: the operator's record of one cluster, written by it and read by people.
//!
//! It says what was seen and done and why, and holds what must survive a restart or the end of
//! the policy: which dependents are owed how many replicas, and how they are put back.

use super::condition::conditions_schema;
use super::{CheckRole, DependentRef, Duration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the dependents of a cluster are scaled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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

/// Most entries of [`ClusterHealthStatus::unhealthy_nodes`].
pub const MAX_UNHEALTHY_NODES: usize = 32;
/// So many of the last protections are listed.
pub const MAX_RECENT_PROTECTIONS: usize = 8;
/// Most characters of [`CheckStatus::message`].
pub const MAX_OUTPUT: usize = 512;

/// The state of a cluster, as it is observed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterState {
    /// It has not been seen as a whole yet.
    Pending,
    /// It was OFFLINE, and answers again.
    Connecting,
    /// It is reachable, healthy and ready.
    Online,
    /// It cannot be reached, and there are retries left.
    Degraded,
    /// It cannot be reached, and the retries are used up.
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
    /// As it is written.
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

/// A node that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNode {
    /// Its name.
    pub name: String,

    /// What is wrong with it: NotReady, PIDPressure, MemoryPressure, DiskPressure.
    pub problems: Vec<String>,
}

/// How a check is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckType {
    /// By a command in a pod.
    Exec,
    /// By a request over HTTP.
    HttpGet,
    /// By a connection over TCP.
    TcpSocket,
    /// By a request to an API that an APIService in the cluster stands for.
    ApiService,
}

/// What a check has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckResult {
    /// It has not been done yet, or cannot be done: that is no evidence.
    #[default]
    Unknown,
    /// It passes.
    Passing,
    /// It fails.
    Failing,
}

/// What a check of the policy, or the look at a provider of metrics, has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// Its name in the policy.
    pub name: String,

    /// What hangs on it; absent for a provider of metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<CheckRole>,

    /// How it is done: Exec, HttpGet, TcpSocket or ApiService.
    pub r#type: CheckType,

    /// What it has come to: Unknown, Passing or Failing.
    pub result: CheckResult,

    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// Why it fails or is unknown. At most 512 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_OUTPUT))]
    pub message: Option<String>,
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
    shortname = "chealth",
    category = "dwd",
    status = "ClusterHealthStatus",
    selectable = ".status.state",
    selectable = ".status.protection",
    selectable = ".status.reason",
    selectable = ".status.policy",
    selectable = ".status.skipped",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterHealth is the operator's record of the cluster of the same name: what it sees, \
           what it did, what it owes, and why. It is written by the operator alone.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.state",
        description = "The state of the cluster, as it is observed."
    ),
    printcolumn(
        name = "Nodes",
        type_ = "string",
        json_path = ".status.nodes",
        description = "Nodes that are as they should be, of all."
    ),
    printcolumn(
        name = "Protection",
        type_ = "string",
        json_path = ".status.protection",
        description = "Whether dependents of the cluster are scaled down."
    ),
    printcolumn(
        name = "Protected",
        type_ = "date",
        json_path = ".status.protectedSince",
        description = "For how long dependents of the cluster have been scaled down."
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
        name = "PID pressure",
        type_ = "string",
        json_path = ".status.nodesPidPressure",
        description = "Nodes that run out of process IDs, of all.",
        priority = 1
    ),
    printcolumn(
        name = "Memory pressure",
        type_ = "string",
        json_path = ".status.nodesMemoryPressure",
        description = "Nodes that run out of memory, of all.",
        priority = 1
    ),
    printcolumn(
        name = "Disk pressure",
        type_ = "string",
        json_path = ".status.nodesDiskPressure",
        description = "Nodes that run out of disk, of all.",
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
    /// Leases that count and whose age is unknown.
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

    /// Whether it has its replicas back and still carries the operator's mark, which shows whether a later zero was
    /// decided before the restore.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_mark: bool,

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
    /// The state of the cluster, as it is observed. Absent while it is not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,

    /// Why it is in this state, as a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_message: Option<String>,

    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_state_transition_time: Option<Time>,

    /// Nodes that are ready and under no pressure, of all: 3/3. Absent until they were seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,

    /// Nodes that run out of process IDs, of all: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_pid_pressure: Option<String>,

    /// Nodes that run out of memory, of all: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_memory_pressure: Option<String>,

    /// Nodes that run out of disk, of all: 0/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_disk_pressure: Option<String>,

    /// The first 32 nodes that are not as they should be, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_UNHEALTHY_NODES))]
    pub unhealthy_nodes: Vec<UnhealthyNode>,

    /// What the checks of the policy, and the looks at its providers of metrics, have come to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckStatus>,

    /// Whether dependents are scaled down: None, ScalingDown, Active or Restoring.
    #[serde(default)]
    pub protection: Protection,

    /// The responsible ProbePolicy: the one that applies, or, of a cluster that none selects any
    /// more, the one that has yet to let go of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,

    /// Why the cluster is not probed, or only until it is restored. Absent otherwise.
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

    /// The node monitor grace period by which the cluster is judged: the Shoot's or, without one, the policy's. A
    /// longer one counts once Gardener has reconciled the Shoot successfully, a shorter one immediately. Absent while
    /// the cluster is not probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_monitor_grace_period: Option<Duration>,

    /// When the first node of the outage fell silent, by the last renewal of its lease. Nodes that fell
    /// silent before are no part of it. Absent while no outage is seen, or over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Time>,

    /// When a protection was ended since it had lasted for the policy's maxProtection. Nodes that have been silent
    /// since before count neither way until they renew their leases. Absent once all have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_protection_reached: Option<Time>,

    /// Since when dependents are scaled down, or not all back. Absent while the cluster is not
    /// protected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_since: Option<Time>,

    /// When the last protections began, of those within an hour of the last one. After several within an
    /// hour a restore waits until the leases have been fresh for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_RECENT_PROTECTIONS))]
    pub recent_protections: Vec<Time>,

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
