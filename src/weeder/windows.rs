//! Windows: for which services pods are deleted, on whose behalf, and until when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use super::{news::Pair, policy::Terms};

/// The open windows.
#[derive(Debug, Default)]
pub struct Windows {
    open: BTreeMap<Pair, BTreeMap<Arc<str>, Window>>,
    by_policy: BTreeMap<Arc<str>, BTreeSet<Pair>>,
    ends: BTreeSet<(Instant, Pair, Arc<str>)>,
}

/// A time in which pods are deleted since a service has become ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// When it was opened.
    pub opened: Instant,
    /// What its policy asks for at present.
    pub terms: Terms,
}

impl Window {
    /// When it ends. A duration is a day at most.
    fn end(&self) -> Instant {
        let end = self.opened.checked_add(self.terms.lasts);
        end.unwrap_or(self.opened)
    }
}

impl Windows {
    /// Opens a window; one that is open begins anew. Returns that one.
    pub fn open(&mut self, pair: &Pair, policy: &Arc<str>, window: Window) -> Option<Window> {
        let former = self.close(pair, policy);
        let end = window.end();
        self.ends.insert((end, pair.clone(), policy.clone()));
        let pairs = self.by_policy.entry(policy.clone()).or_default();
        pairs.insert(pair.clone());
        let windows = self.open.entry(pair.clone()).or_default();
        windows.insert(policy.clone(), window);
        former
    }

    /// Closes a window and returns it.
    pub fn close(&mut self, pair: &Pair, policy: &Arc<str>) -> Option<Window> {
        let windows = self.open.get_mut(pair)?;
        let window = windows.remove(policy)?;
        if windows.is_empty() {
            self.open.remove(pair);
        }
        if let Some(pairs) = self.by_policy.get_mut(policy) {
            pairs.remove(pair);
            if pairs.is_empty() {
                self.by_policy.remove(policy);
            }
        }
        self.ends
            .remove(&(window.end(), pair.clone(), policy.clone()));
        Some(window)
    }

    /// Whether a window is open in this namespace.
    pub fn any_in(&self, namespace: &str) -> bool {
        let first = Pair {
            namespace: namespace.into(),
            service: "".into(),
        };
        let mut open = self.open.range(first..);
        open.next()
            .is_some_and(|(pair, _)| &*pair.namespace == namespace)
    }

    /// The window of a policy for a service.
    pub fn get(&self, pair: &Pair, policy: &str) -> Option<&Window> {
        self.open.get(pair)?.get(policy)
    }

    /// The policies with a window for this service.
    pub fn policies(&self, pair: &Pair) -> Vec<Arc<str>> {
        let windows = self.open.get(pair).into_iter().flatten();
        windows.map(|(policy, _)| policy.clone()).collect()
    }

    /// How many windows are open.
    pub fn total(&self) -> usize {
        self.ends.len()
    }

    /// How many windows a policy has.
    pub fn count(&self, policy: &str) -> usize {
        self.by_policy.get(policy).map_or(0, BTreeSet::len)
    }

    /// The services for which a policy has windows, sorted.
    pub fn pairs(&self, policy: &str) -> impl Iterator<Item = &Pair> {
        self.by_policy.get(policy).into_iter().flatten()
    }

    /// The windows whose time is over.
    pub fn elapsed(&self, now: Instant) -> Vec<(Pair, Arc<str>)> {
        let ends = self.ends.iter().take_while(|(end, ..)| *end <= now);
        ends.map(|(_, pair, policy)| (pair.clone(), policy.clone()))
            .collect()
    }

    /// When the next window ends.
    pub fn due(&self) -> Option<Instant> {
        self.ends.first().map(|(end, ..)| *end)
    }
}
