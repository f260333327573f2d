//! The weeder's decisions: events in; watches, deletions, reports and news out.
//!
//! A synchronous value that watches change, one event at a time. What it holds follows from the last
//! state of each object, but for what only time tells: the windows, and what was tried on each pod.
//! An event costs what it is about, however much else there is: a slice its service and the policies that
//! name it, a pod the windows of its namespace.

mod cover;
mod judge;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{core::PartialObjectMeta, runtime::watcher::Event};
use tokio::time::Instant;

use super::{
    account::Account,
    attempts::{Attempts, Deletion, DeletionError, Ended},
    backoff::Backoff,
    budget::Budget,
    coverage::Coverage,
    looping::{Condition, Looping, Seen},
    news::{Closing, News, Opening},
    pod::Pod,
    policy::{Policy, Stored},
    scopes::{Claim, PodWatch, Scopes},
    services::{Change, ServiceNames, Services},
    slice::EndpointSlice,
    windows::Windows,
};
use crate::{
    util::now::Now,
    weeder::report::{PodDeed, WeedReport},
};

/// What is known, and what follows from it.
#[derive(Debug, Default)]
pub struct State {
    coverage: Coverage,
    services: Services,
    windows: Windows,
    scopes: Scopes,
    looping: Looping,
    attempts: Attempts,
    backoff: Backoff,
    budget: Budget,
    /// By the name of the policy.
    accounts: BTreeMap<Arc<str>, Account>,
    /// Whether policies, namespaces and the slices of their services were all listed once.
    began: bool,
    /// The pods to be decided again.
    stale: BTreeSet<Arc<str>>,
    news: Vec<News>,
}

/// How much is held, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Open windows.
    pub windows: usize,
    /// Watches of pods.
    pub watches: usize,
    /// Pods that loop, or did, and are still there.
    pub pods: usize,
    /// Pods about which something is remembered that was done or told.
    pub tried: usize,
    /// Controllers whose pods were deleted.
    pub backing_off: usize,
    /// Pods that wait for their turn to be deleted.
    pub waiting: usize,
    /// Deletions on the way.
    pub in_flight: usize,
}

impl State {
    /// Takes up an event of the watch on policies.
    pub fn policy_event(&mut self, event: Event<Stored>, now: Now) {
        self.advance(now);
        match event {
            Event::Apply(object) => self.put_policy(&object, now),
            Event::Delete(object) => self.remove_policy(&Policy::new(&object.policy).name),
            Event::Init => self.coverage.policy_list = Vec::new(),
            Event::InitApply(object) => self.coverage.policy_list.push(object),
            Event::InitDone => {
                let list = mem::take(&mut self.coverage.policy_list);
                let names = list.iter().map(|it| Policy::new(&it.policy).name);
                let names: BTreeSet<_> = names.collect();
                let policies = self.coverage.policies().map(|policy| policy.name.clone());
                let gone: Vec<_> = policies.filter(|name| !names.contains(name)).collect();
                for name in gone {
                    self.remove_policy(&name);
                }
                for object in &list {
                    self.put_policy(object, now);
                }
                self.coverage.policies_are_listed();
            }
        }
        self.services.watch(self.coverage.services());
        self.settle(now);
    }

    /// Takes up an event of the watch on namespaces.
    pub fn namespace_event(&mut self, event: Event<PartialObjectMeta<NamespaceObject>>, now: Now) {
        self.advance(now);
        match event {
            Event::Apply(object) => self.put_namespace(object, now),
            Event::Delete(object) => {
                self.remove_namespace(object.metadata.name.as_deref().unwrap_or_default());
            }
            Event::Init => self.coverage.namespace_list = Vec::new(),
            Event::InitApply(object) => self.coverage.namespace_list.push(object),
            Event::InitDone => {
                let list = mem::take(&mut self.coverage.namespace_list);
                let names = list.iter().filter_map(|it| it.metadata.name.as_deref());
                let names: BTreeSet<&str> = names.collect();
                let known = self.coverage.namespace_names().cloned();
                let gone: Vec<_> = known.filter(|name| !names.contains(&**name)).collect();
                for name in gone {
                    self.remove_namespace(&name);
                }
                for object in list {
                    self.put_namespace(object, now);
                }
                self.coverage.namespaces_are_listed();
            }
        }
        self.settle(now);
    }

    /// Takes up an event of the watch on slices that was started for `names`.
    pub fn slice_event(&mut self, names: &ServiceNames, event: Event<EndpointSlice>, now: Now) {
        self.advance(now);
        for (pair, change) in self.services.event(names, event, now.mono) {
            match change {
                Change::Ready(why) if self.began => {
                    for (policy, terms) in self.coverage.covering(&pair) {
                        match why {
                            Opening::Recovered => self.open(&pair, &policy, terms, why, now),
                            Opening::FoundReady | Opening::ChangedUnseen => {
                                self.find_ready(pair.clone(), &policy, terms, why, now);
                            }
                        }
                    }
                }
                Change::Ready(_) => {}
                Change::NotReady => {
                    for policy in self.windows.policies(&pair) {
                        self.close(&pair, &policy, Closing::NotReady);
                    }
                }
            }
        }
        self.settle(now);
    }

    /// Takes up an event of a watch on pods. One that is not wanted any more makes no difference.
    pub fn pod_event(&mut self, watch: &PodWatch, event: Event<Pod>, now: Now) {
        self.advance(now);
        if !self.scopes.watches().contains(watch) {
            return;
        }
        if matches!(event, Event::InitDone) {
            self.scopes.listed(watch);
        }
        for seen in self.looping.event(watch, event, now.mono) {
            match seen {
                Seen::There(uid) => {
                    if self.is_terminating(&uid) {
                        self.went(&uid, now);
                    }
                    self.stale.insert(uid);
                }
                Seen::Gone(uid) => {
                    self.went(&uid, now);
                    self.forget(&uid);
                }
            }
        }
        self.settle(now);
    }

