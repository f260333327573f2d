//! `ProbePolicy`: which clusters are probed, how, and what is scaled while one is protected.
//!
//! The fields and defaults are those of the configuration file of Gardener's
//! dependency-watchdog, so that its content can be pasted under `spec`.

use super::crd::{adapt, by_type};
use super::defaults::{number, percent, seconds};
use super::duration::{Bounds, Duration};
use super::forms::{LABEL, MAX_LABEL, MAX_NAME, NAME, Rule, unique, unique_names};
use super::mode::mode;
use super::{DependentResourceInfo, HealthCheck, LabelSelector, Mode, ObserverSettings};
use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On a ProbePolicy exactly as long as it protects a cluster: what it has taken is given back before
/// the policy goes.
pub const FINALIZER: &str = "dependency-watchdog.gardener.cloud/protection";

/// Most names in [`ProbePolicyStatus::protected_clusters`].
pub const MAX_PROTECTED_NAMES: usize = 32;

const PROBE_INTERVAL: Bounds = Bounds("1s", "1h");
const INITIAL_DELAY: Bounds = Bounds("0s", "1h");
const PROBE_TIMEOUT: Bounds = Bounds("1s", "1h");
/// A shorter time would end the protections that the operator is for.
const MAX_PROTECTION: Bounds = Bounds("60s", "24h");
/// A day is far beyond any grace period that kube-controller-manager is run with.
const GRACE: Bounds = Bounds("1s", "24h");

const NAMES: Rule<Vec<HealthCheck>> = unique_names(|all| unique(all, |it| &it.name));
const REFS: Rule<Vec<DependentResourceInfo>> = Rule::new(
    "self.all(x, self.exists_one(y, x.ref == y.ref))",
    "every ref must be unique: list a dependent only once",
    |all| unique(all, |it| &it.r#ref),
);
/// Rule about the recovery fraction and the failure fraction.
const RECOVERY: Rule<(Option<f64>, f64)> = Rule {
    field_path: Some(".nodeLeaseRecoveryFraction"),
    ..Rule::new(
        "!has(self.nodeLeaseRecoveryFraction) || self.nodeLeaseRecoveryFraction <= self.nodeLeaseFailureFraction",
        "must be at most nodeLeaseFailureFraction: a cluster must not be taken for recovered while it would be \
         taken for an outage",
        |(recovery, failure)| recovery.is_none_or(|it| it <= *failure),
    )
};

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
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
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
    printcolumn = r#"{"name": "Degraded", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Degraded')].reason"}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Clusters", "type": "integer", "jsonPath": ".status.clusters.selected"}"#,
    printcolumn = r#"{"name": "Protected", "type": "integer", "jsonPath": ".status.clusters.protected"}"#,
    printcolumn = r#"{"name": "Undetermined", "type": "integer", "jsonPath": ".status.clusters.undetermined"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [mode(), RECOVERY]), transform = adapt)]
#[garde(allow_unvalidated)]
pub struct ProbePolicySpec {
    /// Selects clusters by labels. Selects all clusters when left out or empty.
    #[serde(default)]
    #[garde(dive)]
    pub cluster_selector: LabelSelector,

    /// Whose labels clusterSelector sees, also with NotIn and DoesNotExist. Cluster: those of the
    /// Cluster object. ClusterAndShoot: also those of the Shoot inside it, which the owners of the Shoot
    /// set. If both have a label, the Cluster's counts.
    #[serde(default)]
    pub cluster_labels: LabelSource,

    /// Decides if several policies select one cluster: the highest priority applies, then the oldest
    /// policy, then the first by name. The others report this in their condition Conflicted.
    #[serde(default)]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority: i32,

    /// Required. Enforce, or DryRun: observes, judges and reports, but writes to no dependent.
    pub mode: Mode,

    /// Emergency stop: while true, nothing is probed and no dependent is written to. Dependents that are
    /// scaled down stay scaled down, and keep their mark.
    #[serde(default)]
    pub suspend: bool,

    /// Name of the Secret in the cluster's namespace whose key "kubeconfig" reaches the cluster's
    /// API server.
    #[garde(length(min = 1, max = MAX_NAME), pattern(NAME))]
    pub kube_config_secret_name: String,

    /// How often a cluster is probed. 1s to 1h. Probes are more frequent while an outage is suspected.
    #[serde(default = "seconds::<10>")]
    #[schemars(extend("x-kubernetes-validations" = [PROBE_INTERVAL.rule()]))]
    #[garde(custom(PROBE_INTERVAL.check()))]
    pub probe_interval: Duration,

    /// How long a cluster that became eligible, or is probed again after a suspension, is only
    /// observed before dependents may be scaled. 0s to 1h. Does not apply to clusters that are
    /// already eligible when the operator starts.
    #[serde(default = "seconds::<30>")]
    #[schemars(extend("x-kubernetes-validations" = [INITIAL_DELAY.rule()]))]
    #[garde(custom(INITIAL_DELAY.check()))]
    pub initial_delay: Duration,

    /// How long one read of a cluster's API server may take. 1s to 1h. A read of the leases that takes
    /// longer leaves the cluster undetermined: nothing is scaled.
    #[serde(default = "seconds::<30>")]
    #[schemars(extend("x-kubernetes-validations" = [PROBE_TIMEOUT.rule()]))]
    #[garde(custom(PROBE_TIMEOUT.check()))]
    pub probe_timeout: Duration,

    /// Spreads the probes: the next one starts after probeInterval times 1 plus a random share of
    /// this factor. 0 to 1.
    #[serde(default = "percent::<20>")]
    #[garde(range(min = 0.0, max = 1.0))]
    pub backoff_jitter_factor: f64,

    /// The node-monitor-grace-period of the clusters' kube-controller-manager, after which it marks a
    /// silent node as lost. 1s to 24h. If the Shoot of a cluster sets
    /// spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod, that one is used instead.
    #[schemars(extend("x-kubernetes-validations" = [GRACE.rule()]))]
    #[garde(custom(GRACE.check()))]
    pub kcm_node_monitor_grace_duration: Duration,

    /// The share of node leases that must be expired for an outage. Above 0, at most 1.
    #[serde(default = "percent::<60>")]
    #[schemars(extend("exclusiveMinimum" = true))]
    #[garde(range(min = 0.0, max = 1.0), custom(check_share))]
    pub node_lease_failure_fraction: f64,

    /// The share of node leases below which the expired ones must fall before anything is scaled back up.
    /// Above 0, at most nodeLeaseFailureFraction, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", extend("exclusiveMinimum" = true))]
    #[garde(
        range(min = 0.0, max = 1.0),
        inner(custom(check_share)),
        custom(check_recovery(self.node_lease_failure_fraction))
    )]
    pub node_lease_recovery_fraction: Option<f64>,

    /// How many node leases must be expired at least for an outage to begin. Fewer silent nodes may have
    /// died on their own. 1 to 100.
    #[serde(default = "number::<2>")]
    #[garde(range(min = 1, max = 100))]
    pub minimum_silent_nodes: i32,

    /// How many times in a row an outage must be found before anything is scaled down. 1 to 100.
    #[serde(default = "number::<1>")]
    #[garde(range(min = 1, max = 100))]
    pub failure_threshold: i32,

    /// How many times in a row the cluster must be found healthy before anything is scaled back up.
    /// 1 to 100.
    #[serde(default = "number::<1>")]
    #[garde(range(min = 1, max = 100))]
    pub success_threshold: i32,

    /// How long a cluster may stay protected. 1m to 24h. When this time is over, everything is scaled
    /// back up although nodes are silent, and the nodes that are silent by then are ignored until they
    /// renew their leases. Without a limit when left out: a long protection is only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration", extend("x-kubernetes-validations" = [MAX_PROTECTION.rule()]))]
    #[garde(inner(custom(MAX_PROTECTION.check())))]
    pub max_protection: Option<Duration>,

    /// What is scaled down while a cluster is protected. 1 to 32 entries, each ref only once.
    #[schemars(extend("x-kubernetes-validations" = [REFS]))]
    #[garde(length(min = 1, max = 32), custom(REFS.check()), dive)]
    pub dependent_resource_infos: Vec<DependentResourceInfo>,

    /// How the state of a cluster is observed that its ClusterHealth shows. This state scales nothing.
    #[serde(default)]
    #[garde(dive)]
    pub observer: ObserverSettings,

    /// Further checks of each cluster's health. At most 8, each with a name of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = [NAMES]))]
    #[garde(length(max = 8), custom(NAMES.check()), dive)]
    pub checks: Vec<HealthCheck>,
}

