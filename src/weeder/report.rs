//! What is reported of the weeder: the statuses of WeedPolicies, and events on these, on pods and on
//! what controls them.
//!
//! The weeder hands in [`WeedReport`]s and what was done to pods. `status` turns the first into statuses; it
//! is a plain function, and `writer` writes them.

#[cfg(test)]
mod fixtures;
mod pod;
mod status;
mod writer;

use std::sync::Arc;

#[cfg(test)]
pub(super) use self::fixtures::case;
pub(super) use self::writer::WeedReporter;
use super::policy::Policy;
use crate::api::{LastWeed, LeftAlone, WeedPolicyStatus};

/// What is known of services or namespaces is out of date, since they cannot be watched.
pub(super) const SERVICES_UNWATCHED: &str = "ServicesUnwatched";
/// Pods that need a service that is back are not watched, so that none of them is deleted.
pub(super) const PODS_UNWATCHED: &str = "PodsUnwatched";
/// The API server refused to delete a pod, or did not answer.
pub(super) const DELETION_REFUSED: &str = "DeletionRefused";

/// Everything that is known of one policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WeedReport {
    /// The policy.
    pub(super) policy: Arc<Policy>,
    /// Whether namespaces, and the slices of all its services, have been listed, so that it is known
    /// which there are.
    pub(super) listed: bool,
    /// How many services it watches.
    pub(super) services: usize,
    /// How many of these are ready.
    pub(super) ready: usize,
    /// The first few that are not, as `namespace/service`, sorted.
    pub(super) not_ready: Vec<String>,
    /// How many windows are open.
    pub(super) windows: usize,
    /// The first few of their services, as `namespace/service`, sorted.
    pub(super) open: Vec<String>,
    /// What keeps pods from being deleted that should be: the first few of each reason.
    pub(super) troubles: Vec<WeedTrouble>,
    /// How many pods were deleted for it, those of earlier runs included.
    pub(super) weeded: i64,
    /// The last of these, the newest first.
    pub(super) last_weeds: Vec<LastWeed>,
    /// The last pods that crash and were left alone, the newest first.
    pub(super) left_alone: Vec<LeftAlone>,
    /// The status that the policy had when it was first seen.
    pub(super) recorded: WeedPolicyStatus,
}

/// What keeps pods from being deleted that should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WeedTrouble {
    /// [`SERVICES_UNWATCHED`], [`PODS_UNWATCHED`] or [`DELETION_REFUSED`].
    pub(super) reason: &'static str,
    /// Names the pod or the namespace, and says what failed.
    pub(super) message: String,
}
