//! Reports of clusters and policies: ClusterHealths, the statuses and the finalizer of
//! ProbePolicies, and events.
//!
//! The loops hand in a [`ClusterReport`] whenever they know more; the fleet hands in
//! [`PolicyView`](crate::cluster::PolicyView)s. `status` turns the first into statuses, and `policy` those and the clusters in `brief`: plain
//! functions all. [`report`](crate::report) writes them, and makes events of what has just become otherwise.

mod brief;
mod dependent;
#[cfg(test)]
mod fixtures;
mod metrics;
mod policies;
mod policy;
mod status;
mod wording;
mod writer;

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;

pub use self::{
    metrics::HealthMetrics,
    wording::evidence,
    writer::{Left, Reporter},
};
use super::dependents::Problem;
use super::finding;
pub use super::finding::{Finding, HEALTHY, HeldBack, reason};
use super::verdict::Returning;
use crate::{
    api::{CheckStatus, DependentStatus, LastAction, Mode, Protection},
    observer::View,
};

/// Everything that is known of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterReport {
    /// The Cluster's UID: it owns its ClusterHealth.
    pub uid: Arc<str>,
    /// The policy that applies; of a cluster that none selects, the one that did last and that has
    /// yet to let go of it.
    pub policy: Option<Arc<str>>,
    /// Mode: whether dependents are written to.
    pub mode: Mode,
    /// Finding.
    pub finding: Finding,
    /// Its state, as it is observed; `None` while it is not probed.
    pub observed: Option<View>,
    /// Results of the checks of its policy, and of the looks at its providers of metrics.
    pub checks: Vec<CheckStatus>,
    /// State of the dependents.
    pub protection: Protection,
    /// Since when they are.
    pub protected_since: Option<Timestamp>,
    /// Start of the outage, by the last renewal of the first silent lease.
    pub silent_since: Option<Timestamp>,
    /// The grace by which it is judged, while it is probed.
    pub grace: Option<Duration>,
    /// End of a protection that had lasted for its policy's maxProtection.
    pub max_protection_reached: Option<Timestamp>,
    /// True if its dependents have been scaled down for so long that somebody must look.
    pub overdue: bool,
    /// True if each dependent has been looked at, so that no mark can be unknown.
    pub looked_at: bool,
    /// Last act on them.
    pub last_action: Option<LastAction>,
    /// Set while what was found is not acted on yet.
    pub held_back: Option<HeldBack>,
    /// Number of nodes that count and are ready, while a dependent waits for them.
    pub awaits: Option<Returning>,
    /// Why it would not be probed, while it is only until it is restored.
    pub let_go: Option<Finding>,
    /// The dependents and what they are owed.
    pub dependents: Vec<DependentStatus>,
    /// Why dependents are not where they should be.
    pub problems: Vec<Problem>,
    /// Time of the last probe.
    pub probed: Option<Timestamp>,
}

impl ClusterReport {
    /// Returns whether the protection that is ending has lasted for its policy's maxProtection.
    fn is_cut(&self) -> bool {
        self.max_protection_reached > self.protected_since
    }
}
