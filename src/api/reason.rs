//! What the reason of a ClusterHealth tells.

use super::ClusterHealthStatus;

/// `status.reason` while enough leases are expired.
pub const OUTAGE: &str = "Outage";
/// `status.reason` while a check with the role Trigger fails.
pub const TRIGGER_FAILED: &str = "TriggerFailed";

/// Whether this `status.reason` is an outage.
pub fn is_outage(reason: &str) -> bool {
    [OUTAGE, TRIGGER_FAILED].contains(&reason)
}

impl ClusterHealthStatus {
    /// Whether the cluster is not probed. One that is let go is probed until it is restored: it has a finding
    /// beside the reason for which it would not be.
    pub fn is_skipped(&self) -> bool {
        self.skipped.is_some() && self.skipped == self.reason
    }
}