    /// A watch on pods broke, or could not be begun: what was tried and what failed.
    pub fn pod_watch_broke(&mut self, watch: &PodWatch, message: String) {
        self.scopes.broke(watch, message);
    }

    /// A watch on pods works.
    pub fn pod_watch_works(&mut self, watch: &PodWatch) {
        self.scopes.works(watch);
    }

    /// A deletion has ended.
    pub fn deletion_ended(
        &mut self,
        deletion: Deletion,
        result: Result<(), DeletionError>,
        now: Now,
    ) {
        self.advance(now);
        self.budget.ended(&deletion.namespace);
        let uid = deletion.uid.clone();
        let terminating = self.is_terminating(&uid);
        let tried = deletion.clone();
        let ended = self.attempts.ended(deletion, result, terminating, now.mono);
        if !self.attempts.may_be_gone(&uid) && self.backoff.failed(&tried) {
            // Its siblings need not wait for it.
            self.decide_anew(&tried.namespace);
        }
        match ended {
            Ended::Weeded(deletion) => self.weeded(*deletion, now),
            Ended::Changed => self.looping.outdate(&uid, &tried.resource_version),
            Ended::Failed(Some(message)) => {
                let deed = PodDeed::Refused { message };
                self.tell_of_deletion(tried, deed, now);
            }
            Ended::Failed(None) | Ended::Gone => {}
        }
        if self.looping.get(&uid).is_none() {
            self.attempts.forget(&uid);
        }
        self.stale.insert(uid);
        self.settle(now);
    }

    /// Time has passed: windows end, and what was refused is tried again.
    pub fn tick(&mut self, now: Now) {
        self.advance(now);
        self.settle(now);
    }

    /// Of which services the slices are to be watched. To be asked after each event of policies.
    pub fn service_names(&self) -> &ServiceNames {
        self.services.names()
    }

    /// Which pods are to be watched. To be asked after each change.
    pub fn pod_watches(&self) -> &BTreeSet<PodWatch> {
        self.scopes.watches()
    }

    /// When [`State::tick`] is due.
    pub fn due(&self) -> Option<Instant> {
        let dues = self.windows.due().into_iter().chain(self.attempts.due());
        dues.min()
    }

    /// Whether a deletion may be begun.
    pub fn may_delete(&self) -> bool {
        self.budget.is_free()
    }

    /// The pod to delete next, if one is and the limits allow. It is to be deleted at once, and how
    /// that ended is told by [`State::deletion_ended`].
    pub fn next_deletion(&mut self, now: Now) -> Option<Deletion> {
        self.tick(now);
        while let Some((namespace, uid)) = self.budget.take() {
            if let Some((deletion, opened)) = self.deletion(&uid) {
                self.attempts.begun(&uid);
                if self.backoff.begun(&deletion, opened, now.mono) {
                    // Its siblings may have to wait now.
                    self.decide_anew(&namespace);
                }
                return Some(deletion);
            }
            self.budget.ended(&namespace);
        }
        None
    }

    /// Whether policies have been listed: before that, reports do not tell of all.
    pub fn listed(&self) -> bool {
        self.coverage.policies_listed()
    }

    /// Whether namespaces, and the slices of all services that policies name, have been listed.
    pub fn services_listed(&self) -> bool {
        self.coverage.listed() && self.services.listed()
    }

    /// What is to be said of each policy. Looks at everything there is.
    pub fn reports(&self) -> Vec<WeedReport> {
        report::reports(self)
    }

    /// What has happened since this was last called.
    pub fn take_news(&mut self) -> Vec<News> {
        mem::take(&mut self.news)
    }

    /// How much is held.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            windows: self.windows.total(),
            watches: self.scopes.watches().len(),
            pods: self.looping.count(),
            tried: self.attempts.count(),
            backing_off: self.backoff.count(),
            waiting: self.budget.waiting(),
            in_flight: self.budget.in_flight(),
        }
    }

    /// Time has passed until now: nothing that happens now counts for a window that is over.
    fn advance(&mut self, now: Now) {
        for (pair, policy) in self.windows.elapsed(now.mono) {
            self.close(&pair, &policy, Closing::Elapsed);
        }
        self.stale.extend(self.attempts.woken(now.mono));
    }

    /// Brings watches and turns in line with what has changed.
    fn settle(&mut self, now: Now) {
        self.advance(now);
        self.begin(now);
        for watch in self.scopes.settle() {
            for uid in self.looping.end(&watch) {
                self.forget(&uid);
            }
        }
        for uid in mem::take(&mut self.stale) {
            self.decide(&uid, now);
        }
    }

    /// The looping pods of a namespace are to be decided again.
    fn decide_anew(&mut self, namespace: &str) {
        self.stale
            .extend(self.looping.namespace(namespace).cloned());
    }

    fn is_terminating(&self, uid: &str) -> bool {
        let sighting = self.looping.get(uid);
        sighting.is_some_and(|it| it.condition == Condition::Terminating)
    }

    /// A pod was seen terminating, or gone.
    fn went(&mut self, uid: &str, now: Now) {
        if let Some(deletion) = self.attempts.went(uid) {
            self.weeded(*deletion, now);
        }
    }

    fn forget(&mut self, uid: &Arc<str>) {
        self.budget.withdraw(uid);
        self.attempts.forget(uid);
    }
}

#[cfg(test)]
mod tests;
