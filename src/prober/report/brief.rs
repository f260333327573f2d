//! Brief of a cluster for its policy, by the status of its ClusterHealth. So a restart changes
//! nothing in what is said of a policy until there is something to say.

use super::{
    finding::{PENDING, is_meant},
    status::PROTECTED_UNPROBED,
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    report::{
        conditions::{DEGRADED, PROTECTED_TOO_LONG, READY},
        events::holding,
    },
};

/// Cluster, in brief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Brief {
    /// The responsible policy.
    pub(super) policy: Option<String>,
    /// State of its dependents.
    pub(super) protection: Protection,
    /// True if it is protected, or a dependent is still owed its replicas.
    pub(super) protected: bool,
    /// The number of dependents that are owed their replicas.
    pub(super) owed: usize,
    /// True if any is, or keeps its mark.
    pub(super) marked: bool,
    /// True if each dependent has been looked at; `None` until there is a report in this run.
    pub(super) looked_at: Option<bool>,
    /// True if it has been protected for too long.
    pub(super) overdue: bool,
    /// The finding in one word.
    pub(super) reason: String,
    /// Sum of the finding.
    pub(super) standing: Standing,
    /// Why a dependent is not where it should be, in one word.
    pub(super) trouble: Option<String>,
}

/// Sum of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not probed yet.
    Pending,
    /// Not to be probed.
    Skipped,
    /// Probed, and judged or about to be.
    Judged,
    /// To be probed, as far as is known, and not judged at present.
    Doubtful,
}

impl Brief {
    /// Returns the brief of a cluster with this status.
    pub(super) fn of(status: &ClusterHealthStatus, looked_at: Option<bool>) -> Self {
        let holds = |kind| holding(&status.conditions, kind);
        let owed = status.dependents.iter().filter(|it| it.owed).count();
        let reason = status.reason.as_deref().unwrap_or(PENDING);
        let skipped = status.is_skipped();
        let standing = match reason {
            _ if skipped && is_meant(reason) => Standing::Skipped,
            _ if skipped => Standing::Doubtful,
            PENDING => Standing::Pending,
            _ if holds(READY).is_some() => Standing::Judged,
            _ => Standing::Doubtful,
        };
        // Degraded also tells why a cluster cannot be judged, and that one is not probed.
        let trouble = holds(DEGRADED).map(|known| known.reason.clone());
        Self {
            policy: status.policy.clone(),
            protection: status.protection,
            protected: status.protection != Protection::None || owed > 0,
            owed,
            marked: owed > 0 || status.dependents.iter().any(|it| it.keeps_mark),
            looked_at,
            overdue: holds(PROTECTED_TOO_LONG).is_some(),
            reason: reason.to_owned(),
            standing,
            trouble: trouble.filter(|why| ![reason, PROTECTED_UNPROBED].contains(&&**why)),
        }
    }
}
