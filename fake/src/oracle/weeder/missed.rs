//! Pods that had to be deleted, and were not.

use super::{Deletion, Seed, pod::Pod, policy::Policy, service::ready};
use crate::store::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// From when to when, without that.
pub type Span = (Timestamp, Timestamp);

impl Seed<'_> {
    /// The pods that crash-looped for so long in a window, and were not asked to be deleted meanwhile. A window
    /// counts as far as it is within one of these times, in which a weeder was at work and nothing kept it from
    /// seeing and deleting, and only if the service became ready in the same time. Of the pods of one controller
    /// the first that is deleted in a window counts alone, since the others may have to wait.
    pub fn missed(
        &self,
        deletions: &[Deletion],
        calm: &[Span],
        within: SignedDuration,
    ) -> Vec<String> {
        let controllers = self.controllers();
        let policies = self.by_key.keys().filter(|it| it.plural == "weedpolicies");
        let mut missed = Vec::new();
        let mut known = BTreeMap::new();
        for policy in policies {
            for (service, lasts) in self.asked(policy) {
                for (uid, (key, controller)) in &controllers {
                    let covers = |it: Policy<'_>| it.names(service) && it.lasts() == Some(lasts);
                    let place = (policy, &key.namespace, service, lasts);
                    let windows = known.entry(place).or_insert_with(|| {
                        self.windows(policy, &key.namespace, service, lasts, covers)
                    });
                    let looped = self.looped(key, uid, policy, service);
                    let open = intersect(&intersect(&looped, windows), calm);
                    let dues = open.iter().filter_map(|(from, until)| {
                        let due = from.checked_add(within).ok()?;
                        let (opened, _) = windows.iter().rfind(|(opened, _)| opened <= from)?;
                        let was_seen = calm
                            .iter()
                            .any(|(begin, end)| begin <= opened && until <= end);
                        (due <= *until && was_seen).then_some((*opened, due))
                    });
                    let is_met = |(opened, due): &(Timestamp, Timestamp)| {
                        deletions.iter().any(|it| {
                            let of = it.uid.as_ref().and_then(|it| controllers.get(it.as_str()));
                            let is_sibling = of.is_some_and(|(_, other)| other == controller);
                            let is_it = it.uid.as_deref() == Some(*uid);
                            is_it && it.at <= *due
                                || is_sibling && (*opened..=*due).contains(&it.at)
                        })
                    };
                    missed.extend(dues.filter(|due| !is_met(due)).map(|(opened, due)| {
                        let Key { namespace, name, .. } = key;
                        format!(
                            "each-in-the-end: {namespace}/{name} had to be deleted by {due}, for {service} that \
                             was ready at {opened}"
                        )
                    }));
                }
            }
        }
        missed
    }

    /// All pods by their UIDs, with the UIDs of their controllers.
    fn controllers(&self) -> BTreeMap<&str, (&Key, &str)> {
        let keys = self.by_key.iter().filter(|(key, _)| key.plural == "pods");
        let versions = keys.flat_map(|(key, changes)| {
            let versions = changes.iter().filter_map(|it| it.after.as_deref());
            versions.map(move |it| (*key, it))
        });
        let pods = versions.filter_map(|(key, pod)| {
            let uid = pod["metadata"]["uid"].as_str()?;
            Some((uid, (key, Pod(pod).controller()?)))
        });
        pods.collect()
    }

    /// What all versions of a policy ask for.
    fn asked(&self, policy: &Key) -> BTreeSet<(&str, SignedDuration)> {
        let changes = self.by_key.get(policy).into_iter().flatten();
        let versions = changes.filter_map(|it| it.after.as_deref()).map(Policy);
        let asked =
            versions.flat_map(|it| it.services().filter_map(move |of| Some((of, it.lasts()?))));
        asked.collect()
    }

    /// The windows for a service that a policy covered when it became ready, and goes on covering.
    fn windows(
        &self,
        policy: &Key,
        namespace: &str,
        service: &str,
        lasts: SignedDuration,
        covers: impl Fn(Policy<'_>) -> bool,
    ) -> Vec<Span> {
        let place = Key::new("namespaces", "", namespace);
        let covered = self.spans(&[policy, &place], |now| match now {
            [Some(policy), Some(namespace)] => {
                let policy = Policy(policy);
                policy.is_in_force() && covers(policy) && policy.selects(namespace)
            }
            _ => false,
        });
        let windows = ready(&self.slices(namespace, service));
        let windows = windows.into_iter().filter_map(|(from, until)| {
            let (_, end) = covered
                .iter()
                .find(|(begin, end)| *begin <= from && from < *end)?;
            let over = from.checked_add(lasts).unwrap_or(Timestamp::MAX);
            Some((from, until.min(over).min(*end)))
        });
        windows.collect()
    }

    /// When a pod was one to be deleted for a service.
    fn looped(&self, key: &Key, uid: &str, policy: &Key, service: &str) -> Vec<Span> {
        self.spans(&[key, policy], |now| match now {
            [Some(pod), Some(policy)] => {
                let is_it = pod["metadata"]["uid"] == uid;
                let pod = Pod(pod);
                let is_weed = pod.is_looping() && pod.comes_back() && !pod.is_terminating();
                is_it && is_weed && Policy(policy).claims(pod).any(|it| it == service)
            }
            _ => false,
        })
    }

    /// When something was so of objects as they were at a time.
    fn spans(&self, keys: &[&Key], holds: impl Fn(&[Option<&Value>]) -> bool) -> Vec<Span> {
        let changes = |key: &&Key| self.by_key.get(*key).map(Vec::as_slice).unwrap_or_default();
        let times = keys
            .iter()
            .flat_map(|key| changes(key).iter().map(|it| it.at));
        let mut spans: Vec<Span> = Vec::new();
        for at in times.collect::<BTreeSet<_>>() {
            let now = keys.iter().map(|key| {
                let newest = changes(key).iter().rfind(|it| it.at <= at);
                newest.and_then(|it| it.after.as_deref())
            });
            let is_so = holds(&now.collect::<Vec<_>>());
            match spans
                .last_mut()
                .filter(|(_, until)| *until == Timestamp::MAX)
            {
                None if is_so => spans.push((at, Timestamp::MAX)),
                Some((_, until)) if !is_so => *until = at,
                _ => {}
            }
        }
        spans
    }
}

fn intersect(some: &[Span], others: &[Span]) -> Vec<Span> {
    let pairs = some
        .iter()
        .flat_map(|it| others.iter().map(move |other| (it, other)));
    let both = pairs.map(|(it, other)| (it.0.max(other.0), it.1.min(other.1)));
    both.filter(|(from, until)| from < until).collect()
}
