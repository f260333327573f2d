//! Deleting looping pods: what is asked of the API server.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::health::PodOwner;

/// A pod that is to be deleted now. It counts as in flight until its end is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub pod: Arc<str>,
    /// The UID that it must have.
    pub uid: Arc<str>,
    /// The resourceVersion that it must have.
    pub resource_version: Arc<str>,
    /// Its controller, which replaces it.
    pub owner: PodOwner,
    /// The containers that are in CrashLoopBackOff.
    pub containers: Vec<Arc<str>>,
    /// The policy for which it is deleted.
    pub policy: Arc<str>,
    /// The service that has become ready.
    pub service: Arc<str>,
    /// When the service was first seen ready.
    pub ready_since: Instant,
    /// When the pod was first seen looping.
    pub looping_since: Instant,
    /// The UID of the policy.
    pub(super) policy_uid: Arc<str>,
}

/// Why a pod was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionError {
    /// There is no such pod (404).
    Gone,
    /// It is not the one, or not the version of it, that was to be deleted (409).
    Changed,
    /// The API server asks for fewer requests (429), and perhaps says for how long.
    Throttled(Option<Duration>),
    /// It refused: what it said.
    Refused(String),
    /// It did not answer in time, or the connection broke: what was tried and what failed. The pod
    /// may have been deleted.
    Unanswered(String),
}
