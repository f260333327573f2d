//! What the watches show of pods that crash.
//!
//! Several watches can show the same pod, each at its own pace: a pod is known by its UID, and the
//! newest version that any of them has told counts. One that has looped is remembered until no watch
//! shows it any more; those that never did are not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use super::{pod::Pod, scopes::PodWatch};
use crate::weeder::report::PodOwner;

/// The pods that loop, or did.
#[derive(Debug, Default)]
pub struct Looping {
    /// By UID.
    pods: BTreeMap<Arc<str>, Sighting>,
    /// The UIDs by namespace.
    namespaces: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    watches: BTreeMap<PodWatch, Shown>,
}

/// A pod, as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub pod: Arc<str>,
    /// Its resourceVersion.
    pub version: Arc<str>,
    /// Its controller.
    pub controller: Option<PodOwner>,
    /// What it does.
    pub condition: Condition,
    /// The watches that show it.
    pub watches: BTreeSet<PodWatch>,
    /// The server has said that this version is not the present one: another is to come.
    outdated: bool,
}

/// What a pod does.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// It waits in `CrashLoopBackOff`.
    Looping {
        /// Since when it has been seen doing so.
        since: Instant,
        /// The containers that do.
        containers: Vec<Arc<str>>,
    },
    /// It does not, at the moment.
    Settled,
    /// It is being deleted.
    Terminating,
}

/// What became of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is there, perhaps in another condition.
    There(Arc<str>),
    /// It is gone: no watch shows it any more.
    Gone(Arc<str>),
}

/// What a watch shows.
#[derive(Debug, Default)]
struct Shown {
    uids: BTreeSet<Arc<str>>,
    /// The list in progress, without what does not matter.
    list: Vec<Pod>,
}

impl Sighting {
    /// Since when it loops, and which containers, if that is the last word.
    pub fn looping(&self) -> Option<(Instant, &[Arc<str>])> {
        match &self.condition {
            Condition::Looping { since, containers } if !self.outdated => {
                Some((*since, containers))
            }
            _ => None,
        }
    }

    /// Whether a version that is told now takes the place of this one. Watches lag behind each other
    /// by different times.
    fn yields_to(&self, version: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        if self.outdated {
            return *self.version != *version;
        }
        match (number(&self.version), number(version)) {
            (Some(known), Some(told)) => told >= known,
            _ => true,
        }
    }
}

