//! Events: what has just become otherwise, told on the object that it is about.
//!
//! Pure functions of those who report compare the status that was there with the one that was just written, or
//! could not be. A refresh changes nothing, so it yields no event; nor does a restart, unless the status could not
//! be written. Events wait in the bounded [`queue`] of the [`outbox`] until what came before has been sent: an
//! event may be late, or lost, but holds up nothing else.

pub(crate) mod kinds;
pub(crate) mod outbox;
mod queue;
pub(crate) mod rules;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Resource, runtime::events::EventType};
use prometheus_client::metrics::counter::Counter;

use super::conditions::find;

/// What an event can be, but for its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// On which objects it is told.
    on: On,
    /// Whether somebody may have to look.
    type_: EventType,
    /// What has come about, in CamelCase.
    reason: &'static str,
    /// What was done about it, in CamelCase.
    action: &'static str,
}

/// What events are told on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Dependent,
    ClusterHealth,
    ProbePolicy,
    PodOwner,
    Pod,
    WeedPolicy,
}

/// An event, yet without the object that it is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: &'static Kind,
    /// For people.
    pub(crate) note: String,
    /// What else it is about. Events on one object that differ in it are not counted as one.
    pub(crate) related: Option<Box<ObjectReference>>,
}

/// How many events were written, and how many were not.
#[derive(Clone, Debug, Default)]
pub struct EventCounts {
    /// Those that the seed has taken.
    pub written: Counter,
    /// Those that it refused or did not answer, and those for which there was no room or no time.
    pub dropped: Counter,
}

impl Event {
    pub(crate) fn new(kind: &'static Kind, note: impl Into<String>) -> Self {
        Self {
            kind,
            note: note.into(),
            related: None,
        }
    }
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
