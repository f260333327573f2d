//! When a service was ready, and what its EndpointSlices say of that.

use super::{Deletion, Seed, policy::Policy};
use crate::store::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

const SERVICE: &str = "kubernetes.io/service-name";
const CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// A change of a slice.
pub(super) struct Slice<'a> {
    key: &'a Key,
    at: Timestamp,
    revision: u64,
    /// The slice after it, if it is one of the service.
    now: Option<&'a Value>,
}

impl Seed<'_> {
    /// Whether a window of a policy for a service may have been open when a deletion was asked for.
    pub(super) fn is_open(&self, deletion: &Deletion, policy: Policy<'_>, service: &str) -> bool {
        let Some(lasts) = policy.lasts() else {
            return false;
        };
        let at = deletion.at;
        let slices = self.slices(&deletion.namespace, service);
        let ready = ready(&slices);
        let is_within = |since: Timestamp, at: Timestamp| {
            let age = at.duration_since(since);
            !age.is_negative() && age <= lasts + self.lag
        };
        let is_ready = ready
            .iter()
            .any(|(from, until)| *from <= at && *until >= self.before(at));
        let was_seen = ready.iter().any(|(from, _)| is_within(*from, at));
        let looks = self.looks.iter().copied();
        let looks = looks.chain(self.covered(policy, &deletion.namespace, service));
        let mut looks = looks.filter(|it| is_within(*it, at));
        is_ready && (was_seen || looks.any(|it| self.was_found(&slices, it, lasts)))
    }

    /// Whether the slices may have said, when they were looked at, that their service became ready lately.
    fn was_found(&self, slices: &[Slice<'_>], at: Timestamp, lasts: SignedDuration) -> bool {
        let end = at.checked_add(self.lag).unwrap_or(Timestamp::MAX);
        let changes = slices.iter().map(|it| it.at);
        let mut moments = changes.filter(|it| (at..=end).contains(it)).chain([at]);
        moments.any(|at| {
            let mut now = BTreeMap::new();
            for change in slices.iter().filter(|it| it.at <= at) {
                now.insert(change.key, change.now.filter(|it| is_ready(it)));
            }
            // One that does not say since when comes first.
            let since = now.into_values().flatten().map(changed_for).min().flatten();
            since.is_some_and(|since| at.duration_since(since).abs() <= lasts + self.lag)
        })
    }

    /// When a policy came to cover a service in a namespace, so that nobody saw for it how the service became ready.
    fn covered<'a>(
        &'a self,
        policy: Policy<'a>,
        namespace: &str,
        service: &'a str,
    ) -> impl Iterator<Item = Timestamp> + 'a {
        let namespace = Key::new("namespaces", "", namespace);
        let own = Key::new("weedpolicies", "", policy.name());
        let changes = |key: &Key| self.by_key.get(key).into_iter().flatten();
        let placed = changes(&namespace).filter(move |change| {
            let before = change.before.as_deref();
            !before.is_some_and(|it| policy.selects(it))
        });
        let edited = changes(&own).filter(move |change| {
            let before = change.before.as_deref().map(Policy);
            let mut namespaces = self.seen(&namespace, change.at);
            !before.is_some_and(|it| {
                it.is_active()
                    && it.names(service)
                    && namespaces.any(|namespace| it.selects(namespace))
            })
        });
        placed.chain(edited).map(|it| it.at)
    }

    /// All changes of the slices that a service has or had, in their order.
    pub(super) fn slices(&self, namespace: &str, service: &str) -> Vec<Slice<'_>> {
        let is_its = |it: &&Value| it["metadata"]["labels"][SERVICE] == service;
        let keys = self.by_key.iter();
        let keys =
            keys.filter(|(key, _)| key.plural == "endpointslices" && key.namespace == namespace);
        let changes = keys.flat_map(|(key, changes)| changes.iter().map(|it| (*key, *it)));
        let slices = changes.map(|(key, change)| Slice {
            key,
            at: change.at,
            revision: change.revision,
            now: change.after.as_deref().filter(is_its),
        });
        let mut slices: Vec<Slice<'_>> = slices.collect();
        slices.sort_by_key(|it| it.revision);
        slices
    }
}

/// From when to when a service was ready: as long as any of its slices was.
pub(super) fn ready(slices: &[Slice<'_>]) -> Vec<(Timestamp, Timestamp)> {
    let mut spans: Vec<(Timestamp, Timestamp)> = Vec::new();
    let mut now = BTreeMap::new();
    for change in slices {
        let was_ready = now.values().any(|ready| *ready);
        now.insert(change.key, change.now.is_some_and(is_ready));
        match (was_ready, now.values().any(|ready| *ready)) {
            (false, true) => spans.push((change.at, Timestamp::MAX)),
            (true, false) => {
                if let Some((_, until)) = spans.last_mut() {
                    *until = change.at;
                }
            }
            _ => {}
        }
    }
    spans
}

/// Whether an endpoint of a slice is ready, as it is unless it says otherwise.
fn is_ready(slice: &Value) -> bool {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let mut ready = endpoints.filter(|it| it.is_object()).map(|it| {
        let conditions = &it["conditions"];
        conditions["ready"] != false && conditions["terminating"] != true
    });
    ready.any(|it| it)
}

/// Since when a slice has not changed, if it says so.
fn changed_for(slice: &Value) -> Option<Timestamp> {
    slice["metadata"]["annotations"][CHANGED]
        .as_str()?
        .parse()
        .ok()
}
