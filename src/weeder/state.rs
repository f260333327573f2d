//! The weeder's decisions: events in; watches, deletions, reports and news out.
//!
//! A synchronous value that watches change, one event at a time. What it holds follows from the last
//! state of each object, but for what only time tells: the windows, and what was tried on each pod.
//! An event costs what it is about, however much else there is.

mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::watcher::Event,
};
use tokio::time::Instant;

use super::{
    account::Account,
    budget::Budget,
    coverage::{Coverage, Namespace},
    looping::{Condition, Looping, Seen, Sighting},
    news::{Closing, News, Opening, Pair},
    now::Now,
    pod::{Fate, Pod, fate},
    policy::{Policy, Terms},
    scopes::{Claim, PodWatch, Scopes},
    services::{Change, ServiceNames, Services},
    slice::EndpointSlice,
    weeds::{Deletion, DeletionError, Outcome, Told, Weeds},
    windows::{Window, Windows},
};
use crate::{
    api::{Mode, WeedPolicy},
    health::{PodDeed, WeedReport},
};

/// What is known, and what follows from it.
#[derive(Debug, Default)]
pub struct State {
    coverage: Coverage,
    services: Services,
    windows: Windows,
    scopes: Scopes,
    looping: Looping,
    weeds: Weeds,
    budget: Budget,
    /// By the name of the policy.
    accounts: BTreeMap<Arc<str>, Account>,
    /// What is wrong with the watches that are broken.
    broken: BTreeMap<PodWatch, String>,
    /// Lists in progress. They take effect as a whole.
    policy_list: Vec<DeserializeGuard<WeedPolicy>>,
    namespace_list: Vec<PartialObjectMeta<NamespaceObject>>,
    /// Whether policies and namespaces were listed, and their services looked at.
    began: bool,
    /// Whether all has been listed once.
    listed: bool,
    /// What is to be decided again: all looping pods of these namespaces, and these.
    stale_namespaces: BTreeSet<Arc<str>>,
    stale_pods: BTreeSet<Arc<str>>,
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
    /// Pods that wait for their turn to be deleted.
    pub waiting: usize,
    /// Deletions on the way.
    pub in_flight: usize,
}

/// The windows that claim a pod.
struct Claims {
    /// The one that was opened first.
    first: Claim,
    /// Of those in mode Enforce, the one that was opened first.
    enforcing: Option<Claim>,
}

