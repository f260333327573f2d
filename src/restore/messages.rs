//! How failures are told to the administrator who runs the command, not to who runs the operator.

use super::operator::OperatorPresence;
use crate::{
    prober::scale::ScaleError,
    runtime::seed::{CallError, is_for_lack_of_rights, told},
};

/// Why a request came to nothing; `tried` is a verb with its object, such as `list clusterhealths`.
pub(super) fn call(tried: &str, error: &CallError) -> String {
    match error {
        CallError::Refused(status) if is_for_lack_of_rights(status) => {
            forbidden(tried, &told(status))
        }
        CallError::Refused(status) => {
            format!("could not {tried}: {} ({})", told(status), status.code)
        }
        error => format!("could not {tried}: {error}"),
    }
}

/// Why a dependent could not be read or scaled.
pub(super) fn scale(error: &ScaleError) -> String {
    match error {
        ScaleError::Forbidden { verb, message, .. } => forbidden(&format!("{verb} it"), message),
        error => error.to_string(),
    }
}

/// Why a cluster is held back that an operator would scale down again by this policy.
pub(super) fn held(policy: &str, presence: &OperatorPresence) -> String {
    format!(
        "held back: the ProbePolicy {policy} protects this cluster, and {}: what is restored now \
         would be scaled down again. It restores by itself once the nodes are heard; to overrule \
         it: --overrule",
        presence.words()
    )
}

/// Why nothing is done to a cluster whose dependents are back, and marked.
pub(super) fn marked_for_now(policy: &str, presence: &OperatorPresence) -> String {
    format!(
        "nothing to do: its dependents are back, and an operator removes their marks within a minute or \
         two, by the ProbePolicy {policy}: {}",
        presence.words()
    )
}

fn forbidden(tried: &str, message: &str) -> String {
    format!("you may not {tried}; have it granted, or ask somebody who may: {message}")
}
