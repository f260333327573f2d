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
    /// It was the request's turn, but no answer came in time.
    #[error("the seed did not answer within {REQUEST_LIMIT:?}")]
    Late,
    /// Another replica may act by now.
    #[error("this replica does not lead any more")]
    NotLeading,
}

/// What the client says of a request that failed, and what it leaves to the causes: why there was no
/// connection.
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

/// How the command failed by which a kubeconfig logs in. Neither its environment nor what it printed is
/// quoted: each may hold a token.
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

/// What the seed says of what it refuses, and what to do. It names the user, who is the prober or the
/// weeder.
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

/// Whether more rights would help: not if a webhook denied it, nor if something before the API server did.
pub(crate) fn is_for_lack_of_rights(status: &kube::core::Status) -> bool {
    status.code == 403
        && status.reason == "Forbidden"
        && !status.message.starts_with("admission webhook ")
}

/// What a refusal says, in one line. Where a proxy refuses, it is a page of any length.
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