/// Counts of the clusters that a policy applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterCounts {
    /// Clusters that this policy applies to.
    pub selected: i32,
    /// Selected clusters that are to be probed, as far as is known.
    pub probing: i32,
    /// Clusters whose dependents are scaled down, or not all restored yet, including those that the
    /// policy does not select any more.
    pub protected: i32,
    /// Clusters that are to be probed and cannot be judged at present. Includes those whose Shoot cannot be
    /// read, or is in an unknown operation.
    pub undetermined: i32,
    /// Selected clusters that are not to be probed; their ClusterHealth says why.
    pub skipped: i32,
}

/// State of a policy's clusters as the operator sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}), transform = adapt)]
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
    #[schemars(
        length(max = MAX_PROTECTED_NAMES),
        inner(length(max = MAX_LABEL), regex(pattern = LABEL))
    )]
    pub protected_clusters: Vec<String>,

    /// Conditions: Ready, Protecting, Degraded and Conflicted always; Reconciling and Stalled
    /// while true. Degraded: a person must look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_type)]
    pub conditions: Vec<Condition>,
}

fn check_share(share: &f64, _: &()) -> garde::Result {
    match *share > 0.0 {
        true => Ok(()),
        false => Err(garde::Error::new("must be greater than 0")),
    }
}

fn check_recovery(failure: f64) -> impl FnOnce(&Option<f64>, &()) -> garde::Result {
    move |recovery, context| RECOVERY.check()(&(*recovery, failure), context)
}
