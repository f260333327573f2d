//! News of a namespace: windows that open and close, and what is done to pods.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    pod::{Looping, Reason},
    policy::Policy,
};

/// The time in which pods are deleted since a service has become ready.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The namespace of the service.
    pub(super) namespace: Arc<str>,
    /// For which policy.
    pub(super) policy: Arc<Policy>,
    /// The service.
    pub(super) service: Arc<str>,
    /// When the service was seen ready.
    pub(super) opened: Instant,
    pub(super) end: Instant,
}

/// A pod in CrashLoopBackOff, and the window that claims it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The namespace of the pod.
    pub(super) namespace: Arc<str>,
    /// The pod.
    pub(super) pod: Looping,
    /// For which policy it is deleted.
    pub(super) policy: Arc<Policy>,
    /// The service that has become ready.
    pub(super) service: Arc<str>,
    /// When the service was first seen ready.
    pub(super) ready_since: Instant,
    /// When the last window was opened that claims the pod.
    pub(super) opened: Instant,
    /// Since when it could have been deleted: the service is ready, the pod loops, and has waited for
    /// as long as a successor has to.
    pub(super) called_for: Instant,
}

/// What was done to a pod, or why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It was deleted.
    Weeded,
    /// It would have been deleted if the mode were not DryRun.
    WouldWeed,
    /// It is not to be deleted.
    LeftAlone(Reason),
    /// The API server refused to delete it, or did not answer: what it said.
    Refused(String),
}

/// Something that has just happened in a namespace.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// A window opened.
    Opened(Window),
    /// A window closed.
    Closed(Window),
    /// Something was done to a pod, or deliberately not.
    Pod(Box<Case>, Deed),
}

impl Window {
    /// Returns what is done about a pod that it claims, for which the last window was opened then.
    pub(super) fn case(&self, pod: &Looping, opened: Instant) -> Case {
        Case {
            namespace: self.namespace.clone(),
            pod: pod.clone(),
            policy: self.policy.clone(),
            service: self.service.clone(),
            ready_since: self.opened,
            opened,
            called_for: self.opened.max(pod.since),
        }
    }

    /// Returns whether it was open before.
    pub(super) fn is_among(&self, others: &[Self]) -> bool {
        let key = |it: &Self| (it.policy.name.clone(), it.service.clone(), it.opened);
        others.iter().any(|it| key(it) == key(self))
    }
}
