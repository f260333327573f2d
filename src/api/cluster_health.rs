//! `ClusterHealth`
use super::{DependentRef, Duration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

pub enum Protection { None, ScalingDown, Active, Restoring }

pub struct ClusterHealthSpec {}

pub struct LeaseCounts { pub candidates: i32, pub expired: i32, pub unknown: i32 }

/// Enough to restore a dependent when its policy is gone.
pub struct DependentStatus {
    pub r#ref: DependentRef,
    /// the count found before it was scaled to zero
    pub recorded_replicas: Option<i32>,
    /// scaled down by us and not yet really back
    pub owed: bool,
    /// of scale-up
    pub level: i32,
    pub initial_delay: Duration,
    pub timeout: Duration,
}

pub struct ClusterHealthStatus {
    pub protection: Protection,
    pub policy: Option<String>,
    /// Why the cluster is not probed.
    pub skipped: Option<String>,
    pub leases: Option<LeaseCounts>,
    pub dependents: Vec<DependentStatus>,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub last_transition_time: Option<Time>,
    pub last_probe_time: Option<Time>,
    pub conditions: Vec<Condition>,
}
