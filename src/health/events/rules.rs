//! What the events on policies have in common: what is told when a condition begins to hold or ends,
//! and when rights are missing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Event, Kind, holding};
use crate::health::{
    conditions::{DELETING, READY, STALLED},
    rights::Rights,
};

/// What is told when a condition begins to hold, and when it ends.
pub(crate) struct Rule {
    pub(crate) condition: &'static str,
    pub(crate) begins: &'static Kind,
    pub(crate) ends: &'static Kind,
    /// What is told then.
    pub(crate) ended: &'static str,
}

/// The events of these conditions, given the ones before. The message of a condition is told when it
/// begins.
pub(crate) fn changes(
    rules: &[Rule],
    before: &[Condition],
    after: &[Condition],
) -> impl Iterator<Item = Event> {
    let deleting = is_deleting(after);
    // One that is being deleted is obeyed no more than before.
    let told = move |rule: &&Rule| !(deleting && rule.condition == STALLED);
    let rules = rules.iter().filter(told);
    rules.filter_map(|rule| rule.change(before, after))
}

impl Rule {
    fn change(&self, before: &[Condition], after: &[Condition]) -> Option<Event> {
        let said = holding(before, self.condition);
        match (said, holding(after, self.condition)) {
            (None, Some(now)) => Some(Event::new(self.begins, &*now.message)),
            (Some(_), None) => Some(Event::new(self.ends, self.ended)),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }
}

/// That rights are missing, or none is any more.
pub(crate) fn rights(
    rights: &Rights,
    (missing, suffice): (&'static Kind, &'static Kind),
    before: &[Condition],
    after: &[Condition],
) -> Option<Event> {
    match (rights.told(before), rights.told(after)) {
        (None, Some(now)) => Some(Event::new(missing, now)),
        (Some(_), None) => Some(Event::new(suffice, rights.suffice)),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// Whether the policy is being deleted.
fn is_deleting(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|known| known.type_ == READY && known.reason == DELETING)
}
