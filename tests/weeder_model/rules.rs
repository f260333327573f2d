//! The rules in their plainest form: what must be true after each event.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use dependency_watchdog::weeder::{
    attempts::Deletion,
    news::{News, Pair},
    report::PodDeed,
    services::ServiceNames,
};
use tokio::time::Instant;

use super::{
    objects::{Pod, SELECTORS, SERVICES, Slice, namespace_name, policy_name},
    world::{Key, Stream, World},
};

/// The limits of the weeder.
const MAX_WATCHES: usize = 21;
const MAX_IN_FLIGHT: usize = 32;
const MAX_IN_NAMESPACE: usize = 4;
const MAX_LAST_WEEDS: usize = 10;

impl World {
    pub(super) fn is_claimed(&self, pod: &Pod, until: Instant) -> bool {
        self.windows.iter().any(|(key, opened)| {
            let (name, _, namespace, service) = *key;
            let policy = &self.policies[&name];
            let selectors = policy.selectors(service).unwrap_or_default();
            namespace == pod.namespace
                && policy.enforce
                && pod.is_weed()
                && *opened + Duration::from_secs(policy.lasts) > until
                && selectors.iter().any(|it| pod.matches(SELECTORS[*it].0))
        })
    }

    /// To a watch a pod is gone when its labels do not match any more: if the answer to its deletion
    /// was lost, it is taken for deleted.
    fn may_mistake(&self, uid: u32) -> bool {
        self.lost.contains(&uid) && self.relabelled.contains(&uid)
    }

    /// A deletion is one that the rules allow.
    pub(super) fn check_deletion(&self, deletion: &Deletion) {
        let of_uid = |it: &&Deletion| it.uid == deletion.uid;
        assert_eq!(self.in_flight.iter().find(of_uid), None, "twice at once");
        let near = |it: &&Deletion| it.namespace == deletion.namespace;
        assert!(self.in_flight.len() < MAX_IN_FLIGHT);
        assert!(self.in_flight.iter().filter(near).count() < MAX_IN_NAMESPACE);

        let uid: u32 = deletion.uid.parse().expect("a UID of the model");
        let version: u64 = deletion.resource_version.parse().expect("one of the model");
        let pod = self.told.versions.get(&(uid, version));
        let pod = pod.expect("a version that was told");
        let again = self.weeded.contains(&*deletion.uid);
        assert!(!again || self.may_mistake(uid), "twice");
        let policies = self.told.policies.as_ref().expect("listed");
        let is_it = |it: &&usize| policy_name(**it) == *deletion.policy;
        let name = policies.keys().find(is_it).expect("a policy that is there");
        let policy = &policies[name];
        assert!(policy.enforce && pod.is_weed(), "{policy:?} {pod:?}");
        let service = SERVICES.iter().position(|it| **it == *deletion.service);
        let service = service.expect("a service of the model");
        let key = (*name, policy.uid, pod.namespace, service);
        assert!(
            self.windows.contains_key(&key),
            "no window for {deletion:?}"
        );
        let selectors = policy.selectors(service).unwrap_or_default();
        let shown = self.told.pods.iter().any(|(watch, pods)| {
            let texts = selectors.iter().map(|it| SELECTORS[*it].0);
            texts.clone().any(|it| it == watch.selector.as_str()) && pods.contains_key(&uid)
        });
        assert!(shown, "no watch for {policy:?} shows {pod:?}");
    }

    /// After each event: the windows are those of the rules, and all else follows from them. `again`
    /// are the services that were seen to recover.
    pub(super) fn review(&mut self, again: &BTreeSet<(usize, usize)>) {
        self.follow_names();
        self.expect_windows(again);
        self.follow_news();
        let expected: BTreeSet<_> = self
            .windows
            .keys()
            .map(|(policy, _, namespace, service)| {
                let service = SERVICES[*service].to_owned();
                (policy_name(*policy), namespace_name(*namespace), service)
            })
            .collect();
        assert_eq!(self.opened, expected);
        assert_eq!(self.state.sizes().windows, expected.len());
        self.check_watches();
        self.check_reports();
    }

    fn follow_names(&mut self) {
        let policies = self.told.policies.iter().flat_map(BTreeMap::values);
        let expected: BTreeSet<usize> = policies
            .filter(|policy| policy.in_force())
            .flat_map(|policy| policy.services.iter().map(|(service, _)| *service))
            .collect();
        assert_eq!(watched(self.state.service_names()), expected);
        if *self.state.service_names() != self.names {
            self.names = self.state.service_names().clone();
            self.slice_stream = Stream::default();
            self.told.current = false;
        }
        // What was dropped in passing has to be listed again, too.
        self.told
            .listed
            .retain(|service| expected.contains(service));
        let slices = &mut self.told.slices;
        slices.retain(|_, slice| expected.contains(&slice.service));
    }

    fn expect_windows(&mut self, again: &BTreeSet<(usize, usize)>) {
        let told = &self.told;
        let listed = told.policies.is_some() && told.namespaces.is_some();
        let listed = listed && (told.current || watched(&self.names).is_empty());
        self.began |= listed;
        if !self.began {
            return;
        }
        let mut covered = BTreeSet::new();
        let ready = ready(&self.told.slices);
        let policies = self.told.policies.iter().flatten();
        for (name, policy) in policies.filter(|(_, policy)| policy.in_force()) {
            for (id, namespace) in self.told.namespaces.iter().flatten() {
                if namespace.deleting || (policy.zoned && !namespace.zoned) {
                    continue;
                }
                let services = policy.services.iter().map(|(service, _)| *service);
                let services = services.filter(|it| self.told.listed.contains(it));
                let ready = services.filter(|service| ready.contains(&(*id, *service)));
                covered.extend(ready.map(|service| (*name, policy.uid, *id, service)));
            }
        }
        for key in &covered {
            let is_found = !self.covered.contains(key) && self.is_recent(key);
            if is_found || again.contains(&(key.2, key.3)) {
                self.windows.insert(*key, self.now.mono);
            }
        }
        let policies = &self.told.policies;
        self.windows.retain(|key, opened| {
            covered.contains(key) && {
                let policy = &policies.as_ref().expect("covered by one")[&key.0];
                *opened + Duration::from_secs(policy.lasts) > self.now.mono
            }
        });
        self.covered = covered;
    }

