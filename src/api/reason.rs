//! What the reason of a ClusterHealth tells.

use super::ClusterHealthStatus;

/// `status.reason` while enough leases are expired.
pub const OUTAGE: &str = "Outage";

impl ClusterHealthStatus {
    /// Whether the cluster is not probed. One that is let go is probed until it is restored: it has a finding
    /// beside the reason for which it would not be.
    pub fn is_skipped(&self) -> bool {
        self.skipped.is_some() && self.skipped == self.reason
    }
}
