//! Which services are ready, and which have just become so.
//!
//! A service is ready if an endpoint of any of its slices is. A list takes effect as a whole, so
//! that a service whose slices come one after the other in it is not taken for one that was away.

mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

pub use self::names::ServiceNames;
use super::{
    news::{Opening, Pair},
    slice::EndpointSlice,
};

/// The services that are known, by namespace and name.
#[derive(Debug, Default)]
pub struct Services {
    names: ServiceNames,
    /// Whether the slices of all names have been listed.
    current: bool,
    /// The names of which the slices have been listed, perhaps for other names than the present.
    listed: BTreeSet<Arc<str>>,
    namespaces: BTreeMap<Arc<str>, Local>,
    /// The list in progress.
    list: Vec<EndpointSlice>,
}

/// What became of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is ready, which opens windows.
    Ready(Opening),
    /// It was ready and is not any more.
    NotReady,
}

/// The services of one namespace.
#[derive(Debug, Default)]
struct Local {
    services: BTreeMap<Arc<str>, Service>,
    slices: BTreeMap<Box<str>, Slice>,
}

/// A service with at least one slice.
#[derive(Debug, Default)]
struct Service {
    slices: usize,
    ready_slices: usize,
    /// Since when it has been seen ready.
    since: Option<Instant>,
}

#[derive(Debug, PartialEq)]
struct Slice {
    service: Arc<str>,
    version: Box<str>,
    ready: bool,
    unchanged_since: Option<Timestamp>,
}

impl Services {
    /// The services that are watched.
    pub fn names(&self) -> &ServiceNames {
        &self.names
    }

    /// Watches the services of these names, and no others. What is known of those that stay stays
    /// until their slices have been listed again.
    pub fn watch(&mut self, names: BTreeSet<Arc<str>>) {
        if *self.names.names == names {
            return;
        }
        for local in self.namespaces.values_mut() {
            local
                .slices
                .retain(|_, slice| names.contains(&slice.service));
            local.services.retain(|service, _| names.contains(service));
        }
        self.namespaces.retain(|_, local| !local.slices.is_empty());
        self.listed.retain(|name| names.contains(name));
        self.current = false;
        self.list = Vec::new();
        self.names = ServiceNames {
            names: Arc::new(names),
            revision: self.names.revision + 1,
        };
    }

    /// Whether the slices of all names have been listed.
    pub fn listed(&self) -> bool {
        self.current || self.names.is_empty()
    }

    /// Whether the slices of the services of this name have been listed.
    pub fn is_listed(&self, name: &str) -> bool {
        self.listed.contains(name)
    }

    /// Takes up an event of the watch for `names`; one for other names than the present is over.
    pub fn event(
        &mut self,
        names: &ServiceNames,
        event: Event<EndpointSlice>,
        now: Instant,
    ) -> Vec<(Pair, Change)> {
        if *names != self.names {
            return Vec::new();
        }
        match event {
            Event::Init => self.list = Vec::new(),
            Event::InitApply(slice) => self.list.push(slice),
            Event::InitDone => {
                let list = mem::take(&mut self.list);
                return self.replace(list, now);
            }
            Event::Apply(slice) if self.current => return self.apply(&slice, now),
            Event::Delete(slice) if self.current => return self.delete(&slice, now),
            // A watch begins with a list.
            Event::Apply(_) | Event::Delete(_) => {}
        }
        Vec::new()
    }

    /// Whether a service is ready; `None` if it has no slices.
    pub fn is_ready(&self, namespace: &str, service: &str) -> Option<bool> {
        self.service(namespace, service)
            .map(|service| service.since.is_some())
    }

    /// Since when a service has been seen ready, if it is.
    pub fn ready_since(&self, pair: &Pair) -> Option<Instant> {
        self.service(&pair.namespace, &pair.service)?.since
    }

    /// Returns the latest time at which a service that is ready can have become so: a ready slice was ready as
    /// long as it has not changed, whatever the others did. `None` if one does not say since when that is.
    pub fn ready_by(&self, pair: &Pair) -> Option<Timestamp> {
        let slices = self.namespaces.get(&pair.namespace)?.slices.values();
        let ready = slices.filter(|slice| slice.ready && slice.service == pair.service);
        ready.map(|slice| slice.unchanged_since).min().flatten()
    }

    fn service(&self, namespace: &str, service: &str) -> Option<&Service> {
        self.namespaces.get(namespace)?.services.get(service)
    }

    fn apply(&mut self, slice: &EndpointSlice, now: Instant) -> Vec<(Pair, Change)> {
        let Some((namespace, name)) = identity(slice) else {
            return Vec::new();
        };
        let new = self.slice(slice);
        self.put(namespace, name, new, now)
    }

    fn delete(&mut self, slice: &EndpointSlice, now: Instant) -> Vec<(Pair, Change)> {
        match identity(slice) {
            Some((namespace, name)) => self.put(namespace, name, None, now),
            None => Vec::new(),
        }
    }

    /// What counts of a slice, if it is one of a service that is watched.
    fn slice(&self, slice: &EndpointSlice) -> Option<Slice> {
        let service = self.names.names.get(slice.service.as_deref()?)?;
        let version = slice.metadata.resource_version.as_deref();
        Some(Slice {
            service: service.clone(),
            version: version.unwrap_or_default().into(),
            ready: slice.ready,
            unchanged_since: slice.unchanged_since,
        })
    }

