//! Why a dependent could not be scaled.

use std::time::Duration;

use super::step::{MARK, RECORD};

/// How often a step is immediately decided again after another client changed the object.
pub const CONFLICTS: u32 = 5;
/// How long the answer that a kind cannot be scaled is kept: 1,000 clusters may ask, and it may be fixed.
pub(crate) const REFUSED: Duration = Duration::from_secs(10);

/// Reason of an error: a right is missing.
pub(crate) const SCALING_FORBIDDEN: &str = "ScalingForbidden";

/// Why a dependent could not be scaled. Each message tells what was tried and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ScaleError {
    /// A required dependent does not exist.
    #[error("it does not exist; create it, or set `optional: true` for it in the policy")]
    Missing,
    /// Its kind has no `scale`, or is not in a namespace.
    #[error(
        "the kind is cluster-scoped or has no scale subresource; only namespaced kinds with a scale \
         subresource can be dependents. Where one was scaled down before, have the kind served with a scale again, or \
         restore it by hand and remove its annotation {MARK}"
    )]
    NotScalable,
    /// The record is not a whole number above zero.
    #[error(
        "its annotation {RECORD} is {0:?}, not a whole number above 0; correct it, or remove it to \
         have the last known number restored"
    )]
    UnreadableRecord(String),
    /// The seed does not serve the kind.
    #[error(
        "the seed does not serve this kind in this version; correct apiVersion and kind in the \
         policy: {0}"
    )]
    UnknownKind(String),
    /// A request was refused for lack of rights.
    #[error(
        "{verb} is forbidden, grant it to the operator's ServiceAccount as \
         manifests/examples/other-dependents shows: {message}"
    )]
    Forbidden {
        /// What was tried.
        verb: &'static str,
        /// What the server said.
        message: String,
    },
    /// Other clients kept changing it while it was decided on.
    #[error("it was changed by somebody else {CONFLICTS} times in a row while being scaled")]
    Conflicts,
    /// It would have to be written, and the process runs with `--dry-run`.
    #[error("it is not written to, since the operator runs with --dry-run")]
    DryRun,
    /// A request failed.
    #[error("{verb} failed: {message}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// What came back.
        message: String,
    },
}

impl ScaleError {
    /// Tells whether there can be no such dependent at all.
    pub fn is_about_the_kind(&self) -> bool {
        matches!(self, Self::UnknownKind(_) | Self::NotScalable)
    }

    /// Tells whether a retry may succeed: the error is not about the dependent itself.
    pub fn is_about_the_attempt(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Conflicts)
    }

    /// The reason, for conditions and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "DependentMissing",
            Self::UnreadableRecord(_) => "RecordUnreadable",
            Self::UnknownKind(_) => "KindUnknown",
            Self::NotScalable => "NotScalable",
            Self::Forbidden { .. } => SCALING_FORBIDDEN,
            Self::Conflicts => "ScalingConflicts",
            Self::DryRun | Self::Request { .. } => "ScalingFailed",
        }
    }
}
