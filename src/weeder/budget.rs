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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A budget for which these pods wait: their namespaces, their UIDs, and when they were first
    /// seen looping, in seconds.
    fn waiting(pods: &[(&str, &str, u64)]) -> Budget {
        let start = Instant::now();
        let mut budget = Budget::default();
        for (namespace, uid, since) in pods {
            let since = start + Duration::from_secs(*since);
            budget.enqueue(&Arc::from(*namespace), &Arc::from(*uid), since);
        }
        budget
    }

    fn take_all(budget: &mut Budget) -> Vec<String> {
        let turns = std::iter::from_fn(|| budget.take());
        turns.map(|(_, uid)| uid.to_string()).collect()
    }

    #[test]
    fn the_namespace_with_the_fewest_goes_first_and_then_who_has_waited_longest() {
        let mut budget = waiting(&[
            ("a", "a1", 1),
            ("a", "a2", 2),
            ("b", "b5", 5),
            ("b", "b4", 4),
            ("c", "c3", 3),
        ]);
        assert_eq!(take_all(&mut budget), ["a1", "c3", "b4", "a2", "b5"]);
        assert!(!budget.is_free());
    }

    #[test]
    fn a_namespace_has_few_at_once() {
        let pods: Vec<String> = (0..6).map(|pod| format!("a{pod}")).collect();
        let pods: Vec<_> = pods.iter().map(|uid| ("a", &**uid, 0)).collect();
        let mut budget = waiting(&pods);
        assert_eq!(take_all(&mut budget).len(), MAX_IN_NAMESPACE);
        assert!(!budget.is_free());
        budget.ended(&Arc::from("a"));
        assert_eq!(take_all(&mut budget), ["a4"]);
    }

    #[test]
    fn all_namespaces_have_few_at_once() {
        let names: Vec<String> = (0..40).map(|name| format!("n{name}")).collect();
        let pods: Vec<_> = names.iter().map(|name| (&**name, &**name, 0)).collect();
        let mut budget = waiting(&pods);
        let taken = take_all(&mut budget);
        assert_eq!((taken.len(), budget.waiting()), (MAX_IN_FLIGHT, 8));
        assert!(!budget.is_free());
        for name in taken {
            budget.ended(&name.into());
        }
        assert_eq!((take_all(&mut budget).len(), budget.waiting()), (8, 0));
    }

    #[test]
    fn who_does_not_wait_any_more_is_passed_over() {
        let mut budget = waiting(&[("a", "a1", 1), ("a", "a2", 2), ("b", "b3", 3)]);
        budget.withdraw("a1");
        budget.withdraw("unknown");
        assert_eq!(take_all(&mut budget), ["a2", "b3"]);
        budget.ended(&Arc::from("a"));
        budget.ended(&Arc::from("b"));
        assert_eq!(budget.in_flight(), 0);
        assert!(budget.namespaces.is_empty() && budget.open.is_empty());
    }
}
