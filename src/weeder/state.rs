//! The weeder's decisions: changes in; watches, deletions, reports and news out.
//!
//! A synchronous value that watches change. Nothing is covered before policies and namespaces have both been listed
//! once. Lists take effect as a whole.

mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use k8s_openapi::api::core::v1;
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use super::{
    account::Account,
    case::{Case, News},
    delete::DeletionError,
    namespace::Namespace,
    pod::Pod,
    policy::{Policy, Stored},
    service::Slice,
};
use crate::{runtime::watch::Change, util::now::Now};

/// The most deletions at once.
const MAX_IN_FLIGHT: usize = 32;
/// The most namespaces of which pods are watched one by one.
const MAX_LOCAL: usize = 20;

/// The namespace of which pods are watched; all, if `None`.
pub(super) type Scope = Option<Arc<str>>;

/// What is known, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct State {
    policies: BTreeMap<Arc<str>, (Arc<Policy>, Account)>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    policies_listed: bool,
    namespaces_listed: bool,
    /// The services that policies in force name, and those of them whose slices have been listed.
    services: BTreeSet<Arc<str>>,
    listed: BTreeSet<Arc<str>>,
    /// Which pods are watched.
    scopes: BTreeSet<Scope>,
    /// Whether the pods of all namespaces have been listed since they are watched.
    all_listed: bool,
    in_flight: usize,
    news: Vec<News>,
}

impl State {
    /// Takes up a change of policies.
    pub(super) fn policies(&mut self, change: Change<Stored>, now: Now) {
        let is_new = match change {
            Change::All(list) => {
                self.policies_listed = true;
                let names: BTreeSet<_> = list.iter().map(|it| it.policy.name.clone()).collect();
                self.policies.retain(|name, _| names.contains(name));
                for stored in list {
                    self.put_policy(stored);
                }
                true
            }
            Change::Put(stored) => self.put_policy(stored),
            Change::Gone(stored) => self.policies.remove(&stored.policy.name).is_some(),
        };
        // A status that was written makes no difference.
        if !is_new {
            return;
        }
        if self.policies_listed {
            let policies = self.policies.values();
            let services = policies.flat_map(|(policy, _)| policy.services());
            self.services = services.map(|it| it.as_str().into()).collect();
            self.listed.retain(|it| self.services.contains(it));
            for namespace in self.namespaces.values_mut() {
                namespace
                    .services
                    .retain(|it, _| self.services.contains(it));
            }
        }
        self.review_all(now);
    }

    /// Puts a policy in the place of the one of its name. Returns whether anything of it is new.
    fn put_policy(&mut self, Stored { policy, status }: Stored) -> bool {
        match self.policies.get_mut(&policy.name) {
            // One that is created anew under the same name begins with nothing.
            Some((known, _)) if known.uid == policy.uid => {
                let is_new = **known != policy;
                *known = Arc::new(policy);
                is_new
            }
            _ => {
                let name = policy.name.clone();
                let known = (Arc::new(policy), Account::new(status));
                self.policies.insert(name, known);
                true
            }
        }
    }

    /// Takes up a change of namespaces.
    pub(super) fn namespaces(
        &mut self,
        change: Change<PartialObjectMeta<v1::Namespace>>,
        now: Now,
    ) {
        let (object, is_there) = match change {
            Change::All(list) => {
                self.namespaces_listed = true;
                self.namespaces.values_mut().for_each(|it| it.labels = None);
                list.into_iter()
                    .for_each(|it| drop(self.put_namespace(it, true)));
                return self.review_all(now);
            }
            Change::Put(object) => (object, true),
            Change::Gone(object) => (object, false),
        };
        let name = self.put_namespace(object, is_there);
        self.review([name], now);
    }