    /// Whether all ready slices of the service say that it became ready within the time that a window lasts,
    /// give or take a clock that is ahead.
    fn is_recent(&self, (policy, _, namespace, service): &Key) -> bool {
        let policies = self.told.policies.as_ref().expect("covered by one");
        let lasts = Duration::from_secs(policies[policy].lasts);
        let slices = self.told.slices.iter();
        let ready = slices
            .filter(|((of, _), slice)| of == namespace && slice.service == *service && slice.ready);
        let first = ready.map(|(_, slice)| slice.changed).min().flatten();
        first.is_some_and(|it| self.now.wall.duration_since(it).unsigned_abs() <= lasts)
    }

    fn follow_news(&mut self) {
        for news in self.state.take_news() {
            let key = |pair: Pair, policy: &str| {
                let (namespace, service) = (pair.namespace.to_string(), pair.service.to_string());
                (policy.to_owned(), namespace, service)
            };
            match news {
                News::Opened { pair, policy, .. } => {
                    self.opened.insert(key(pair, &policy));
                }
                News::NoWindow { pair, policy } => {
                    assert!(!self.opened.contains(&key(pair, &policy)), "open");
                }
                News::Closed { pair, policy, .. } => {
                    assert!(self.opened.remove(&key(pair, &policy)), "closed twice");
                }
                News::Pod { news, .. } => {
                    if let PodDeed::Weeded { .. } = news.deed {
                        let uid: u32 = news.uid.parse().expect("a UID of the model");
                        let new = self.weeded.insert(news.uid.to_string());
                        // By us, or by somebody else while the answer to us was lost.
                        let went = self.pods.get(&uid).is_none_or(|pod| pod.terminating);
                        assert!(self.may_mistake(uid) || new && went, "{news:?}");
                        *self.credits.entry(news.policy.to_string()).or_default() += 1;
                    }
                }
            }
        }
    }

    /// The watches are those that windows need, and few.
    fn check_watches(&mut self) {
        let wanted = self.state.pod_watches();
        self.pod_streams.retain(|watch, _| wanted.contains(watch));
        self.told.pods.retain(|watch, _| wanted.contains(watch));
        for watch in wanted {
            self.pod_streams.entry(watch.clone()).or_default();
        }
        let mut needs = BTreeMap::<&str, BTreeSet<String>>::new();
        for (name, _, namespace, service) in self.windows.keys() {
            let policy = &self.told.policies.as_ref().expect("listed")[name];
            for selector in policy.selectors(*service).unwrap_or_default() {
                let namespaces = needs.entry(SELECTORS[*selector].0).or_default();
                namespaces.insert(namespace_name(*namespace));
            }
        }
        for (selector, namespaces) in &needs {
            let of_it = wanted.iter().filter(|it| it.selector.as_str() == *selector);
            let scopes: Vec<_> = of_it.map(|it| it.namespace.as_deref()).collect();
            assert!(scopes.len() <= MAX_WATCHES, "{} watches", scopes.len());
            let all = wanted.iter().find(|it| {
                it.selector.as_str() == *selector
                    && it.namespace.is_none()
                    && self.pod_streams[*it].position.is_some()
            });
            assert!(
                all.is_none() || scopes.len() == 1,
                "others stay: {scopes:?}"
            );
            for namespace in namespaces {
                let served = scopes.contains(&None) || scopes.contains(&Some(namespace));
                assert!(served, "nobody watches {selector} in {namespace}");
            }
        }
        for watch in wanted {
            let namespaces = needs.get(watch.selector.as_str());
            let namespaces = namespaces.unwrap_or_else(|| panic!("{watch:?} is not needed"));
            let needed = watch.namespace.as_deref();
            assert!(needed.is_none_or(|it| namespaces.contains(it)), "{watch:?}");
        }
    }

    fn check_reports(&self) {
        for report in self.state.reports() {
            let times: Vec<_> = report.last_weeds.iter().map(|it| it.time.0).collect();
            assert!(times.len() <= MAX_LAST_WEEDS);
            assert!(
                times.is_sorted_by(|newer, older| newer >= older),
                "{times:?}"
            );
            let credited = self.credits.get(&*report.name).copied();
            assert!(report.weeded <= credited.unwrap_or_default());
            let windows = self.windows.keys();
            let of_it = windows.filter(|key| policy_name(key.0) == *report.name);
            assert_eq!(report.windows, of_it.count());
            assert!(report.ready <= report.services);
        }
    }
}

pub(super) fn watched(names: &ServiceNames) -> BTreeSet<usize> {
    let index = |name: &str| SERVICES.iter().position(|it| *it == name);
    names.iter().filter_map(|name| index(name)).collect()
}

/// The namespaces and services that are ready by these slices.
pub(super) fn ready(slices: &BTreeMap<(usize, usize), Slice>) -> BTreeSet<(usize, usize)> {
    let ready = slices.iter().filter(|(_, slice)| slice.ready);
    ready
        .map(|((namespace, _), slice)| (*namespace, slice.service))
        .collect()
}
