//! Why a watch breaks.

use kube::{core::Status, runtime::watcher};

use crate::runtime::seed::{refusal, with_causes};

/// What is behind an error of a watch.
#[derive(Debug)]
pub(crate) enum Cause<'a> {
    /// The seed refused it, or ended it and said why.
    Refused(&'a Status),
    /// What came cannot be read. What is said of it may quote what came.
    Unreadable(&'a watcher::Error),
    /// It could not be reached, or the connection broke.
    Failed(&'a kube::Error),
}

impl<'a> Cause<'a> {
    /// What is behind it.
    pub(crate) fn of(error: &'a watcher::Error) -> Self {
        use watcher::Error::{
            InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
        };
        match error {
            WatchError(status) => Self::Refused(status),
            InitialListFailed(failed) | WatchStartFailed(failed) | WatchFailed(failed) => {
                match failed {
                    kube::Error::Api(status) => Self::Refused(status),
                    kube::Error::SerdeError(_) => Self::Unreadable(error),
                    _ => Self::Failed(failed),
                }
            }
            NoResourceVersion => Self::Unreadable(error),
        }
    }

    /// The HTTP status, if the seed gave one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Unreadable(_) | Self::Failed(_) => None,
        }
    }

    /// What to do, for everybody: nothing of what was read.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.code() {
            Some(401) => "the credentials are not accepted (401)",
            Some(403) => "it is forbidden (403): grant list and watch",
            Some(404) => "the kind is not served (404): apply its CustomResourceDefinition",
            _ => "the log says why",
        }
    }

    /// What went wrong, and what to do, for logs and statuses.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Refused(status) => refusal(status),
            Self::Unreadable(error) => error.to_string(),
            Self::Failed(error) => with_causes(error),
        }
    }
}
