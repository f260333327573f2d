//! Events that are to be sent: those that wait, and the one on its way.

use std::future;

use k8s_openapi::api::core::v1::ObjectReference;

use super::{
    Event, EventCounts,
    publisher::{Publisher, Publishing},
    queue::Queue,
};
use crate::runtime::seed::Seed;

/// Sends events one at a time.
pub(crate) struct Outbox {
    queue: Queue,
    publisher: Publisher,
    /// The event on its way.
    publishing: Option<Publishing>,
}

impl Outbox {
    /// Sends events to this seed, within its budget, by the name of this controller.
    pub(crate) fn new(seed: Seed, controller: &str, counts: EventCounts) -> Self {
        Self {
            queue: Queue::new(counts.clone()),
            publisher: Publisher::new(seed, controller, counts),
            publishing: None,
        }
    }

    /// Takes up an event about this object.
    pub(crate) fn push(&mut self, regarding: ObjectReference, event: Event) {
        self.queue.push(regarding, event);
    }

    /// Begins with the oldest, unless one is on its way; tells whether there was one to begin with.
    pub(crate) fn send_next(&mut self) -> bool {
        if self.publishing.is_none()
            && let Some((regarding, event)) = self.queue.pop()
        {
            self.publishing = Some(self.publisher.publish(regarding, event));
            return true;
        }
        false
    }

    /// Follows the one on its way to its end, which never comes if there is none. Can be broken off
    /// and called again.
    pub(crate) async fn sent(&mut self) {
        match &mut self.publishing {
            Some(publishing) => {
                let published = publishing.await;
                self.publishing = None;
                self.publisher.published(published);
            }
            None => future::pending().await,
        }
    }

    /// Sends all that wait.
    pub(crate) async fn send_all(&mut self) {
        loop {
            self.send_next();
            if self.publishing.is_none() {
                return;
            }
            self.sent().await;
        }
    }

    /// Drops all that are left, since there is no time.
    pub(crate) fn give_up(&mut self) {
        self.queue.give_up(self.publishing.is_some());
    }
}
