//! How failures are told to the administrator who runs the command, not to who runs the operator.

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

fn forbidden(tried: &str, message: &str) -> String {
    format!("you may not {tried}; have it granted, or ask somebody who may: {message}")
}
