//! Events on policies: something begins to hold in its status, or ends.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Event, Kind, holding};
use crate::status::conditions::{DELETING, READY, find};

/// The events when a condition begins to hold, and when it ends.
pub(crate) struct Rule {
    condition: &'static str,
    /// The message of the condition; `None` if it holds for something else.
    says: fn(&Condition) -> Option<&str>,
    begins: &'static Kind,
    /// With its message.
    ends: Option<(&'static Kind, &'static str)>,
}

impl Rule {
    /// The event says what the condition says.
    pub(crate) const fn begins(condition: &'static str, begins: &'static Kind) -> Self {
        Self {
            condition,
            says: |it| Some(&it.message),
            begins,
            ends: None,
        }
    }

    pub(crate) const fn ends(mut self, kind: &'static Kind, message: &'static str) -> Self {
        self.ends = Some((kind, message));
        self
    }

    /// The rule is about a part of what the condition says, or about one of its reasons.
    pub(crate) const fn says(mut self, says: fn(&Condition) -> Option<&str>) -> Self {
        self.says = says;
        self
    }
}

/// The events of these rules, given the conditions before.
pub(crate) fn changes(rules: &[Rule], before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let rules = rules.iter().filter_map(|rule| {
        let message = |it| holding(it, rule.condition).and_then(rule.says);
        match (message(before), message(after)) {
            (None, Some(message)) => Some(Event::new(rule.begins, message)),
            (Some(_), None) => rule.ends.map(|(kind, message)| Event::new(kind, message)),
            (None, None) | (Some(_), Some(_)) => None,
        }
    });
    // A policy that is being deleted is obeyed no more than before.
    let deleting = find(after, READY).is_some_and(|it| it.reason == DELETING);
    rules
        .filter(|event| !(deleting && event.kind.action == "Validate"))
        .collect()
}
