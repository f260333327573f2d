//! What is wanted of a cluster's dependents.

use tokio::time::Instant;

use crate::prober::plan::{Aim, Purpose};

/// What is wanted of the dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::prober::protect::machine) enum Wanted {
    /// Nothing: no flow is begun, and one under way ends.
    #[default]
    Nothing,
    /// What a verdict asks for. Once its evidence has expired, nothing begins.
    Verdict {
        purpose: Purpose,
        valid_until: Instant,
        /// A restore waits for its turn among those of other clusters, and for nodes.
        paced: bool,
    },
    /// This aim, from then until it is complete, without a verdict.
    Complete(Aim, Instant),
    /// Nothing is scaled. Owed dependents are read now and then, first at this moment: others may restore
    /// them.
    Held(Instant),
}

impl Wanted {
    pub(super) fn aim(self) -> Option<Aim> {
        match self {
            Self::Verdict { purpose, .. } => Some(purpose.aim),
            Self::Complete(aim, _) => Some(aim),
            Self::Nothing | Self::Held(_) => None,
        }
    }

    /// When it is due by itself.
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Self::Complete(_, due) | Self::Held(due) => Some(due),
            Self::Nothing | Self::Verdict { .. } => None,
        }
    }

    /// Whether it was wanted before, and keeps its time.
    pub(super) fn goes_on(self, before: Self) -> bool {
        match (self, before) {
            (Self::Complete(aim, _), Self::Complete(known, _)) => aim == known,
            (Self::Held(_), Self::Held(_)) => true,
            _ => false,
        }
    }
}
