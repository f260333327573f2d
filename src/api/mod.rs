//! The kinds this operator owns: types, defaults, validation, and nothing else.

mod cluster_health;
mod dependent;
mod duration;
mod probe_policy;

pub use cluster_health::{
    ClusterHealth, ClusterHealthSpec, ClusterHealthStatus, DependentStatus, LeaseCounts, Protection,
};
pub use dependent::{DependentRef, DependentResourceInfo, ScaleInfo};
pub use duration::{Duration, DurationError};
pub use probe_policy::{ClusterCounts, Mode, ProbePolicy, ProbePolicySpec, ProbePolicyStatus, Restore};

/// The API group of every kind in this module.
pub const GROUP: &str = "dependency-watchdog.gardener.cloud";
