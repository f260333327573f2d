//! How windows open and close with policies and namespaces, and what that changes.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::core::PartialObjectMeta;

use super::State;
use crate::{
    util::now::Now,
    weeder::{
        account::Account,
        coverage::Namespace,
        news::{Closing, News, Opening, Pair},
        policy::{Policy, Stored, Terms},
        scopes::Claim,
        windows::Window,
    },
};

impl State {
    /// Opens the windows of the start, once everything has been listed.
    pub(super) fn begin(&mut self, now: Now) {
        if self.began || !self.services_listed() {
            return;
        }
        self.began = true;
        let policies: Vec<_> = self.coverage.policies().cloned().collect();
        for policy in policies {
            for namespace in self.coverage.selected(&policy) {
                for (pair, terms) in self.ready(&policy, &namespace) {
                    self.find_ready(pair, &policy.name, terms, Opening::FoundReady, now);
                }
            }
        }
    }

    pub(super) fn put_policy(&mut self, stored: &Stored, now: Now) {
        let policy = Policy::new(&stored.policy);
        let name = policy.name.clone();
        let known = self.coverage.policy(&name);
        if known.is_some_and(|known| known.uid != policy.uid) {
            self.remove_policy(&name);
        }
        let status = || stored.status.clone().unwrap_or_default();
        let account = self.accounts.entry(name.clone());
        account.or_insert_with(|| Account::new(policy.uid.clone(), status()));
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

    pub(super) fn remove_policy(&mut self, name: &Arc<str>) {
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

    pub(super) fn put_namespace(&mut self, object: PartialObjectMeta<NamespaceObject>, now: Now) {
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

    pub(super) fn remove_namespace(&mut self, name: &str) {
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
        if !self.began {
            return;
        }
        for (pair, terms) in self.ready(policy, namespace) {
            if is_new(&pair.service) {
                self.find_ready(pair, &policy.name, terms, Opening::FoundReady, now);
            }
        }
    }

    /// Opens a window for a service that is ready and was not seen to become so, if its slices say that it did
    /// within the `watchDuration` before.
    pub(super) fn find_ready(
        &mut self,
        pair: Pair,
        policy: &Arc<str>,
        terms: Terms,
        why: Opening,
        now: Now,
    ) {
        let ready_by = self.services.ready_by(&pair);
        // It is negative if the clock of the node is ahead of this one.
        let ready_for = ready_by.map(|since| now.wall.duration_since(since).unsigned_abs());
        if ready_for.is_some_and(|it| it <= terms.lasts) {
            self.open(&pair, policy, terms, why, now);
        } else if why == Opening::FoundReady {
            let policy = policy.clone();
            self.news.push(News::NoWindow { pair, policy });
        }
    }

    /// The services of a policy in a namespace that are ready.
    fn ready(&self, policy: &Policy, namespace: &Arc<str>) -> Vec<(Pair, Terms)> {
        let pairs = policy.services().map(|service| Pair {
            namespace: namespace.clone(),
            service: service.clone(),
        });
        let ready = pairs.filter(|pair| self.services.ready_since(pair).is_some());
        ready
            .filter_map(|pair| {
                let terms = policy.terms(&pair.service)?;
                Some((pair, terms))
            })
            .collect()
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

    pub(super) fn open(
        &mut self,
        pair: &Pair,
        policy: &Arc<str>,
        terms: Terms,
        why: Opening,
        now: Now,
    ) {
        self.news.push(News::Opened {
            pair: pair.clone(),
            policy: policy.clone(),
            why,
            lasts: terms.lasts,
        });
        let opened = now.mono;
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
        self.decide_anew(&pair.namespace);
    }

    pub(super) fn close(&mut self, pair: &Pair, policy: &Arc<str>, why: Closing) {
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
        if !self.windows.any_in(&pair.namespace) {
            self.backoff.forget(&pair.namespace);
        }
        self.decide_anew(&pair.namespace);
        self.news.push(News::Closed {
            pair: pair.clone(),
            policy: policy.clone(),
            why,
        });
    }
}
