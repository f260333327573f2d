//! Sends events to the seed, each once: one that fails is not worth a second request.

use std::{collections::BTreeMap, env, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    core::Status,
    runtime::events::{self, Recorder},
};
use tokio::time::Instant;

use super::{Event, EventCounts};
use crate::runtime::seed::{CallError, Seed};

/// By which name the operator tells events.
const CONTROLLER: &str = "dependency-watchdog-prober";
/// The longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1_024;
/// The longest name of an instance that it takes, in bytes.
const MAX_INSTANCE: usize = 128;
/// A failure of one kind is logged once in this time.
const COMPLAIN: Duration = Duration::from_secs(3_600);

/// Sends events.
pub(in crate::health) struct Publisher {
    seed: Seed,
    recorder: Recorder,
    counts: EventCounts,
    /// When failures were last logged, by their HTTP status.
    complained: BTreeMap<Option<u16>, Instant>,
}

/// An event on its way.
pub(in crate::health) type Publishing = BoxFuture<'static, Result<(), CallError>>;

impl Publisher {
    /// Sends events to this seed, within its budget.
    pub(in crate::health) fn new(seed: Seed, counts: EventCounts) -> Self {
        let reporter = events::Reporter {
            controller: CONTROLLER.to_owned(),
            instance: instance(),
        };
        Self {
            recorder: Recorder::new(seed.client().clone(), reporter),
            seed,
            counts,
            complained: BTreeMap::new(),
        }
    }

    /// Sends an event about this object. The same one of the last minutes is counted in a series,
    /// with the note of the first.
    pub(in crate::health) fn publish(
        &self,
        regarding: ObjectReference,
        event: Event,
    ) -> Publishing {
        let (seed, recorder) = (self.seed.clone(), self.recorder.clone());
        let Event { kind, note } = event;
        let event = events::Event {
            type_: kind.type_,
            reason: kind.reason.to_owned(),
            note: Some(cut(note, MAX_NOTE)).filter(|note| !note.is_empty()),
            action: kind.action.to_owned(),
            secondary: None,
        };
        Box::pin(async move { seed.call(recorder.publish(&event, &regarding)).await })
    }

    /// Takes down how it ended.
    pub(in crate::health) fn published(&mut self, published: Result<(), CallError>) {
        match published {
            Ok(()) => self.counts.add_emitted(),
            Err(error) => {
                self.counts.add_dropped(1);
                self.complain(&error);
            }
        }
    }

    fn complain(&mut self, error: &CallError) {
        if matches!(error, CallError::Refused(status) if is_terminating(status)) {
            tracing::debug!(%error, "an event was not written: its namespace is being deleted");
            return;
        }
        let (kind, now) = (error.code(), Instant::now());
        let before = self.complained.get(&kind);
        if before.is_none_or(|before| now.duration_since(*before) >= COMPLAIN) {
            self.complained.insert(kind, now);
            tracing::warn!(
                %error,
                "an event was not written; it is not tried again, and further ones that fail like \
                 this are only counted for an hour"
            );
        }
    }
}

/// Which replica of the operator this is: its pod.
fn instance() -> Option<String> {
    let named = ["POD_NAME", "HOSTNAME"].into_iter();
    let mut named = named.filter_map(|name| env::var(name).ok().filter(|it| !it.is_empty()));
    let instance = named.next();
    let instance = instance.or_else(|| events::Reporter::from(CONTROLLER).instance);
    instance.map(|name| cut(name, MAX_INSTANCE))
}

/// The beginning of a text, of so many bytes at most.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// Whether the namespace takes nothing new any more: its control plane is being deleted.
fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::short("ab", 3, "ab")]
    #[case::just("abc", 3, "abc")]
    #[case::long("abcd", 3, "abc")]
    #[case::between_bytes("abß", 3, "ab")]
    fn a_text_is_cut_between_characters(
        #[case] text: &str,
        #[case] most: usize,
        #[case] expected: &str,
    ) {
        assert_eq!(cut(text.to_owned(), most), expected);
    }
}
