//! Conditions whose changes are events.

use super::Rule;
use crate::report::conditions::{
    CONFLICTED, DEGRADED, PROTECTED_TOO_LONG, PROTECTING, READY, RECONCILING, WEEDING,
};

/// The state of a cluster, which is compared like a condition.
pub(crate) const STATE: &str = "State";

const UNPROTECTED: &[&str] = &["NotProtected", "Restored", "Released"];
const PROTECTED: &[&str] = &["Protected", "Paced", "Restoring", "AwaitingNodes"];
const SOUND: &[&str] = &["ONLINE", "DEGRADED", "PENDING", "CONNECTING"];
const OBEYED: &[&str] = &[
    "Probing",
    "Watching",
    "Listing",
    "DryRun",
    "Suspended",
    "Deleting",
];

/// Rules of a ClusterHealth. It is Degraded whenever it is not Ready, with the same reason.
pub(crate) const CLUSTER: &[Rule] = &[
    (PROTECTING, UNPROTECTED, PROTECTED),
    (DEGRADED, &["AsExpected"], &[]),
    (PROTECTED_TOO_LONG, &[], &[]),
    // That probes fail is Degraded.
    (STATE, SOUND, &[]),
];

/// Rules of a ProbePolicy.
pub(crate) const PROBE: &[Rule] = &[
    (READY, OBEYED, &[]),
    (PROTECTING, &["NoOutage"], &[]),
    (DEGRADED, &["AsExpected", "FirstVerdicts"], &[]),
    (CONFLICTED, &["NoConflict"], &[]),
    (RECONCILING, &[], &["LettingGo"]),
];

/// Rules of a WeedPolicy.
pub(crate) const WEED: &[Rule] = &[
    (READY, OBEYED, &[]),
    (WEEDING, &["NoRecovery", "Suspended"], &["Recovery"]),
    (DEGRADED, &["AsExpected"], &[]),
];
