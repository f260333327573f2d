//! What a policy needs to know of a cluster, by the status of its ClusterHealth. So a restart changes
//! nothing in what is said of a policy until there is something to say.

use super::{
    finding::{PENDING, is_meant},
    status::PROTECTED_UNPROBED,
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    status::{
        conditions::{DEGRADED, PROTECTED_TOO_LONG, READY},
        events::holding,
    },
};

/// One cluster, in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary<'a> {
    /// The responsible policy.
    pub(super) policy: Option<&'a str>,
    /// Whether its dependents are scaled down.
    pub(super) protection: Protection,
    /// Whether it is protected, or a dependent is still owed its replicas.
    pub(super) protected: bool,
    /// The number of dependents that are owed their replicas.
    pub(super) owed: usize,
    /// Whether any is, or keeps its mark.
    pub(super) marked: bool,
    /// Whether each dependent has been looked at in this run.
    pub(super) looked_at: bool,
    /// Whether it has been protected for too long.
    pub(super) overdue: bool,
    /// The finding in one word.
    pub(super) reason: &'a str,
    /// What the finding amounts to.
    pub(super) standing: Standing,
    /// Whether it is probed, so that it can be seen to fall silent.
    pub(super) probed: bool,
    /// Why a dependent is not where it should be, in one word.
    pub(super) trouble: Option<&'a str>,
}

/// What a finding amounts to.
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

impl<'a> Summary<'a> {
    /// By its status. Nothing has been looked at yet.
    pub(super) fn of(status: &'a ClusterHealthStatus) -> Self {
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
        let trouble = holds(DEGRADED)
            .map(|known| &*known.reason)
            .filter(|why| ![reason, PROTECTED_UNPROBED].contains(why));
        Self {
            policy: status.policy.as_deref(),
            protection: status.protection,
            protected: status.protection != Protection::None || owed > 0,
            owed,
            marked: owed > 0 || status.dependents.iter().any(|it| it.keeps_mark),
            looked_at: false,
            overdue: holds(PROTECTED_TOO_LONG).is_some(),
            reason,
            probed: !skipped,
            standing,
            trouble,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::prober::{
        report::{
            ClusterReport,
            finding::Finding,
            fixtures::{assessment, problem, report, said_of, skipped},
        },
        verdict::{Doubt, Verdict},
    };

    fn judged(verdict: Verdict) -> ClusterReport {
        report(Finding::Judged(verdict, Box::new(assessment(5, 3))))
    }

    fn doubtful() -> ClusterReport {
        judged(Verdict::Undetermined(Doubt::NoWrites))
    }

    /// What stands in the same condition is told apart: that it is protected and skipped, or cannot be judged, is
    /// no trouble with a dependent.
    #[rstest]
    #[case::pending(report(Finding::Pending), Standing::Pending)]
    #[case::healthy(judged(Verdict::Healthy), Standing::Judged)]
    #[case::outage(judged(Verdict::Outage), Standing::Judged)]
    #[case::doubtful(doubtful(), Standing::Doubtful)]
    #[case::skipped(skipped("Hibernated"), Standing::Skipped)]
    #[case::unreadable(skipped("Unreadable"), Standing::Doubtful)]
    fn what_a_finding_amounts_to(
        #[case] report: ClusterReport,
        #[case] standing: Standing,
        #[values(Protection::None, Protection::Active)] protection: Protection,
        #[values(None, Some("ScalingForbidden"))] trouble: Option<&'static str>,
    ) {
        let problem = trouble.map(|reason| problem("kcm", reason, "kcm: it is forbidden"));
        let report = ClusterReport {
            protection,
            problems: problem.into_iter().collect(),
            ..report
        };
        let seen = said_of(&report);
        let seen = Summary::of(&seen.status);
        assert_eq!((seen.standing, seen.trouble), (standing, trouble));
        let skipped = matches!(report.finding, Finding::Skipped { .. });
        assert_eq!(seen.probed, !skipped);
        assert_eq!(seen.protected, protection != Protection::None);
    }
}