impl Looping {
    /// Takes up an event of a watch.
    pub fn event(&mut self, watch: &PodWatch, event: Event<Pod>, now: Instant) -> Vec<Seen> {
        match event {
            Event::Apply(pod) => self.show(watch, pod, now).into_iter().collect(),
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                self.hide(watch, uid).into_iter().collect()
            }
            Event::Init => {
                self.shown(watch).list = Vec::new();
                Vec::new()
            }
            Event::InitApply(pod) => {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                if pod.is_looping() || self.pods.contains_key(uid) {
                    self.shown(watch).list.push(pod);
                }
                Vec::new()
            }
            Event::InitDone => self.replace(watch, now),
        }
    }

    /// A watch has ended. Returns the pods that no other shows.
    pub fn end(&mut self, watch: &PodWatch) -> Vec<Arc<str>> {
        let shown = self.watches.remove(watch).unwrap_or_default();
        let mut forgotten = Vec::new();
        for uid in shown.uids {
            if self.withdraw(watch, &uid) {
                forgotten.push(uid);
            }
        }
        forgotten
    }

    /// The server does not have a pod in this version any more.
    pub fn outdate(&mut self, uid: &str, version: &str) {
        if let Some(sighting) = self.pods.get_mut(uid)
            && *sighting.version == *version
        {
            sighting.outdated = true;
        }
    }

    /// A pod that loops, or did.
    pub fn get(&self, uid: &str) -> Option<&Sighting> {
        self.pods.get(uid)
    }

    /// The UIDs of the pods of a namespace that loop, or did.
    pub fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.get(namespace).into_iter().flatten()
    }

    /// How many pods are remembered.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    fn shown(&mut self, watch: &PodWatch) -> &mut Shown {
        self.watches.entry(watch.clone()).or_default()
    }

    /// A watch has listed its pods: it shows no others.
    fn replace(&mut self, watch: &PodWatch, now: Instant) -> Vec<Seen> {
        let shown = self.shown(watch);
        let list = std::mem::take(&mut shown.list);
        let mut missing = shown.uids.clone();
        for pod in &list {
            missing.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        }
        let gone = missing.iter().filter_map(|uid| self.hide(watch, uid));
        let mut seen: Vec<_> = gone.collect();
        for pod in list {
            seen.extend(self.show(watch, pod, now));
        }
        seen
    }

    /// A watch shows a pod.
    fn show(&mut self, watch: &PodWatch, pod: Pod, now: Instant) -> Option<Seen> {
        let looping = pod.is_looping();
        let terminating = pod.is_terminating();
        let version = pod.metadata.resource_version.unwrap_or_default();
        let text = pod.metadata.uid.filter(|uid| !uid.is_empty())?;
        let known = self.pods.get_key_value(text.as_str());
        let uid = match known {
            Some((uid, _)) => uid.clone(),
            None if looping => text.into(),
            None => return None,
        };
        let (namespace, name) = (pod.metadata.namespace?, pod.metadata.name?);
        let sighting = match self.pods.get_mut(&uid) {
            Some(sighting) => {
                if !sighting.yields_to(&version) {
                    sighting.watches.insert(watch.clone());
                    self.shown(watch).uids.insert(uid.clone());
                    return Some(Seen::There(uid));
                }
                sighting
            }
            None => {
                let known = self.namespaces.get_key_value(namespace.as_str());
                let namespace = known.map_or_else(|| namespace.into(), |(known, _)| known.clone());
                let uids = self.namespaces.entry(namespace.clone()).or_default();
                uids.insert(uid.clone());
                self.pods.entry(uid.clone()).or_insert(Sighting {
                    namespace,
                    pod: name.into(),
                    version: Arc::from(""),
                    controller: None,
                    condition: Condition::Settled,
                    watches: BTreeSet::new(),
                    outdated: false,
                })
            }
        };
        let since = match sighting.condition {
            Condition::Looping { since, .. } => since,
            _ => now,
        };
        sighting.condition = match (terminating, looping) {
            (true, _) => Condition::Terminating,
            (false, true) => Condition::Looping {
                since,
                containers: pod.looping,
            },
            (false, false) => Condition::Settled,
        };
        sighting.version = version.into();
        sighting.outdated = false;
        sighting.controller = pod.controller;
        sighting.watches.insert(watch.clone());
        self.shown(watch).uids.insert(uid.clone());
        Some(Seen::There(uid))
    }

    /// A watch says that a pod is gone. It says the same of one whose labels do not match any more,
    /// which another watch may go on showing.
    fn hide(&mut self, watch: &PodWatch, uid: &str) -> Option<Seen> {
        let uid = self.watches.get_mut(watch)?.uids.take(uid)?;
        Some(if self.withdraw(watch, &uid) {
            Seen::Gone(uid)
        } else {
            Seen::There(uid)
        })
    }

    /// Takes a watch off a pod, and forgets the pod if it was the last.
    fn withdraw(&mut self, watch: &PodWatch, uid: &str) -> bool {
        let Some(sighting) = self.pods.get_mut(uid) else {
            return false;
        };
        sighting.watches.remove(watch);
        if !sighting.watches.is_empty() {
            return false;
        }
        if let Some(sighting) = self.pods.remove(uid)
            && let Some(uids) = self.namespaces.get_mut(&sighting.namespace)
        {
            uids.remove(uid);
            if uids.is_empty() {
                self.namespaces.remove(&sighting.namespace);
            }
        }
        true
    }
}
