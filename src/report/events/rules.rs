//! Conditions whose changes are events.

use kube::runtime::events::EventType::Normal;

use super::Rule;
use crate::report::conditions::{
    CONFLICTED, DEGRADED, PROTECTED_TOO_LONG, PROTECTING, READY, RECONCILING, WEEDING,
};

/// The state of a cluster, which is compared like a condition.
pub(crate) const STATE: &str = "State";

/// Rules of a ClusterHealth. It is Degraded whenever it is not Ready, with the same reason.
pub(crate) const CLUSTER: &[Rule] = &[
    Rule::warning(PROTECTING, &["NotProtected", "Restored", "Released"]),
    Rule::warning(DEGRADED, &["AsExpected"]),
    Rule::warning(PROTECTED_TOO_LONG, &[]),
    // That probes fail is Degraded.
    Rule::warning(STATE, &["ONLINE", "DEGRADED", "PENDING", "CONNECTING"]),
];

/// Rules of a ProbePolicy.
pub(crate) const PROBE: &[Rule] = &[
    Rule::warning(READY, &["Probing", "DryRun", "Suspended", "Deleting"]),
    Rule::warning(PROTECTING, &["NoOutage"]),
    Rule::warning(DEGRADED, &["AsExpected", "FirstVerdicts"]),
    Rule::warning(CONFLICTED, &["NoConflict"]),
    Rule {
        type_: Normal,
        ..Rule::warning(RECONCILING, &[])
    },
];

/// Rules of a WeedPolicy.
pub(crate) const WEED: &[Rule] = &[
    Rule::warning(
        READY,
        &["Watching", "DryRun", "Suspended", "Deleting", "Listing"],
    ),
    Rule {
        type_: Normal,
        ..Rule::warning(WEEDING, &["NoRecovery", "Suspended"])
    },
    Rule::warning(DEGRADED, &["AsExpected"]),
];
