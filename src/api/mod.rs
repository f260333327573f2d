//! The kinds this operator owns: types, defaults, validation, and nothing else.
//!
//! Every rule works twice: in the schema, so that the API server refuses what breaks it, and in the types'
//! validation, for objects that no such schema has seen. Both are derived from the `garde` attributes of a field; what
//! no keyword of a schema can express is a `Rule` in CEL. A test runs one table of refusals through the
//! validation; the same table is tried on a real API server.

mod action;
mod cluster_health;
mod crd;
mod defaults;
mod dependent;
mod duration;
mod forms;
mod health_check;
mod mode;
mod observation;
mod probe_policy;
mod selector;
#[cfg(test)]
mod tests;
mod weed_policy;

pub use action::{ExecAction, HttpGetAction, HttpHeader, Scheme, TcpSocketAction};
pub use cluster_health::{
    Action, CheckResult, CheckStatus, CheckType, ClusterHealth, ClusterHealthSpec,
    ClusterHealthStatus, ClusterState, DependentStatus, LastAction, LeaseCounts, MAX_OUTPUT,
    MAX_UNHEALTHY_NODES, OUTAGE, Protection, UnhealthyNode,
};
pub use crd::{crd_file_name, crd_yaml, crds};
pub use dependent::{DependentRef, DependentResourceInfo, ScaleInfo, needed_by_probe};
pub use duration::Duration;
pub use forms::problems;
pub(crate) use forms::{is_dns_label, is_dns_subdomain};
pub use health_check::{CheckRole, HealthCheck};
pub use mode::{MODE_MESSAGE, Mode};
pub use observation::{MetricsProvider, ObserverSettings};
pub use probe_policy::{
    ClusterCounts, FINALIZER, LabelSource, MAX_PROTECTED_NAMES, ProbePolicy, ProbePolicySpec,
    ProbePolicyStatus,
};
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use weed_policy::{
    DependantSelectors, LastWeed, LeftAlone, MAX_LAST_WEEDS, MAX_LEFT_ALONE, ServiceCounts,
    WeedPolicy, WeedPolicySpec, WeedPolicyStatus,
};

/// The API group of every kind in this module.
pub const GROUP: &str = "dependency-watchdog.gardener.cloud";
