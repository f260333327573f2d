//! Why a request to the seed came to nothing.

use std::error::Error;

use kube::client::AuthError;

use super::{MAX_REFUSAL, REQUEST_LIMIT};
use crate::util::text::clean;

/// A request that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The seed refused it.
    #[error("{}", refusal(.0))]
    Refused(Box<kube::core::Status>),
    /// The seed could not be reached, or its answer cannot be read.
    #[error("{0}")]
    Failed(String),
    /// No answer came in time, although it was the request's turn.
    #[error("the seed did not answer within {REQUEST_LIMIT:?}")]
    Late,
    /// Leadership was lost: another replica may act by now.
    #[error("this replica does not lead any more")]
    NotLeading,
}

/// Returns the words of the client about a request that failed, with those that it leaves to the causes: why there was
/// no connection.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(failed) = error.downcast_ref().and_then(plugin) {
            return failed;
        }
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    // What cannot be read is quoted, however long it is.
    clean(&text, MAX_REFUSAL)
}

/// Returns how the command failed by which a kubeconfig logs in. Neither its environment nor its output is quoted: each
/// may hold a token.
fn plugin(error: &AuthError) -> Option<String> {
    let failed = match error {
        AuthError::AuthExecRun { out, .. } => format!("ended with {}", out.status),
        AuthError::AuthExecParse(_) => "printed something else than an ExecCredential".to_owned(),
        _ => return None,
    };
    Some(format!(
        "the command by which the kubeconfig logs in {failed}; run it by hand to see why"
    ))
}

/// Returns the words of the seed about what it refuses, which name the user, and what to do.
pub(super) fn refusal(status: &kube::core::Status) -> String {
    let remedy = match is_for_lack_of_rights(status) {
        true => {
            "; grant it to the operator's ServiceAccount, as manifests/prober/rbac.yaml or \
             manifests/weeder/rbac.yaml does"
        }
        false => "",
    };
    format!("{} ({}){remedy}", told(status), status.code)
}

/// Returns whether more rights would help: not if a webhook denied it, nor if something before the API server did.
pub(crate) fn is_for_lack_of_rights(status: &kube::core::Status) -> bool {
    status.code == 403
        && status.reason == "Forbidden"
        && !status.message.starts_with("admission webhook ")
}

/// Returns the words of a refusal, in one line. Those of a proxy are a page of any length.
pub(crate) fn told(status: &kube::core::Status) -> String {
    clean(&status.message, MAX_REFUSAL)
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Failed(with_causes(&error)),
        }
    }
}

impl CallError {
    /// The HTTP status, if the seed gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Failed(_) | Self::Late | Self::NotLeading => None,
        }
    }
}
