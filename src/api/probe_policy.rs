//! `ProbePolicy`: which clusters are probed, how, and what is scaled while one is protected.
//!
//! The fields and defaults are those of the configuration file of Gardener's
//! dependency-watchdog, so that its content can be pasted under `spec`.

use super::check::{entries, range, readable_problems};
use super::dependent::{MAX_NAME, NAME_PATTERN, check_name};
use super::duration::{Bounds, Duration};
use super::health_check::MAX_CHECKS;
use super::mode::mode_rule;
use super::observation::{check_unique_names, unique_names_rule};
use super::share::{check_fraction, check_jitter, check_recovery, recovery_rule};
use super::{DependentResourceInfo, HealthCheck, LabelSelector, Mode, ObserverSettings};
use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On a ProbePolicy exactly as long as it protects a cluster: what it has taken is given back before
/// the policy goes.
pub const FINALIZER: &str = "dependency-watchdog.gardener.cloud/protection";

/// Most dependents of a policy.
const MAX_DEPENDENTS: usize = 32;
/// Most names in [`ProbePolicyStatus::protected_clusters`].
pub const MAX_PROTECTED_NAMES: usize = 32;
/// The most silent nodes that a policy can ask for. Beyond, the fraction decides.
const MAX_SILENT_NODES: i32 = 100;
/// Most verdicts that a policy can ask for before it acts.
const MAX_THRESHOLD: i32 = 100;

const PROBE_INTERVAL: Bounds = Bounds::from_secs(1, 3600);
const INITIAL_DELAY: Bounds = Bounds::from_secs(0, 3600);
const PROBE_TIMEOUT: Bounds = Bounds::from_secs(1, 3600);
/// A shorter time would end the protections that the operator is for.
const MAX_PROTECTION: Bounds = Bounds::from_secs(60, 24 * 3600);
/// A day is far beyond any grace period that kube-controller-manager is run with.
const GRACE: Bounds = Bounds::from_secs(1, 24 * 3600);

const UNIQUE_REFS_MESSAGE: &str = "every ref must be unique: list a dependent only once";

/// Objects whose labels select a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSource {
    /// The Cluster object alone: owners of a Shoot cannot change its labels.
    #[default]
    Cluster,
    /// The Cluster object and the Shoot inside it. If both have a label, the Cluster's counts.
    ClusterAndShoot,
}

/// Which clusters to probe, how to judge them, and which dependents to scale down while the nodes
/// of a cluster cannot reach its API server.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema, Validate)]
#[kube(
    group = "dependency-watchdog.gardener.cloud",
    version = "v1alpha1",
    kind = "ProbePolicy",
    plural = "probepolicies",
    shortname = "probepol",
    category = "dwd",
    status = "ProbePolicyStatus",
    derive = "PartialEq",
    doc = "ProbePolicy protects hosted clusters whose nodes cannot reach their API server: it names the \
           clusters to probe, and the parts of their control planes that are scaled down in such an \
           outage. So traffic to the nodes continues, and healthy machines are not replaced.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason"}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Clusters", "type": "integer", "jsonPath": ".status.clusters.selected"}"#,
    printcolumn = r#"{"name": "Protected", "type": "integer", "jsonPath": ".status.clusters.protected"}"#,
    printcolumn = r#"{"name": "Undetermined", "type": "integer", "jsonPath": ".status.clusters.undetermined"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = mode_rule(), validation = recovery_rule())]
pub struct ProbePolicySpec {
    /// Selects clusters by labels. Selects all clusters when left out or empty.
    #[serde(default)]
    #[garde(dive)]
    pub cluster_selector: LabelSelector,

    /// Whose labels clusterSelector sees, also with NotIn and DoesNotExist. Cluster: those of the
    /// Cluster object. ClusterAndShoot: also those of the Shoot inside it, which the owners of the Shoot
    /// set. If both have a label, the Cluster's counts.
    #[serde(default)]
    #[garde(skip)]
    pub cluster_labels: LabelSource,

    /// Decides if several policies select one cluster: the highest priority applies, then the oldest
    /// policy, then the first by name. The others report this in their condition Conflicted.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    #[garde(skip)]
    pub priority: i32,

    /// Required. Enforce, or DryRun: observes, judges and reports, but writes to no dependent.
    #[garde(skip)]
    pub mode: Mode,