    /// Puts `new` in the place of the slice of this name. It may belong to another service than the
    /// one before.
    fn put(
        &mut self,
        namespace: &str,
        name: &str,
        new: Option<Slice>,
        now: Instant,
    ) -> Vec<(Pair, Change)> {
        let namespace = shared(&self.namespaces, namespace);
        let local = self.namespaces.entry(namespace.clone()).or_default();
        let touched: BTreeSet<Arc<str>> = [local.slices.get(name), new.as_ref()]
            .into_iter()
            .flatten()
            .map(|slice| slice.service.clone())
            .collect();
        local.remove(name);
        if let Some(new) = new {
            local.insert(name.into(), new);
        }
        let mut changes = Vec::new();
        for service in touched {
            if let Some(change) = local.review(&service, now) {
                let namespace = namespace.clone();
                changes.push((Pair { namespace, service }, change));
            }
        }
        if local.slices.is_empty() {
            self.namespaces.remove(&namespace);
        }
        changes
    }

    /// The slices have been listed: there are no others.
    fn replace(&mut self, list: Vec<EndpointSlice>, now: Instant) -> Vec<(Pair, Change)> {
        let mut before = mem::take(&mut self.namespaces);
        for slice in &list {
            if let Some((namespace, name)) = identity(slice)
                && let Some(new) = self.slice(slice)
            {
                let namespace = shared(&before, namespace);
                let local = self.namespaces.entry(namespace).or_default();
                local.remove(name);
                local.insert(name.into(), new);
            }
        }
        let mut changes = Vec::new();
        for (namespace, local) in &mut self.namespaces {
            let old = before.remove(namespace).unwrap_or_default();
            local.succeed(old, &self.listed, now, |service, change| {
                let namespace = namespace.clone();
                changes.push((Pair { namespace, service }, change));
            });
        }
        for (namespace, old) in before {
            Local::default().succeed(old, &self.listed, now, |service, change| {
                let namespace = namespace.clone();
                changes.push((Pair { namespace, service }, change));
            });
        }
        self.listed = (*self.names.names).clone();
        self.current = true;
        changes
    }
}

impl Local {
    fn insert(&mut self, name: Box<str>, slice: Slice) {
        let service = self.services.entry(slice.service.clone()).or_default();
        service.slices += 1;
        service.ready_slices += usize::from(slice.ready);
        self.slices.insert(name, slice);
    }

    /// Takes a slice away. The entry of its service stays, so that it can be told what became of it.
    fn remove(&mut self, name: &str) {
        if let Some(slice) = self.slices.remove(name)
            && let Some(service) = self.services.get_mut(&slice.service)
        {
            service.slices -= 1;
            service.ready_slices -= usize::from(slice.ready);
        }
    }

    /// Tells what became of a service whose slices have changed.
    fn review(&mut self, name: &str, now: Instant) -> Option<Change> {
        let service = self.services.get_mut(name)?;
        let change = match (service.since, service.ready_slices) {
            (None, 1..) => {
                service.since = Some(now);
                Some(Change::Ready(Opening::Recovered))
            }
            (Some(_), 0) => {
                service.since = None;
                Some(Change::NotReady)
            }
            _ => None,
        };
        if service.slices == 0 {
            self.services.remove(name);
        }
        change
    }

    /// Takes the place of `old` after a list, and tells what became of each service.
    fn succeed(
        &mut self,
        old: Local,
        listed: &BTreeSet<Arc<str>>,
        now: Instant,
        mut tell: impl FnMut(Arc<str>, Change),
    ) {
        // A list in parts can show a slice twice.
        self.services.retain(|_, service| service.slices > 0);
        // A ready slice of the same version has been there, and ready, all the time.
        let steady: BTreeSet<&str> = self
            .slices
            .iter()
            .filter(|(name, slice)| slice.ready && old.slices.get(*name) == Some(slice))
            .map(|(_, slice)| &*slice.service)
            .collect();
        for (name, service) in &mut self.services {
            if service.ready_slices == 0 {
                continue;
            }
            let before = old.services.get(name).and_then(|service| service.since);
            service.since = Some(now);
            let why = match before {
                _ if !listed.contains(name) => Opening::FoundReady,
                None => Opening::Recovered,
                Some(since) if steady.contains(&**name) => {
                    service.since = Some(since);
                    continue;
                }
                Some(_) => Opening::ChangedUnseen,
            };
            tell(name.clone(), Change::Ready(why));
        }
        for (name, before) in old.services {
            let ready = self.services.get(&name).and_then(|service| service.since);
            if before.since.is_some() && ready.is_none() {
                tell(name, Change::NotReady);
            }
        }
    }
}

/// The name of a namespace, shared with the one that is known.
fn shared(known: &BTreeMap<Arc<str>, Local>, name: &str) -> Arc<str> {
    let known = known.get_key_value(name);
    known.map_or_else(|| name.into(), |(known, _)| known.clone())
}

fn identity(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let metadata = &slice.metadata;
    Some((metadata.namespace.as_deref()?, metadata.name.as_deref()?))
}

#[cfg(test)]
mod tests;
