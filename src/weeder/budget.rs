//! Whose turn it is to be deleted.
//!
//! Requests are few at once, and fewer in one namespace, so that no control plane waits for the
//! restart of another's pods. Which pod is next is decided only when a request is free for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

/// The most deletions at once.
pub const MAX_IN_FLIGHT: usize = 32;
/// The most deletions at once in one namespace.
pub const MAX_IN_NAMESPACE: usize = 4;

/// The pods that wait to be deleted, and how many are on the way.
#[derive(Debug, Default)]
pub struct Budget {
    namespaces: BTreeMap<Arc<str>, Queue>,
    /// The namespaces with a pod that may be deleted, by precedence: the fewest in flight, then the
    /// pod that has looped for longest.
    open: BTreeSet<(usize, Turn, Arc<str>)>,
    /// The pods that wait, by UID, with their namespaces and since when they loop.
    waiting: BTreeMap<Arc<str>, (Arc<str>, Instant)>,
    in_flight: usize,
}

/// Since when a pod loops, and its UID.
type Turn = (Instant, Arc<str>);

#[derive(Debug, Default)]
struct Queue {
    turns: BTreeSet<Turn>,
    in_flight: usize,
}

impl Queue {
    fn place(&self, namespace: &Arc<str>) -> Option<(usize, Turn, Arc<str>)> {
        let first = self.turns.first()?;
        let free = self.in_flight < MAX_IN_NAMESPACE;
        free.then(|| (self.in_flight, first.clone(), namespace.clone()))
    }
}

impl Budget {
    /// A pod waits.
    pub fn enqueue(&mut self, namespace: &Arc<str>, uid: &Arc<str>, since: Instant) {
        self.withdraw(uid);
        self.waiting.insert(uid.clone(), (namespace.clone(), since));
        self.change(namespace, |queue| {
            queue.turns.insert((since, uid.clone()));
        });
    }

    /// A pod does not wait any more.
    pub fn withdraw(&mut self, uid: &str) {
        if let Some((uid, (namespace, since))) = self.waiting.remove_entry(uid) {
            self.change(&namespace, |queue| {
                queue.turns.remove(&(since, uid));
            });
        }
    }

    /// Whether a pod may be taken.
    pub fn is_free(&self) -> bool {
        self.in_flight < MAX_IN_FLIGHT && !self.open.is_empty()
    }

    /// The namespace and the UID of the pod whose turn it is. It is in flight from now on.
    pub fn take(&mut self) -> Option<(Arc<str>, Arc<str>)> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let (_, (_, uid), namespace) = self.open.first().cloned()?;
        self.withdraw(&uid);
        self.in_flight += 1;
        self.change(&namespace, |queue| queue.in_flight += 1);
        Some((namespace, uid))
    }

    /// A deletion in this namespace has ended.
    pub fn ended(&mut self, namespace: &Arc<str>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.change(namespace, |queue| {
            queue.in_flight = queue.in_flight.saturating_sub(1);
        });
    }

    /// How many pods wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many deletions are on the way.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn change(&mut self, namespace: &Arc<str>, change: impl FnOnce(&mut Queue)) {
        let queue = self.namespaces.entry(namespace.clone()).or_default();
        if let Some(place) = queue.place(namespace) {
            self.open.remove(&place);
        }
        change(queue);
        if let Some(place) = queue.place(namespace) {
            self.open.insert(place);
        }
        if queue.turns.is_empty() && queue.in_flight == 0 {
            self.namespaces.remove(namespace);
        }
    }
}