    /// Emergency stop: while true, nothing is probed and no dependent is written to. Dependents that are
    /// scaled down stay scaled down, and keep their mark.
    #[serde(default)]
    #[garde(skip)]
    pub suspend: bool,

    /// Name of the Secret in the cluster's namespace whose key "kubeconfig" reaches the cluster's
    /// API server.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = NAME_PATTERN))]
    #[garde(custom(check_name))]
    pub kube_config_secret_name: String,

    /// How often a cluster is probed. 1s to 1h. Probes are more frequent while an outage is suspected.
    #[serde(default = "defaults::probe_interval")]
    #[x_kube(validation = PROBE_INTERVAL.rule())]
    #[garde(custom(PROBE_INTERVAL.check()))]
    pub probe_interval: Duration,

    /// How long a cluster that became eligible, or is probed again after a suspension, is only
    /// observed before dependents may be scaled. 0s to 1h. Does not apply to clusters that are
    /// already eligible when the operator starts.
    #[serde(default = "defaults::initial_delay")]
    #[x_kube(validation = INITIAL_DELAY.rule())]
    #[garde(custom(INITIAL_DELAY.check()))]
    pub initial_delay: Duration,

    /// How long one read of a cluster's API server may take. 1s to 1h. A read of the leases that takes
    /// longer leaves the cluster undetermined: nothing is scaled.
    #[serde(default = "defaults::probe_timeout")]
    #[x_kube(validation = PROBE_TIMEOUT.rule())]
    #[garde(custom(PROBE_TIMEOUT.check()))]
    pub probe_timeout: Duration,

    /// Spreads the probes: the next one starts after probeInterval times 1 plus a random share of
    /// this factor. 0 to 1.
    #[serde(default = "defaults::backoff_jitter_factor")]
    #[schemars(range(min = 0.0, max = 1.0))]
    #[garde(custom(check_jitter))]
    pub backoff_jitter_factor: f64,

    /// The node-monitor-grace-period of the clusters' kube-controller-manager, after which it marks a
    /// silent node as lost. 1s to 24h. If the Shoot of a cluster sets
    /// spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod, that one is used instead.
    #[x_kube(validation = GRACE.rule())]
    #[garde(custom(GRACE.check()))]
    pub kcm_node_monitor_grace_duration: Duration,

    /// The share of node leases that must be expired for an outage. Above 0, at most 1.
    #[serde(default = "defaults::node_lease_failure_fraction")]
    #[schemars(range(min = 0.0, max = 1.0), extend("exclusiveMinimum" = true))]
    #[garde(custom(check_fraction))]
    pub node_lease_failure_fraction: f64,

    /// The share of node leases below which the expired ones must fall before anything is scaled back up.
    /// Above 0, at most nodeLeaseFailureFraction, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", range(min = 0.0, max = 1.0), extend("exclusiveMinimum" = true))]
    #[garde(custom(check_recovery(self.node_lease_failure_fraction)))]
    pub node_lease_recovery_fraction: Option<f64>,

    /// How many node leases must be expired at least for an outage to begin. Fewer silent nodes may have
    /// died on their own. 1 to 100.
    #[serde(default = "defaults::minimum_silent_nodes")]
    #[schemars(range(min = 1, max = MAX_SILENT_NODES))]
    #[garde(custom(range(1, MAX_SILENT_NODES)))]
    pub minimum_silent_nodes: i32,

    /// How many times in a row an outage must be found before anything is scaled down. 1 to 100.
    #[serde(default = "defaults::threshold")]
    #[schemars(range(min = 1, max = MAX_THRESHOLD))]
    #[garde(custom(range(1, MAX_THRESHOLD)))]
    pub failure_threshold: i32,

    /// How many times in a row the cluster must be found healthy before anything is scaled back up.
    /// 1 to 100.
    #[serde(default = "defaults::threshold")]
    #[schemars(range(min = 1, max = MAX_THRESHOLD))]
    #[garde(custom(range(1, MAX_THRESHOLD)))]
    pub success_threshold: i32,

    /// How long a cluster may stay protected. 1m to 24h. When this time is over, everything is scaled
    /// back up although nodes are silent, and the nodes that are silent by then are ignored until they
    /// renew their leases. Without a limit when left out: a long protection is only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration")]
    #[x_kube(validation = MAX_PROTECTION.rule())]
    #[garde(inner(custom(MAX_PROTECTION.check())))]
    pub max_protection: Option<Duration>,

