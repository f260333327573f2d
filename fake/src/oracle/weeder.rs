//! What must hold of each pod that a weeder deletes: docs/invariants.md says why.

mod missed;
mod pod;
mod policy;
mod service;

pub use self::missed::Span;

use self::{pod::Pod, policy::Policy};
use crate::{
    server::Asked,
    store::{Change, Key, Verb},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Deletions that may be under way at once.
const AT_ONCE: usize = 32;
/// Of these, in one namespace.
const IN_A_NAMESPACE: usize = 4;

/// A deletion of a pod, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub at: Timestamp,
    /// When it was answered, or given up.
    pub until: Timestamp,
    pub namespace: String,
    pub pod: String,
    /// The preconditions.
    pub uid: Option<String>,
    pub version: Option<String>,
    /// Whether whoever asked was told that it is done.
    pub is_done: bool,
}

impl Deletion {
    /// The deletion that a request is, which was answered at once. When one was given up that was not answered
    /// is for the caller to say.
    pub fn of(asked: &Asked) -> Option<Self> {
        let Asked { at, call, .. } = asked;
        if call.verb != Verb::Delete || call.plural != "pods" {
            return None;
        }
        let precondition = |field: &str| {
            let value = call.body.get("preconditions")?.get(field)?.as_str()?;
            Some(value.to_owned())
        };
        let is_carried_out = asked.carried_out.is_some_and(|code| code < 300);
        Some(Self {
            at: *at,
            until: *at,
            namespace: call.namespace.clone(),
            pod: call.name.clone(),
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            is_done: is_carried_out && asked.fate.is_none(),
        })
    }
}

/// What a weeder may have seen.
#[derive(Clone, Debug)]
pub struct Seed<'a> {
    by_key: BTreeMap<&'a Key, Vec<&'a Change>>,
    /// When it may have looked at all anew: at the begin of a term, or after a watch was broken. A service that was
    /// ready then was not seen to become so.
    looks: Vec<Timestamp>,
    /// How long a change may take to be seen.
    lag: SignedDuration,
}

impl<'a> Seed<'a> {
    /// The one with these changes of policies, namespaces, slices and pods, each kind's in their order.
    pub fn new(
        history: impl IntoIterator<Item = &'a Change>,
        looks: &[Timestamp],
        lag: SignedDuration,
    ) -> Self {
        let mut by_key: BTreeMap<&Key, Vec<&Change>> = BTreeMap::new();
        for change in history {
            by_key.entry(&change.key).or_default().push(change);
        }
        Self {
            by_key,
            looks: looks.to_vec(),
            lag,
        }
    }

    /// All that is broken by these deletions, which are in order.
    pub fn broken(&self, deletions: &[Deletion]) -> Vec<String> {
        let mut broken = Vec::new();
        let mut done = BTreeSet::new();
        for (place, deletion) in deletions.iter().enumerate() {
            let (earlier, _) = deletions.split_at(place);
            let open = earlier.iter().filter(|it| it.until > deletion.at);
            let near = open.clone().filter(|it| it.namespace == deletion.namespace);
            let found = if open.count() >= AT_ONCE {
                Some("few-at-once: too many are under way")
            } else if near.count() >= IN_A_NAMESPACE {
                Some("few-at-once: too many are under way in the namespace")
            } else if deletion.uid.as_ref().is_some_and(|it| done.contains(it)) {
                Some("once: it was deleted before")
            } else {
                self.judge(deletion)
            };
            done.extend(deletion.uid.iter().filter(|_| deletion.is_done));
            let Deletion {
                at, namespace, pod, ..
            } = deletion;
            broken.extend(found.map(|it| format!("{it}: {namespace}/{pod} at {at}")));
        }
        broken
    }

    fn judge(&self, deletion: &Deletion) -> Option<&'static str> {
        let (Some(uid), Some(version)) = (&deletion.uid, &deletion.version) else {
            return Some("only-what-was-judged: no UID or no resourceVersion is asked for");
        };
        let key = Key::new("pods", &deletion.namespace, &deletion.pod);
        let versions = self.by_key.get(&key).into_iter().flatten();
        let mut versions = versions.filter_map(|it| it.after.as_deref());
        let judged = versions.find(|it| {
            let metadata = |field| it["metadata"][field].as_str();
            metadata("uid") == Some(uid) && metadata("resourceVersion") == Some(version)
        });
        let Some(pod) = judged.map(Pod) else {
            return Some("only-what-was-judged: there never was such a version");
        };
        if pod.is_terminating() {
            return Some("only-what-crash-loops: it is in deletion already");
        }
        if !pod.is_looping() {
            return Some("only-what-crash-loops: none of its containers does");
        }
        if !pod.comes_back() {
            return Some("only-what-comes-back: nothing would replace it");
        }
        let claims: Vec<(Policy<'_>, &str)> = self.claims(deletion, pod).collect();
        if claims.is_empty() {
            return Some("only-in-a-window: no policy that is in force claims it");
        }
        let is_open =
            |(policy, service): &(Policy<'_>, &str)| self.is_open(deletion, *policy, service);
        let is_in_window = claims.iter().any(is_open);
        (!is_in_window)
            .then_some("only-in-a-window: its service did not become ready lately, or is not")
    }

    /// The policies in force that claim a pod, each with the service for which it does.
    fn claims(
        &self,
        deletion: &Deletion,
        pod: Pod<'a>,
    ) -> impl Iterator<Item = (Policy<'a>, &'a str)> {
        let namespace = Key::new("namespaces", "", &deletion.namespace);
        let namespaces: Vec<&Value> = self.seen(&namespace, deletion.at).collect();
        let keys = self.by_key.keys().filter(|it| it.plural == "weedpolicies");
        let policies = keys.flat_map(|key| self.seen(key, deletion.at)).map(Policy);
        policies
            .filter(move |policy| {
                policy.is_in_force() && namespaces.iter().any(|it| policy.selects(it))
            })
            .flat_map(move |policy| policy.claims(pod).map(move |service| (policy, service)))
    }

    /// What a weeder may have taken for the object when it asked for something then.
    fn seen(&self, key: &Key, at: Timestamp) -> impl Iterator<Item = &'a Value> {
        let from = self.before(at);
        let changes = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
        let ends = changes.iter().skip(1).map(|it| it.at);
        let spans = changes.iter().zip(ends.chain([Timestamp::MAX]));
        spans
            .filter(move |(change, end)| change.at <= at && *end >= from)
            .filter_map(|(change, _)| change.after.as_deref())
    }

    fn before(&self, at: Timestamp) -> Timestamp {
        at.checked_sub(self.lag).unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests;