impl State {
    /// Takes up an event of the watch on policies.
    pub fn policy_event(&mut self, event: Event<DeserializeGuard<WeedPolicy>>, now: Now) {
        self.advance(now);
        match event {
            Event::Apply(object) => self.put_policy(&object, now),
            Event::Delete(object) => self.remove_policy(&Policy::new(&object).name),
            Event::Init => self.policy_list = Vec::new(),
            Event::InitApply(object) => self.policy_list.push(object),
            Event::InitDone => {
                let list = mem::take(&mut self.policy_list);
                let names: BTreeSet<_> = list.iter().map(|it| Policy::new(it).name).collect();
                let policies = self.coverage.policies().map(|policy| policy.name.clone());
                let gone: Vec<_> = policies.filter(|name| !names.contains(name)).collect();
                for name in gone {
                    self.remove_policy(&name);
                }
                for object in &list {
                    self.put_policy(object, now);
                }
                self.coverage.policies_are_listed();
                self.begin(now);
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
            Event::Init => self.namespace_list = Vec::new(),
            Event::InitApply(object) => self.namespace_list.push(object),
            Event::InitDone => {
                let list = mem::take(&mut self.namespace_list);
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
                self.begin(now);
            }
        }
        self.settle(now);
    }

    /// Takes up an event of the watch on slices that was started for `names`.
    pub fn slice_event(&mut self, names: &ServiceNames, event: Event<EndpointSlice>, now: Now) {
        self.advance(now);
        for (pair, change) in self.services.event(names, event, now.instant) {
            match change {
                Change::Ready(why) => {
                    for (policy, terms) in self.coverage.covering(&pair) {
                        self.open(&pair, &policy, terms, why, now);
                    }
                }
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
        for seen in self.looping.event(watch, event, now.instant) {
            match seen {
                Seen::There(uid) => {
                    if self.is_terminating(&uid) {
                        self.went(&uid, now);
                    }
                    self.stale_pods.insert(uid);
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
        if self.scopes.watches().contains(watch) {
            self.broken.insert(watch.clone(), message);
        }
    }

    /// A watch on pods works.
    pub fn pod_watch_works(&mut self, watch: &PodWatch) {
        self.broken.remove(watch);
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
        match self.weeds.ended(deletion, result, terminating, now.instant) {
            Outcome::Weeded(deletion) => self.weeded(*deletion, now),
            Outcome::Changed => self.looping.outdate(&uid, &tried.resource_version),
            Outcome::Failed(Some(message)) => {
                let what = PodDeed::Refused { message };
                self.tell_of_deletion(tried, what, now);
            }
            Outcome::Failed(None) | Outcome::Gone => {}
        }
        if self.looping.get(&uid).is_none() {
            self.weeds.forget(&uid);
        }
        self.stale_pods.insert(uid);
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
        let dues = self.windows.due().into_iter().chain(self.weeds.due());
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
            if let Some(deletion) = self.deletion(&uid) {
                self.weeds.begun(&uid);
                return Some(deletion);
            }
            self.budget.ended(&namespace);
        }
        None
    }

    /// Whether policies, namespaces and slices have each been listed once: before that, reports do
    /// not tell all.
    pub fn listed(&self) -> bool {
        self.listed
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
            tried: self.weeds.count(),
            waiting: self.budget.waiting(),
            in_flight: self.budget.in_flight(),
        }
    }

    /// Policies and namespaces may both have been listed now: what is covered is covered for the
    /// first time.
    fn begin(&mut self, now: Now) {
        if self.began || !self.coverage.listed() {
            return;
        }
        self.began = true;
        let policies: Vec<_> = self.coverage.policies().cloned().collect();
        for policy in policies {
            for namespace in self.coverage.selected(&policy) {
                self.cover(&policy, &namespace, |_| true, now);
            }
        }
    }

    fn put_policy(&mut self, object: &DeserializeGuard<WeedPolicy>, now: Now) {
        let policy = Policy::new(object);
        let name = policy.name.clone();
        let known = self.coverage.policy(&name);
        if known.is_some_and(|known| known.uid != policy.uid) {
            self.remove_policy(&name);
        }
        if let Ok(object) = &object.0 {
            let status = || object.status.clone().unwrap_or_default();
            let account = self.accounts.entry(name.clone());
            account.or_insert_with(|| Account::new(policy.uid.clone(), status()));
        }
        if self.coverage.policy(&name) == Some(&policy) {
            return;
        }
        let former = self.coverage.policy(&name).cloned();
        let selected = former.iter().flat_map(|it| self.coverage.selected(it));
        let selected: BTreeSet<_> = selected.collect();
        self.coverage.put_policy(policy.clone());
        self.renew_windows(&name);
        for namespace in self.coverage.selected(&policy) {
            let former = former.as_ref();
            let former = former.filter(|_| selected.contains(&namespace));
            let is_new = |service: &str| former.is_none_or(|it| it.terms(service).is_none());
            self.cover(&policy, &namespace, is_new, now);
        }
    }

    fn remove_policy(&mut self, name: &Arc<str>) {
        self.coverage.remove_policy(name);
        self.accounts.remove(name);
        self.renew_windows(name);
    }

    /// Closes the windows of a policy that it does not cover any more, and has the others last for as
    /// long, and for the pods, as it says now.
    fn renew_windows(&mut self, policy: &Arc<str>) {
        let pairs: Vec<_> = self.windows.pairs(policy).cloned().collect();
        for pair in pairs {
            let Some(terms) = self.coverage.terms(policy, &pair) else {
                self.close(&pair, policy, Closing::Withdrawn);
                continue;
            };
            let window = self.windows.get(&pair, policy);
            if let Some(opened) = window
                .filter(|window| window.terms != terms)
                .map(|window| window.opened)
            {
                self.set_window(&pair, policy, Window { opened, terms });
            }
        }
    }

    fn put_namespace(&mut self, object: PartialObjectMeta<NamespaceObject>, now: Now) {
        let metadata = object.metadata;
        let name: Arc<str> = metadata.name.unwrap_or_default().into();
        let namespace = Namespace {
            labels: metadata.labels.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        };
        if self.coverage.namespace(&name) == Some(&namespace) {
            return;
        }
        let why = if namespace.deleting {
            Closing::NamespaceGone
        } else {
            Closing::Withdrawn
        };
        let before = self.coverage.selecting(&name);
        self.coverage.put_namespace(name.clone(), namespace);
        let after = self.coverage.selecting(&name);
        self.uncover(&name, before.difference(&after), why);
        for policy in after.difference(&before) {
            if let Some(policy) = self.coverage.policy(policy).cloned() {
                self.cover(&policy, &name, |_| true, now);
            }
        }
    }

    fn remove_namespace(&mut self, name: &str) {
        let before = self.coverage.selecting(name);
        self.coverage.remove_namespace(name);
        self.uncover(name, before.iter(), Closing::NamespaceGone);
    }

    /// A policy comes to cover those of its services in a namespace that are new to it there.
    fn cover(
        &mut self,
        policy: &Policy,
        namespace: &Arc<str>,
        is_new: impl Fn(&str) -> bool,
        now: Now,
    ) {
        for service in policy.services().filter(|service| is_new(service)) {
            let pair = Pair {
                namespace: namespace.clone(),
                service: service.clone(),
            };
            if self.services.ready_since(&pair).is_some()
                && let Some(terms) = policy.terms(service)
            {
                self.open(&pair, &policy.name, terms, Opening::FoundReady, now);
            }
        }
    }

    /// Policies do not cover a namespace any more.
    fn uncover<'a>(
        &mut self,
        namespace: &str,
        policies: impl Iterator<Item = &'a Arc<str>>,
        why: Closing,
    ) {
        for policy in policies {
            let Some(policy) = self.coverage.policy(policy).cloned() else {
                continue;
            };
            for service in policy.services() {
                let pair = Pair {
                    namespace: namespace.into(),
                    service: service.clone(),
                };
                self.close(&pair, &policy.name, why);
            }
        }
    }

    fn open(&mut self, pair: &Pair, policy: &Arc<str>, terms: Terms, why: Opening, now: Now) {
        self.news.push(News::Opened {
            pair: pair.clone(),
            policy: policy.clone(),
            why,
            lasts: terms.lasts,
        });
        let opened = now.instant;
        self.set_window(pair, policy, Window { opened, terms });
    }

    fn set_window(&mut self, pair: &Pair, policy: &Arc<str>, window: Window) {
        let claim = Claim {
            pair: pair.clone(),
            policy: policy.clone(),
        };
        let selectors = window.terms.selectors.clone();
        if let Some(former) = self.windows.open(pair, policy, window) {
            for selector in &*former.terms.selectors {
                self.scopes.release(selector, &claim);
            }
        }
        for selector in &*selectors {
            self.scopes.need(selector, &claim);
        }
        self.stale_namespaces.insert(pair.namespace.clone());
    }

    fn close(&mut self, pair: &Pair, policy: &Arc<str>, why: Closing) {
        let Some(window) = self.windows.close(pair, policy) else {
            return;
        };
        let claim = Claim {
            pair: pair.clone(),
            policy: policy.clone(),
        };
        for selector in &*window.terms.selectors {
            self.scopes.release(selector, &claim);
        }
        self.stale_namespaces.insert(pair.namespace.clone());
        self.news.push(News::Closed {
            pair: pair.clone(),
            policy: policy.clone(),
            why,
        });
    }

    /// Time has passed until now: nothing that happens now counts for a window that is over.
    fn advance(&mut self, now: Now) {
        for (pair, policy) in self.windows.elapsed(now.instant) {
            self.close(&pair, &policy, Closing::Elapsed);
        }
        self.stale_pods.extend(self.weeds.woken(now.instant));
    }

    /// Brings watches and turns in line with what has changed.
    fn settle(&mut self, now: Now) {
        self.advance(now);
        self.listed |= self.coverage.listed() && self.services.listed();
        for watch in self.scopes.settle() {
            self.broken.remove(&watch);
            for uid in self.looping.end(&watch) {
                self.forget(&uid);
            }
        }
        for namespace in mem::take(&mut self.stale_namespaces) {
            let pods = self.looping.namespace(&namespace);
            self.stale_pods.extend(pods.cloned());
        }
        for uid in mem::take(&mut self.stale_pods) {
            self.decide(&uid, now);
        }
    }

    /// Decides what becomes of a pod.
    fn decide(&mut self, uid: &Arc<str>, now: Now) {
        self.budget.withdraw(uid);
        self.weeds.rest(uid);
        let Some(sighting) = self.looping.get(uid) else {
            return;
        };
        let Some((since, _)) = sighting.looping() else {
            return;
        };
        let Some(claims) = self.claims(sighting) else {
            return;
        };
        match fate(sighting.controller.as_ref()) {
            Fate::LeftAlone(reason) => {
                if self.weeds.tell(uid, Told::LeftAlone(reason)) {
                    let sighting = sighting.clone();
                    self.leave_alone(uid, sighting, claims.first, reason, now);
                }
            }
            Fate::Deleted(_) if claims.enforcing.is_some() => {
                if self.weeds.may(uid, now.instant) {
                    self.budget.enqueue(&sighting.namespace, uid, since);
                }
            }
            Fate::Deleted(_) => {
                if self.weeds.tell(uid, Told::WouldWeed)
                    && let Some(deletion) = self.deletion_for(uid, &claims.first)
                {
                    self.would_weed(deletion, now);
                }
            }
        }
    }

    /// The windows that claim a pod: those that need pods of a selector by which a watch shows it.
    fn claims(&self, sighting: &Sighting) -> Option<Claims> {
        let selectors: BTreeSet<_> = sighting.watches.iter().map(|it| &it.selector).collect();
        let mut found: Vec<(Instant, &Claim, Mode)> = selectors
            .into_iter()
            .flat_map(|selector| self.scopes.claims(selector, &sighting.namespace))
            .filter_map(|claim| {
                let window = self.windows.get(&claim.pair, &claim.policy)?;
                Some((window.opened, claim, window.terms.mode))
            })
            .collect();
        found.sort_by_key(|(opened, claim, _)| (*opened, *claim));
        let mut enforcing = found.iter().filter(|(.., mode)| *mode == Mode::Enforce);
        Some(Claims {
            first: found.first()?.1.clone(),
            enforcing: enforcing.next().map(|(_, claim, _)| (*claim).clone()),
        })
    }

    /// The deletion of a pod whose turn it is, decided by what is known now.
    fn deletion(&self, uid: &Arc<str>) -> Option<Deletion> {
        let claims = self.claims(self.looping.get(uid)?)?;
        self.deletion_for(uid, &claims.enforcing?)
    }

    fn deletion_for(&self, uid: &Arc<str>, claim: &Claim) -> Option<Deletion> {
        let sighting = self.looping.get(uid)?;
        let (looping_since, containers) = sighting.looping()?;
        let Fate::Deleted(owner) = fate(sighting.controller.as_ref()) else {
            return None;
        };
        Some(Deletion {
            namespace: sighting.namespace.clone(),
            pod: sighting.pod.clone(),
            uid: uid.clone(),
            resource_version: sighting.version.clone(),
            owner: owner.clone(),
            containers: containers.to_vec(),
            policy: claim.policy.clone(),
            policy_uid: self.coverage.policy(&claim.policy)?.uid.clone(),
            service: claim.pair.service.clone(),
            ready_since: self.services.ready_since(&claim.pair)?,
            looping_since,
        })
    }

    fn is_terminating(&self, uid: &str) -> bool {
        let sighting = self.looping.get(uid);
        sighting.is_some_and(|it| it.condition == Condition::Terminating)
    }

    /// A pod was seen terminating, or gone.
    fn went(&mut self, uid: &str, now: Now) {
        if let Some(deletion) = self.weeds.went(uid) {
            self.weeded(*deletion, now);
        }
    }

    fn forget(&mut self, uid: &Arc<str>) {
        self.budget.withdraw(uid);
        self.weeds.forget(uid);
    }
}

#[cfg(test)]
mod tests;
