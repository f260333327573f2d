//! Events: what has just become otherwise, on the object that it is about.
//!
//! [`changes`] compares the conditions of a status with those before, by one table for each kind. What is done to a
//! dependent or a pod has a [`Kind`] of its own. A refresh changes nothing, so it causes no event, nor does a restart.
//! Events wait in the bounded [`queue`] of the [`outbox`] until what came before has been sent: an event may be late,
//! or lost, but holds up nothing else.

pub(crate) mod kinds;
pub(crate) mod outbox;
pub(super) mod queue;
pub(super) mod rules;

use std::borrow::Cow;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Resource, runtime::events::EventType};

use super::{
    conditions::{READY, find},
    desk::Key,
    object::Kind as Object,
};

/// Type, reason and action of an event on a dependent or a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Warning if a person may have to look.
    type_: EventType,
    reason: &'static str,
    action: &'static str,
}

/// An event, yet without the object that it is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) type_: EventType,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) action: &'static str,
    /// For people.
    pub(crate) note: String,
    /// Another object that it is about. Events on one object that differ in it are not counted as one.
    pub(crate) related: Option<Box<ObjectReference>>,
}

type Reasons = &'static [&'static str];

/// A condition whose changes are events; its reasons between which a change is none, since nobody needs to look; and
/// those that only inform, whereas to all others a person may have to look.
pub(crate) type Rule = (&'static str, Reasons, Reasons);

impl Event {
    pub(crate) fn new(kind: &Kind, note: impl Into<String>) -> Self {
        Self {
            type_: kind.type_,
            reason: kind.reason.into(),
            action: kind.action,
            note: note.into(),
            related: None,
        }
    }

    /// Writes it to the log, as a line about this object.
    pub(super) fn log(&self, (kind, name): &Key) {
        let (cluster, policy) = match kind {
            Object::ClusterHealth => (Some(&**name), None),
            _ => (None, Some(&**name)),
        };
        let (reason, note) = (&*self.reason, &self.note);
        match self.type_ {
            EventType::Normal => tracing::info!(cluster, policy, reason, "{note}"),
            EventType::Warning => tracing::warn!(cluster, policy, reason, "{note}"),
        }
    }
}

/// Returns the events of a status, given reason and message of each condition before and now. An event has those of
/// its condition; the message of Ready, if that has none.
pub(crate) fn changes<'a>(
    rules: &[Rule],
    before: impl Fn(&str) -> Option<(&'a str, &'a str)>,
    now: impl Fn(&str) -> Option<(&'a str, &'a str)>,
) -> Vec<Event> {
    let changes = rules.iter().filter_map(|(condition, quiet, normal)| {
        let loud = |reason: &&str| !quiet.contains(reason);
        let was = before(condition).map(|it| it.0).filter(loud);
        let (reason, message) = now(condition)?;
        let is = Some(reason).filter(loud);
        if was == is {
            return None;
        }
        let ready = now(READY).map_or("", |it| it.1);
        Some(Event {
            type_: match is {
                Some(reason) if !normal.contains(&reason) => EventType::Warning,
                _ => EventType::Normal,
            },
            reason: reason.to_owned().into(),
            action: condition,
            note: if message.is_empty() { ready } else { message }.to_owned(),
            related: None,
        })
    });
    changes.collect()
}

/// An object of this kind.
pub(crate) fn regarding<K: Resource<DynamicType = ()>>(
    name: &str,
    uid: Option<&str>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: Some(name.to_owned()),
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// The condition of this type, if it holds.
pub(crate) fn holding<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    find(conditions, kind).filter(|known| known.status == "True")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const RULES: &[Rule] = &[("Protecting", &["NotProtected", "Restored"], &["Protected"])];

    #[rstest]
    #[case::begins("NotProtected", "ScalingDown", Some(EventType::Warning))]
    #[case::goes_on("ScalingDown", "Protected", Some(EventType::Normal))]
    #[case::lasts("Protected", "Protected", None)]
    #[case::ends("Protected", "Restored", Some(EventType::Normal))]
    #[case::is_well("Restored", "NotProtected", None)]
    #[case::is_found("", "ScalingDown", Some(EventType::Warning))]
    #[case::is_found_well("", "NotProtected", None)]
    #[case::is_gone("Protected", "", None)]
    fn a_change_is_told_once(
        #[case] before: &'static str,
        #[case] after: &'static str,
        #[case] expected: Option<EventType>,
    ) {
        let said = |reason: &'static str| {
            move |_: &str| Some((reason, "why")).filter(|it| !it.0.is_empty())
        };
        let told = changes(RULES, said(before), said(after));
        let told: Vec<_> = told
            .iter()
            .map(|it| (&*it.reason, it.type_, &*it.note))
            .collect();
        let expected: Vec<_> = expected
            .map(|type_| (after, type_, "why"))
            .into_iter()
            .collect();
        assert_eq!(told, expected);
    }
}
