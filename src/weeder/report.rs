//! What is reported of the weeder: the statuses of WeedPolicies, and events on these, on pods and on
//! what controls them.
//!
//! The weeder hands in [`WeedReport`]s and [`PodNews`]. `status` turns the first into statuses; it
//! is a plain function. `content` knows what is to be written, and `writer` writes it.

mod content;
mod events;
#[cfg(test)]
mod fixtures;
mod pod;
mod status;
mod writer;

use std::{sync::Arc, time::Duration};

pub use self::writer::WeedReporter;
use crate::api::{LastWeed, LeftAlone, Mode, WeedPolicyStatus};

/// What is known of services or namespaces is out of date, since they cannot be watched.
pub const SERVICES_UNWATCHED: &str = "ServicesUnwatched";
/// Pods that need a service that is back are not watched, so that none of them is deleted.
pub const PODS_UNWATCHED: &str = "PodsUnwatched";
/// The API server refused to delete a pod, or did not answer.
pub const DELETION_REFUSED: &str = "DeletionRefused";

/// Everything that is known of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct WeedReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its `metadata.uid`.
    pub uid: Arc<str>,
    /// The generation that this is about.
    pub generation: i64,
    /// Whether its deletion has been asked for.
    pub deleting: bool,
    /// Whether pods are deleted.
    pub mode: Mode,
    /// Whether it is suspended.
    pub suspend: bool,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Whether namespaces, and the slices of all its services, have been listed, so that it is known
    /// which there are.
    pub listed: bool,
    /// How many services it watches.
    pub services: usize,
    /// How many of these are ready.
    pub ready: usize,
    /// The first few that are not, as `namespace/service`, sorted.
    pub not_ready: Vec<String>,
    /// How many windows are open.
    pub windows: usize,
    /// The first few of their services, as `namespace/service`, sorted.
    pub open: Vec<String>,
    /// What keeps pods from being deleted that should be: the first few of each reason.
    pub troubles: Vec<WeedTrouble>,
    /// How many pods were deleted for it, those of earlier runs included.
    pub weeded: i64,
    /// The last of these, the newest first.
    pub last_weeds: Vec<LastWeed>,
    /// The last pods that crash and were left alone, the newest first.
    pub left_alone: Vec<LeftAlone>,
    /// The status that the policy had when it was first seen.
    pub recorded: WeedPolicyStatus,
}

/// What keeps pods from being deleted that should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeedTrouble {
    /// [`SERVICES_UNWATCHED`], [`PODS_UNWATCHED`] or [`DELETION_REFUSED`].
    pub reason: &'static str,
    /// Names the pod or the namespace, and says what failed.
    pub message: String,
}

/// Something that was done to a pod, or deliberately not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNews {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub pod: Arc<str>,
    /// The UID of the pod.
    pub uid: Arc<str>,
    /// Its controller; `None` if it has none.
    pub owner: Option<PodOwner>,
    /// For which policy.
    pub policy: Arc<str>,
    /// Which service had become ready.
    pub service: Arc<str>,
    /// What it is.
    pub deed: PodDeed,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodOwner {
    /// Its `apiVersion`.
    pub api_version: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its name, in the namespace of the pod.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

/// What was done to a pod, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodDeed {
    /// It was deleted.
    Weeded {
        /// The containers that were in CrashLoopBackOff.
        containers: Vec<Arc<str>>,
        /// For how long the service had been ready.
        ready_for: Duration,
    },
    /// It would have been deleted if the mode were not DryRun.
    WouldWeed {
        /// The containers that are in CrashLoopBackOff.
        containers: Vec<Arc<str>>,
        /// For how long the service has been ready.
        ready_for: Duration,
    },
    /// It crashes, and is not to be deleted.
    LeftAlone {
        /// CamelCase, such as `NoController`.
        reason: &'static str,
        /// Why.
        message: String,
    },
    /// The API server refused to delete it, or did not answer.
    Refused {
        /// What it said.
        message: String,
    },
}
