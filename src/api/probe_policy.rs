//! `ProbePolicy`
use super::{DependentResourceInfo, Duration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};

pub enum Mode { Enforce, DryRun }
pub enum Restore { Marked, Any }

pub struct ProbePolicySpec {
    pub cluster_selector: LabelSelector,
    pub priority: i32,
    pub mode: Mode,
    pub suspend: bool,
    pub kube_config_secret_name: String,
    pub probe_interval: Duration,
    pub initial_delay: Duration,
    pub probe_timeout: Duration,
    pub backoff_jitter_factor: f64,
    pub kcm_node_monitor_grace_duration: Duration,
    pub node_lease_failure_fraction: f64,
    pub failure_threshold: i32,
    pub success_threshold: i32,
    pub restore: Restore,
    pub dependent_resource_infos: Vec<DependentResourceInfo>,
}

pub struct ClusterCounts {
    pub selected: i32,
    pub probing: i32,
    pub protected: i32,
    pub undetermined: i32,
    pub skipped: i32,
}

pub struct ProbePolicyStatus {
    pub observed_generation: Option<i64>,
    pub clusters: ClusterCounts,
    pub protected_clusters: Vec<String>,
    pub conditions: Vec<Condition>,
}