    /// What is scaled down while a cluster is protected. 1 to 32 entries, each ref only once.
    #[schemars(length(min = 1, max = MAX_DEPENDENTS))]
    #[x_kube(validation = unique_refs_rule())]
    #[garde(custom(entries(1, MAX_DEPENDENTS)), custom(check_unique_refs), dive)]
    pub dependent_resource_infos: Vec<DependentResourceInfo>,

    /// How the state of a cluster is observed that its ClusterHealth shows. This state scales nothing.
    #[serde(default)]
    #[garde(dive)]
    pub observer: ObserverSettings,

    /// Further checks of each cluster's health. At most 8, each with a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_CHECKS))]
    #[x_kube(validation = unique_names_rule())]
    #[garde(custom(entries(0, MAX_CHECKS)), custom(check_unique_checks), dive)]
    pub checks: Vec<HealthCheck>,
}

/// Counts of the clusters that a policy applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCounts {
    /// Clusters that this policy applies to.
    #[schemars(range(min = 0))]
    pub selected: i32,
    /// Selected clusters that are to be probed, as far as is known.
    #[schemars(range(min = 0))]
    pub probing: i32,
    /// Clusters whose dependents are scaled down, or not all restored yet, including those that the
    /// policy does not select any more.
    #[schemars(range(min = 0))]
    pub protected: i32,
    /// Clusters that are to be probed and cannot be judged at present. Includes those whose Shoot cannot be
    /// read, or is in an unknown operation.
    #[schemars(range(min = 0))]
    pub undetermined: i32,
    /// Selected clusters that are not to be probed; their ClusterHealth says why.
    #[schemars(range(min = 0))]
    pub skipped: i32,
}

/// State of a policy's clusters as the operator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbePolicyStatus {
    /// The metadata.generation that this status describes; -1 while the operator has written none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,

    /// Counts of the clusters that the policy applies to.
    #[serde(default)]
    pub clusters: ClusterCounts,

    /// The first 32 protected clusters, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PROTECTED_NAMES))]
    pub protected_clusters: Vec<String>,

    /// Conditions: Ready, Protecting, Degraded and Conflicted always; Reconciling, Stalled and
    /// WidespreadOutage while true. Degraded: a person must look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

impl ProbePolicySpec {
    /// What is wrong with the policy: each entry names the field and what is allowed.
    ///
    /// The schema makes the API server refuse the same; this finds it in objects that were stored
    /// under an older schema, and in files that no API server has seen.
    pub fn problems(&self) -> Vec<String> {
        match self.validate() {
            Ok(()) => Vec::new(),
            Err(report) => readable_problems("spec", &report),
        }
    }
}

/// The defaults of the configuration file of Gardener's dependency-watchdog.
mod defaults {
    use super::Duration;

    pub(super) fn probe_interval() -> Duration {
        Duration::from_secs(10)
    }

    pub(super) fn initial_delay() -> Duration {
        Duration::from_secs(30)
    }

    pub(super) fn probe_timeout() -> Duration {
        Duration::from_secs(30)
    }

    pub(super) fn backoff_jitter_factor() -> f64 {
        0.2
    }

    pub(super) fn node_lease_failure_fraction() -> f64 {
        0.6
    }

    pub(super) fn minimum_silent_nodes() -> i32 {
        2
    }

    pub(super) fn threshold() -> i32 {
        1
    }
}

fn unique_refs_rule() -> Rule {
    Rule::new("self.all(x, self.exists_one(y, x.ref == y.ref))").message(UNIQUE_REFS_MESSAGE)
}

fn check_unique_checks(checks: &[HealthCheck], _: &()) -> garde::Result {
    check_unique_names(checks.iter().map(|check| check.name.as_str()))
}

fn check_unique_refs(dependents: &[DependentResourceInfo], _: &()) -> garde::Result {
    let unique: std::collections::BTreeSet<_> = dependents.iter().map(|info| &info.r#ref).collect();
    if unique.len() == dependents.len() {
        Ok(())
    } else {
        Err(garde::Error::new(UNIQUE_REFS_MESSAGE))
    }
}
