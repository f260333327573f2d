//! Events that wait to be written: so many, and no more. When there is no room, what only informs
//! gives way to what somebody may have to look at.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;

use super::Event;
use crate::report::metrics::EventCounts;

/// Most events that wait: some megabytes, and minutes at the default budget.
pub(crate) const LIMIT: usize = 1_000;

/// Events that wait, the oldest first.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<(ObjectReference, Event)>,
    pub(in crate::report) counts: EventCounts,
}

impl Queue {
    /// Returns a queue that counts what it drops.
    pub(crate) fn new(counts: EventCounts) -> Self {
        Self {
            waiting: VecDeque::new(),
            counts,
        }
    }

    /// Takes up an event about this object. If there is no room, the oldest one that only informs
    /// is dropped, or else the oldest.
    pub(crate) fn push(&mut self, regarding: ObjectReference, event: Event) {
        let informs = |event: &Event| event.type_ == EventType::Normal;
        if self.waiting.len() >= LIMIT {
            self.counts.dropped.inc();
            let oldest = self.waiting.iter().position(|(_, known)| informs(known));
            if oldest.is_none() && informs(&event) {
                return;
            }
            self.waiting.remove(oldest.unwrap_or(0));
        }
        self.waiting.push_back((regarding, event));
    }

    /// The oldest, which waits no more.
    pub(crate) fn pop(&mut self) -> Option<(ObjectReference, Event)> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {

    use super::{
        super::{
            Kind,
            kinds::{SCALED_DOWN, SCALED_UP},
        },
        *,
    };

    fn push(queue: &mut Queue, kind: &'static Kind, number: usize) {
        queue.push(
            ObjectReference::default(),
            Event::new(kind, number.to_string()),
        );
    }

    fn notes(mut queue: Queue) -> Vec<String> {
        let waiting = std::iter::from_fn(move || queue.pop());
        waiting.map(|(_, event)| event.note).collect()
    }

    fn dropped(queue: &Queue) -> u64 {
        queue.counts.dropped.get()
    }

    #[test]
    fn the_oldest_that_only_informs_gives_way() {
        let mut queue = Queue::new(EventCounts::default());
        push(&mut queue, &SCALED_DOWN, 0);
        push(&mut queue, &SCALED_UP, 1);
        for number in 2..LIMIT {
            push(&mut queue, &SCALED_DOWN, number);
        }
        assert_eq!(dropped(&queue), 0);
        push(&mut queue, &SCALED_DOWN, LIMIT);
        // None is left that only informs: one that does is itself dropped ...
        push(&mut queue, &SCALED_UP, LIMIT + 1);
        assert_eq!(dropped(&queue), 2);
        // ... and of those that do not, the oldest.
        push(&mut queue, &SCALED_DOWN, LIMIT + 2);
        assert_eq!(dropped(&queue), 3);
        let expected = (2..=LIMIT).chain([LIMIT + 2]);
        let expected: Vec<String> = expected.map(|number| number.to_string()).collect();
        assert_eq!(notes(queue), expected);
    }
}
