//! Deleting one pod, and nothing else that may have its name by now.

use std::time::Duration;

use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};

use super::{case::Case, pod::Pod};
use crate::runtime::seed::{CallError, Seed};

/// Why a pod was not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletionError {
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

impl DeletionError {
    /// Returns what became of the request, in one word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::Throttled(_) => "throttled",
            Self::Refused(_) => "refused",
            Self::Unanswered(_) => "unanswered",
        }
    }
}

/// Deletes the pod, whose turn it is, if it is still the one, and the version of it, that was judged.
/// It has its own grace period to end.
///
/// # Errors
///
/// If it was not deleted, or nobody knows.
pub(super) async fn delete(seed: &Seed, deletion: &Case) -> Result<(), DeletionError> {
    let api: Api<Pod> = Api::namespaced(seed.client().clone(), &deletion.namespace);
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(deletion.pod.uid.to_string()),
        resource_version: Some(deletion.pod.version.to_string()),
    });
    let answer = seed
        .call_at_turn(api.delete(&deletion.pod.name, &params))
        .await;
    answer.map(drop).map_err(outcome)
}

/// What an answer says of the pod.
fn outcome(error: CallError) -> DeletionError {
    let text = error.to_string();
    let CallError::Refused(status) = error else {
        return DeletionError::Unanswered(text);
    };
    match status.code {
        404 => DeletionError::Gone,
        409 => DeletionError::Changed,
        429 => {
            let seconds = status.details.map(|details| details.retry_after_seconds);
            let asked = seconds.filter(|seconds| *seconds > 0);
            DeletionError::Throttled(asked.map(|seconds| Duration::from_secs(seconds.into())))
        }
        // The API server gave up waiting for its etcd, which may have taken it.
        504 => DeletionError::Unanswered(text),
        _ => DeletionError::Refused(text),
    }
}