    fn put_namespace(
        &mut self,
        object: PartialObjectMeta<v1::Namespace>,
        is_there: bool,
    ) -> Arc<str> {
        let name: Arc<str> = object.metadata.name.unwrap_or_default().into();
        let labels = object.metadata.labels.unwrap_or_default();
        let namespace = self.namespaces.entry(name.clone()).or_default();
        namespace.labels = is_there.then_some(labels);
        name
    }

    /// Takes up a change of the slices of [`Self::services`].
    pub(super) fn slices(&mut self, change: Change<Slice>, now: Now) {
        let (is_there, slice) = match change {
            Change::All(list) => {
                let mut found: BTreeMap<_, Vec<Slice>> = BTreeMap::new();
                for slice in list
                    .into_iter()
                    .filter(|it| self.services.contains(&it.service))
                {
                    self.namespaces.entry(slice.namespace.clone()).or_default();
                    found
                        .entry(slice.namespace.clone())
                        .or_default()
                        .push(slice);
                }
                for (name, namespace) in &mut self.namespaces {
                    let slices = found.remove(name).unwrap_or_default();
                    namespace.put_slices(slices, &self.listed, now);
                }
                self.listed.clone_from(&self.services);
                return self.review_all(now);
            }
            Change::Put(slice) => (self.services.contains(&slice.service), slice),
            Change::Gone(slice) => (false, slice),
        };
        let name = slice.namespace.clone();
        let namespace = self.namespaces.entry(name.clone()).or_default();
        namespace.put_slice(slice, is_there, now.mono);
        self.review([name], now);
    }

    /// Takes up a change of pods that loop. What is told of a scope that is not wanted any more makes no difference.
    pub(super) fn pods(&mut self, scope: &Scope, change: Change<Pod>, now: Now) {
        if !self.scopes.contains(scope) {
            return;
        }
        match change {
            Change::All(list) => {
                let mut found: BTreeMap<Arc<str>, Vec<Pod>> = BTreeMap::new();
                for pod in list {
                    found.entry(pod.namespace().into()).or_default().push(pod);
                }
                self.all_listed |= scope.is_none();
                for name in found.keys() {
                    self.namespaces.entry(name.clone()).or_default();
                }
                for (name, namespace) in &mut self.namespaces {
                    if scope.as_ref().is_none_or(|it| it == name) {
                        let pods = found.remove(name).unwrap_or_default();
                        namespace.put_pods(pods, now.mono);
                    }
                }
                match scope {
                    Some(name) => self.review([name.clone()], now),
                    None => self.review_all(now),
                }
            }
            Change::Put(pod) => {
                let name: Arc<str> = pod.namespace().into();
                let namespace = self.namespaces.entry(name.clone()).or_default();
                namespace.put_pod(pod, now.mono);
                self.review([name], now);
            }
            Change::Gone(pod) => {
                let name: Arc<str> = pod.namespace().into();
                if let Some(namespace) = self.namespaces.get_mut(&name) {
                    namespace.remove_pod(pod.uid());
                    self.review([name], now);
                }
            }
        }
    }

