//! Events: what has just become otherwise, told on the object that it is about.
//!
//! Pure functions compare the status that was there with the one that was just written ([`cluster`],
//! [`policy`], [`weed_policy`]), or put into words what was done to a dependent ([`dependent`]) or a
//! pod ([`pod`]). So a refresh tells nothing, nor does a restart. What they yield waits in the bounded
//! [`queue`] of the [`outbox`] until the [`publisher`] has sent what came before: an event may be
//! late, or lost, but holds up nothing else.

pub(super) mod cluster;
pub(super) mod dependent;
mod kinds;
pub(super) mod outbox;
pub(super) mod pod;
pub(super) mod policy;
mod publisher;
mod queue;
mod rules;
pub(super) mod sight;
pub(super) mod state;
pub(super) mod weed_policy;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{Resource, runtime::events::EventType};
use prometheus_client::metrics::counter::Counter;

/// What an event can be, but for its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
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
pub(super) struct Event {
    kind: &'static Kind,
    /// For people.
    note: String,
    /// What else it is about. Events on one object that differ in it are not counted as one.
    related: Option<Box<ObjectReference>>,
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
    fn new(kind: &'static Kind, note: impl Into<String>) -> Self {
        Self {
            kind,
            note: note.into(),
            related: None,
        }
    }
}

/// An object of this kind.
pub(super) fn regarding<K: Resource<DynamicType = ()>>(
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
fn holding<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    let mut conditions = conditions.iter();
    conditions.find(|known| known.type_ == kind && known.status == "True")
}
