//! The condition types and reasons of all kinds, in the vocabulary of kstatus.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

/// False when a policy is not obeyed, or a cluster cannot be judged.
pub const READY: &str = "Ready";
/// True while dependents are scaled down.
pub const PROTECTING: &str = "Protecting";
/// True while pods are deleted if they crash, since a service that they need became ready.
pub const WEEDING: &str = "Weeding";
/// True while something cannot be judged, scaled or deleted.
pub const DEGRADED: &str = "Degraded";
/// True while another policy applies to a cluster that this one selects as well.
pub const CONFLICTED: &str = "Conflicted";
/// Present while a policy that is being deleted still protects clusters.
pub const RECONCILING: &str = "Reconciling";
/// Present while the object itself keeps anything from being done.
pub const STALLED: &str = "Stalled";

/// Reason of Ready while the object is being deleted.
pub(crate) const DELETING: &str = "Deleting";

/// Present while a cluster is protected for so long that somebody must look.
pub const PROTECTED_TOO_LONG: &str = "ProtectedTooLong";

/// The longest message, in characters: it may quote what somebody else wrote.
const MAX_MESSAGE: usize = 4_096;

/// A condition of this type, which holds or does not, for this reason in CamelCase. It has no transition
/// time yet.
pub fn condition(kind: &str, holds: bool, reason: &str, message: impl AsRef<str>) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: bounded(message.as_ref()),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// Degraded for all that is amiss, each with its reason, from the gravest to the least.
pub fn degraded(amiss: &[(&'static str, String)]) -> Condition {
    match amiss.first() {
        Some((reason, _)) => {
            let messages: Vec<&str> = amiss.iter().map(|(_, message)| &**message).collect();
            condition(DEGRADED, true, reason, messages.join("; "))
        }
        None => condition(DEGRADED, false, "AsExpected", ""),
    }
}

/// Gives conditions their transition times.
pub(crate) fn date(conditions: &mut [Condition], before: &[Condition], now: Timestamp) {
    for condition in conditions {
        let known = find(before, &condition.type_);
        let same = known.filter(|known| known.status == condition.status);
        condition.last_transition_time =
            same.map_or(Time(now), |known| known.last_transition_time.clone());
    }
}

/// The beginning of a message, as much of it as a status holds.
pub fn bounded(message: &str) -> String {
    message.chars().take(MAX_MESSAGE).collect()
}

/// The first of these names, and the number of those that are left out.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    let first = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The condition of this type, whether or not it holds.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|known| known.type_ == kind)
}

/// The reason and the message of the condition of this type.
pub(crate) fn said<'a>(conditions: &'a [Condition], kind: &str) -> Option<(&'a str, &'a str)> {
    find(conditions, kind).map(|it| (&*it.reason, &*it.message))
}
