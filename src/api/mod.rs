//! The kinds this operator owns: types, defaults, validation, and nothing else.
//!
//! Every rule stands twice: in the schema, so that the API server refuses what breaks it, and in
//! the types' validation, for objects that no such schema has seen. A test runs one table of
//! refusals through the second; the same table is tried on a real API server.

#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats a public struct inside a function"
)]

mod action;
mod check;
mod cluster_health;
mod crd;
mod dependent;
mod duration;
mod health_check;
mod mode;
mod observation;
mod probe_policy;
mod reason;
mod selector;
pub mod selector_text;
mod share;
#[cfg(test)]
mod tests;
mod weed_policy;

pub use action::{ExecAction, HttpGetAction, HttpHeader, Scheme, TcpSocketAction};
pub use cluster_health::{
    Action, CheckResult, CheckStatus, CheckType, ClusterHealth, ClusterHealthSpec,
    ClusterHealthStatus, ClusterState, DependentStatus, LastAction, LeaseCounts, MAX_OUTPUT,
    MAX_RECENT_PROTECTIONS, MAX_UNHEALTHY_NODES, Protection, UnhealthyNode,
};
pub use crd::{crd_file_name, crd_yaml, crds};
pub use dependent::{DependentRef, DependentResourceInfo, ScaleInfo, needed_by_probe};
pub use duration::{Duration, DurationError};
pub use health_check::{CheckRole, HealthCheck};
pub use mode::{MODE_MESSAGE, Mode};
pub use observation::{MetricsProvider, ObserverSettings};
pub use probe_policy::{
    ClusterCounts, FINALIZER, LabelSource, MAX_PROTECTED_NAMES, ProbePolicy, ProbePolicySpec,
    ProbePolicyStatus,
};
pub use reason::OUTAGE;
pub(crate) use selector::is_dns_subdomain;
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use weed_policy::{
    DependantSelectors, LastWeed, LeftAlone, MAX_LAST_WEEDS, MAX_LEFT_ALONE, ServiceCounts,
    WeedPolicy, WeedPolicySpec, WeedPolicyStatus,
};

/// The API group of every kind in this module.
pub const GROUP: &str = "dependency-watchdog.gardener.cloud";
