//! Deleting one pod, and nothing else that may have its name by now.

use std::time::Duration;

use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};

use super::{
    attempts::{Deletion, DeletionError},
    pod::Pod,
};
use crate::runtime::seed::{CallError, Seed};

/// Deletes the pod, whose turn it is, if it is still the one, and the version of it, that was judged.
/// It has its own grace period to end.
///
/// # Errors
///
/// If it was not deleted, or nobody knows.
pub(super) async fn delete(seed: &Seed, deletion: &Deletion) -> Result<(), DeletionError> {
    let api: Api<Pod> = Api::namespaced(seed.client().clone(), &deletion.namespace);
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(deletion.uid.to_string()),
        resource_version: Some(deletion.resource_version.to_string()),
    });
    let answer = seed.call_at_turn(api.delete(&deletion.pod, &params)).await;
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
