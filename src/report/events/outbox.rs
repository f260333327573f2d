//! Events that are to be sent: those that wait, and the one on its way. Each is sent once: one that
//! fails is not worth a second request.

use std::{env, future};

use futures::future::BoxFuture;
use kube::{
    core::Status,
    runtime::events::{self, Recorder},
};

use super::queue::Queue;
use crate::{
    report::{allowance::Allowance, metrics::EventCounts},
    runtime::seed::{CallError, Seed},
};

/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1_024;
/// The longest name of an instance that it takes, in bytes.
const MAX_INSTANCE: usize = 128;

/// Sends events one at a time.
pub(crate) struct Outbox {
    seed: Seed,
    recorder: Recorder,
    /// The limit for what the log says of failures.
    complaints: Allowance,
    /// The event on its way.
    publishing: Option<BoxFuture<'static, Result<(), CallError>>>,
}

impl Outbox {
    /// Sends events to this seed, within its budget, by the name of this controller.
    pub(crate) fn new(seed: Seed, controller: &str) -> Self {
        let reporter = events::Reporter {
            controller: controller.to_owned(),
            instance: instance(controller),
        };
        Self {
            recorder: Recorder::new(seed.client().clone(), reporter),
            seed,
            complaints: Allowance::full(),
            publishing: None,
        }
    }

    /// Begins with the oldest, unless one is on its way; tells whether there was one to begin with. The
    /// same one of the last minutes is counted in a series, with the note of the first.
    pub(crate) fn send_next(&mut self, queue: &mut Queue) -> bool {
        if self.publishing.is_some() {
            return false;
        }
        let Some((regarding, event)) = queue.pop() else {
            return false;
        };
        let (seed, recorder) = (self.seed.clone(), self.recorder.clone());
        let event = events::Event {
            type_: event.type_,
            reason: event.reason.into_owned(),
            note: Some(cut(event.note, MAX_NOTE)),
            action: event.action.to_owned(),
            secondary: event.related.map(|related| *related),
        };
        let publish = async move { seed.call(recorder.publish(&event, &regarding)).await };
        self.publishing = Some(Box::pin(publish));
        true
    }

    /// Follows the one on its way to its end, which never comes if there is none. Can be broken off
    /// and called again.
    pub(crate) async fn sent(&mut self, counts: &EventCounts) {
        let Some(publishing) = &mut self.publishing else {
            return future::pending().await;
        };
        let published = publishing.await;
        self.publishing = None;
        match published {
            Ok(()) => {
                counts.written.inc();
            }
            Err(error) => {
                counts.dropped.inc();
                self.complain(&error);
            }
        }
    }

    /// Sends all that wait.
    pub(crate) async fn send_all(&mut self, queue: &mut Queue) {
        while self.publishing.is_some() || self.send_next(queue) {
            self.sent(&queue.counts).await;
        }
    }

    fn complain(&mut self, error: &CallError) {
        if matches!(error, CallError::Refused(status) if is_terminating(status)) {
            tracing::debug!(%error, "an event was not written: its namespace is being deleted");
            return;
        }
        if self.complaints.take() {
            tracing::warn!(%error, "an event was not written; it is not tried again");
        }
    }
}

/// Returns the name of this replica of the operator: its pod.
fn instance(controller: &str) -> Option<String> {
    let named = |name: &&str| env::var(name).ok().filter(|it| !it.is_empty());
    let instance = ["POD_NAME", "HOSTNAME"].iter().find_map(named);
    let instance = instance.or_else(|| events::Reporter::from(controller).instance);
    instance.map(|name| cut(name, MAX_INSTANCE))
}

/// The beginning of a text, of so many bytes at most.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// Returns whether the namespace takes nothing new any more: its control plane is being deleted.
fn is_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::terminating("NamespaceTerminating", true)]
    #[case::another("Other", false)]
    fn a_namespace_that_is_being_deleted(#[case] cause: &str, #[case] expected: bool) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "because it is being terminated",
            "details": {"causes": [{"reason": cause, "field": "metadata.namespace"}]},
        });
        assert_eq!(
            is_terminating(&serde_json::from_value(status).unwrap()),
            expected
        );
    }
}
