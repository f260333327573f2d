//! Which pods are watched: those that an open window needs, and no others.
//!
//! Each namespace has a watch of its own as long as few need the same pods. When a whole seed
//! recovers, one watch of all namespaces takes their place: a few lists, and not thousands of
//! watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::news::Pair;
use crate::api::Selector;

/// The most namespaces that have a watch of their own for the same selector.
const MAX_LOCAL: usize = 20;

/// A watch of pods. Two with the same scope and selector are not the same if one was wanted anew
/// after it had not been: what it told is forgotten, so it has to list again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodWatch {
    /// Counts the watches.
    serial: u64,
    /// The namespace; all, if `None`.
    pub namespace: Option<Arc<str>>,
    /// Which pods.
    pub selector: Arc<Selector>,
}

/// What windows need, and the watches that serve it.
#[derive(Debug, Default)]
pub struct Scopes {
    scopes: BTreeMap<Arc<Selector>, Scope>,
    /// The selectors whose needs have changed since the watches were last settled.
    changed: BTreeSet<Arc<Selector>>,
    watches: BTreeSet<PodWatch>,
    /// Why a watch is broken.
    broken: BTreeMap<PodWatch, String>,
    serial: u64,
}

/// A window, by its service and its policy, that needs pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// The service in its namespace.
    pub pair: Pair,
    /// The policy.
    pub policy: Arc<str>,
}

/// The watches of one selector.
#[derive(Debug, Default)]
struct Scope {
    /// Who needs it, by namespace.
    claims: BTreeMap<Arc<str>, BTreeSet<Claim>>,
    local: BTreeMap<Arc<str>, PodWatch>,
    all: Option<PodWatch>,
    /// Whether `all` has been listed, so that the others are of no more use.
    all_listed: bool,
}

impl Scopes {
    /// A window needs these pods.
    pub fn need(&mut self, selector: &Arc<Selector>, claim: &Claim) {
        let scope = self.scopes.entry(selector.clone()).or_default();
        let claims = scope.claims.entry(claim.pair.namespace.clone());
        claims.or_default().insert(claim.clone());
        self.changed.insert(selector.clone());
    }

    /// A window does not need these pods any more.
    pub fn release(&mut self, selector: &Arc<Selector>, claim: &Claim) {
        let Some(scope) = self.scopes.get_mut(selector) else {
            return;
        };
        if let Some(claims) = scope.claims.get_mut(&claim.pair.namespace) {
            claims.remove(claim);
            if claims.is_empty() {
                scope.claims.remove(&claim.pair.namespace);
            }
        }
        self.changed.insert(selector.clone());
    }

    /// A watch has been listed.
    pub fn listed(&mut self, watch: &PodWatch) {
        if let Some(scope) = self.scopes.get_mut(&watch.selector)
            && scope.all.as_ref() == Some(watch)
        {
            scope.all_listed = true;
            self.changed.insert(watch.selector.clone());
        }
    }

    /// The windows that need the pods of this selector in a namespace.
    pub fn claims(&self, selector: &Selector, namespace: &str) -> impl Iterator<Item = &Claim> {
        let scope = self.scopes.get(selector);
        let claims = scope.and_then(|scope| scope.claims.get(namespace));
        claims.into_iter().flatten()
    }

    /// The windows that a watch serves.
    pub fn served(&self, watch: &PodWatch) -> impl Iterator<Item = &Claim> {
        let scope = self.scopes.get(&*watch.selector);
        let claims = scope.into_iter().flat_map(|scope| &scope.claims);
        let served = claims.filter(|(namespace, _)| {
            let only = watch.namespace.as_ref();
            only.is_none_or(|only| only == *namespace)
        });
        served.flat_map(|(_, claims)| claims)
    }

    /// Which pods are to be watched.
    pub fn watches(&self) -> &BTreeSet<PodWatch> {
        &self.watches
    }

    /// A watch broke, or could not be begun: what was tried and what failed.
    pub fn broke(&mut self, watch: &PodWatch, message: String) {
        if self.watches.contains(watch) {
            self.broken.insert(watch.clone(), message);
        }
    }

    /// A watch works.
    pub fn works(&mut self, watch: &PodWatch) {
        self.broken.remove(watch);
    }

    /// The watches that are broken, and why.
    pub fn broken(&self) -> impl Iterator<Item = (&PodWatch, &str)> {
        self.broken.iter().map(|(watch, why)| (watch, &**why))
    }

    /// Begins and ends watches, and returns those that have ended.
    pub fn settle(&mut self) -> Vec<PodWatch> {
        let mut ended = Vec::new();
        while let Some(selector) = self.changed.pop_first() {
            let Some(scope) = self.scopes.get_mut(&selector) else {
                continue;
            };
            let before = scope.watches();
            scope.settle(&selector, &mut self.serial);
            let after = scope.watches();
            if scope.claims.is_empty() {
                self.scopes.remove(&selector);
            }
            for watch in before.difference(&after) {
                self.watches.remove(watch);
                self.broken.remove(watch);
                ended.push(watch.clone());
            }
            self.watches.extend(after.difference(&before).cloned());
        }
        ended
    }
}

impl Scope {
    fn watches(&self) -> BTreeSet<PodWatch> {
        self.local.values().chain(&self.all).cloned().collect()
    }

    fn settle(&mut self, selector: &Arc<Selector>, serial: &mut u64) {
        let mut watch = |namespace| {
            *serial += 1;
            PodWatch {
                serial: *serial,
                namespace,
                selector: selector.clone(),
            }
        };
        if self.claims.is_empty() {
            self.local.clear();
            self.all = None;
            return;
        }
        self.local
            .retain(|namespace, _| self.claims.contains_key(namespace));
        // What serves all goes on until nobody needs it, and those before it until it has been
        // listed: no pod is missed on the way, and none is listed again when the windows close one
        // after the other.
        match &self.all {
            Some(_) if self.all_listed => self.local.clear(),
            Some(_) => {}
            None if self.claims.len() > MAX_LOCAL => self.all = Some(watch(None)),
            None => {
                for namespace in self.claims.keys() {
                    let local = self.local.entry(namespace.clone());
                    local.or_insert_with(|| watch(Some(namespace.clone())));
                }
            }
        }
    }
}
