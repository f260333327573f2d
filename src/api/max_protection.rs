//! How long a cluster may stay protected.

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::{Bounds, Duration};

/// What is shorter would end the protections that the operator is for.
const AFTER: Bounds = Bounds::from_secs(60, 24 * 3600);

/// What is done about a protection that has lasted for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MaxProtectionAction {
    /// It is reported, by the condition ProtectedTooLong.
    Report,
    /// The dependents are given back although nodes are silent. Those that have been silent since before count neither
    /// way until they renew their leases.
    Restore,
}

/// How long a cluster may stay protected, and what is done then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct MaxProtection {
    /// For how long, from the moment at which its dependents began to be scaled down. 1m to 24h.
    #[x_kube(validation = AFTER.rule())]
    #[garde(custom(AFTER.check()))]
    pub after: Duration,

    /// Report: it is reported then, instead of after the time that the operator is run with. Restore: what was scaled
    /// down is given back, unless a Gate does not pass.
    #[garde(skip)]
    pub then: MaxProtectionAction,
}
