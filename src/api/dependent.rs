//! What a policy scales: references, order and waits.
use super::Duration;

/// A namespaced resource with a `scale` subresource, in the cluster's namespace.
pub struct DependentRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

pub struct ScaleInfo {
    pub level: i32,
    pub initial_delay: Duration,
    pub timeout: Duration,
}

pub struct DependentResourceInfo {
    pub r#ref: DependentRef,
    pub optional: bool,
    pub scale_up: ScaleInfo,
    pub scale_down: ScaleInfo,
}