    /// Takes up that a deletion has ended.
    pub(super) fn ended(&mut self, case: Case, result: Result<(), DeletionError>, now: Now) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let name = case.namespace.clone();
        if let Some(namespace) = self.namespaces.get_mut(&name) {
            let deed = namespace.ended(&case, result, now.mono);
            self.tell(deed.map(|deed| News::Pod(Box::new(case), deed)), now);
            self.review([name], now);
        }
    }

    /// Takes up that time has passed: windows end, and what was refused is tried again.
    pub(super) fn tick(&mut self, now: Now) {
        let due = self.namespaces.iter();
        let due = due.filter(|(_, it)| it.wake.is_some_and(|wake| wake <= now.mono));
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        self.review(due, now);
    }

    /// Returns when [`State::tick`] is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.namespaces.values().filter_map(|it| it.wake).min()
    }

    /// Returns the services whose slices are to be watched. To be asked after each change.
    pub(super) fn services(&self) -> &BTreeSet<Arc<str>> {
        &self.services
    }

    /// Returns which pods are to be watched. To be asked after each change.
    pub(super) fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }

    /// Returns whether a deletion may be begun.
    pub(super) fn may_delete(&self) -> bool {
        self.next().is_some()
    }

    /// Begins the next deletion, if one is due and the limits allow. How it ends is told by [`State::ended`].
    pub(super) fn begin(&mut self, now: Now) -> Option<Case> {
        self.tick(now);
        let name = self.next()?.clone();
        let case = self.namespaces.get_mut(&name)?.begin()?;
        self.in_flight += 1;
        Some(case)
    }

    fn next(&self) -> Option<&Arc<str>> {
        let namespaces = self.namespaces.iter();
        let urgent = namespaces.filter_map(|(name, it)| Some((it.urgency()?, name)));
        let (_, name) = urgent.min()?;
        (self.in_flight < MAX_IN_FLIGHT).then_some(name)
    }

    /// Returns whether policies have been listed: before that, reports do not tell of all.
    pub(super) fn is_listed(&self) -> bool {
        self.policies_listed
    }

    /// Returns whether namespaces, and the slices of all services that policies name, have been listed.
    pub(super) fn services_listed(&self) -> bool {
        self.policies_listed && self.namespaces_listed && self.services == self.listed
    }

    /// Returns what has happened since this was last called.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        mem::take(&mut self.news)
    }

    /// Returns how many pods wait for their turn to be deleted.
    pub(super) fn waiting(&self) -> usize {
        self.namespaces.values().map(Namespace::waiting).sum()
    }

    fn review_all(&mut self, now: Now) {
        let names: Vec<_> = self.namespaces.keys().cloned().collect();
        self.review(names, now);
    }

    /// Brings windows, pods and watches in line with what has changed in these namespaces.
    fn review(&mut self, names: impl IntoIterator<Item = Arc<str>>, now: Now) {
        let listed = self.policies_listed && self.namespaces_listed;
        for name in names {
            let Some(namespace) = self.namespaces.get_mut(&name) else {
                continue;
            };
            let policies = self.policies.values().filter(|_| listed);
            let news = namespace.review(&name, policies.map(|(policy, _)| policy), now.mono);
            if namespace.is_empty() {
                self.namespaces.remove(&name);
            }
            self.tell(news, now);
        }
        self.settle();
    }

    /// Begins and ends watches of pods: of the namespaces in which a window is open or, if these are many, of all. What
    /// serves all goes on until nobody needs it, and those before it until it has been listed: no pod is missed
    /// on the way, and none is listed again when the windows close one after the other.
    fn settle(&mut self) {
        let open = self
            .namespaces
            .iter()
            .filter(|(_, it)| !it.windows.is_empty());
        let open: BTreeSet<Scope> = open.map(|(name, _)| Some(name.clone())).collect();
        if open.is_empty() {
            self.scopes.clear();
        } else if self.scopes.contains(&None) {
            let all_listed = self.all_listed;
            self.scopes
                .retain(|it| it.is_none() || !all_listed && open.contains(it));
        } else if open.len() > MAX_LOCAL {
            self.all_listed = false;
            self.scopes.retain(|it| open.contains(it));
            self.scopes.insert(None);
        } else {
            self.scopes = open;
        }
        if !self.scopes.contains(&None) {
            for (name, namespace) in &mut self.namespaces {
                if !self.scopes.contains(&Some(name.clone())) {
                    namespace.forget_pods();
                }
            }
            self.namespaces.retain(|_, it| !it.is_empty());
        }
    }

    fn tell(&mut self, news: impl IntoIterator<Item = News>, now: Now) {
        for news in news {
            if let News::Pod(case, deed) = &news {
                let policy = self.policies.get_mut(&case.policy.name);
                // It may have been created anew while the deletion was in flight.
                if let Some((_, account)) = policy.filter(|(it, _)| it.uid == case.policy.uid) {
                    account.take(case, deed, now.wall);
                }
            }
            self.news.push(news);
        }
    }
}
