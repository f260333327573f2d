//! Events on policies: something begins to hold in its status, or ends.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Event, Kind, holding};
use crate::status::conditions::{DELETING, READY, find};

/// The events when something begins to hold, and when it ends.
pub(crate) struct Rule {
    /// The message in these conditions while it holds, which is that of the first event.
    pub(crate) holds: fn(&[Condition]) -> Option<&str>,
    pub(crate) begins: &'static Kind,
    /// With its message.
    pub(crate) ends: Option<(&'static Kind, &'static str)>,
}

/// The events of these rules, given the conditions before.
pub(crate) fn changes(rules: &[Rule], before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let rules = rules
        .iter()
        .filter_map(|rule| match ((rule.holds)(before), (rule.holds)(after)) {
            (None, Some(message)) => Some(Event::new(rule.begins, message)),
            (Some(_), None) => rule.ends.map(|(kind, message)| Event::new(kind, message)),
            (None, None) | (Some(_), Some(_)) => None,
        });
    // A policy that is being deleted is obeyed no more than before.
    let deleting = find(after, READY).is_some_and(|it| it.reason == DELETING);
    rules
        .filter(|event| !(deleting && event.kind.action == "Validate"))
        .collect()
}

/// The message of the condition of this type, if it holds.
pub(crate) fn message<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a str> {
    holding(conditions, kind).map(|known| &*known.message)
}
