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
            finding::{Finding, HeldBack},
            fixtures::{assessment, closed, owed, problem, report, said_of, skipped},
        },
        verdict::{Doubt, Verdict},
    };

    fn judged(verdict: Verdict) -> ClusterReport {
        report(Finding::Judged(verdict, Box::new(assessment(5, 3))))
    }

    const TROUBLE: Option<&str> = Some("ScalingForbidden");

    fn doubtful() -> ClusterReport {
        judged(Verdict::Undetermined(Doubt::NoWrites))
    }

    fn unread() -> ClusterReport {
        report(Finding::Unread {
            reason: "Timeout",
            message: String::new(),
        })
    }

    fn protected(report: ClusterReport) -> ClusterReport {
        ClusterReport {
            protection: Protection::Active,
            ..report
        }
    }

    fn let_go(report: ClusterReport) -> ClusterReport {
        ClusterReport {
            let_go: Some(skipped("Hibernated").finding),
            ..report
        }
    }

    fn troubled(report: ClusterReport) -> ClusterReport {
        ClusterReport {
            problems: vec![problem(
                "kcm",
                "ScalingForbidden",
                "kcm: patch is forbidden",
            )],
            ..report
        }
    }

    #[rstest]
    #[case::pending(report(Finding::Pending), Standing::Pending, None)]
    #[case::healthy(judged(Verdict::Healthy), Standing::Judged, None)]
    #[case::outage(judged(Verdict::Outage), Standing::Judged, None)]
    #[case::doubtful(doubtful(), Standing::Doubtful, None)]
    #[case::unread(unread(), Standing::Doubtful, None)]
    #[case::skipped(skipped("Hibernated"), Standing::Skipped, None)]
    #[case::skipped_and_protected(protected(skipped("Hibernated")), Standing::Skipped, None)]
    #[case::skipped_and_troubled(
        troubled(protected(skipped("Hibernated"))),
        Standing::Skipped,
        TROUBLE
    )]
    #[case::let_go(let_go(judged(Verdict::Healthy)), Standing::Judged, None)]
    #[case::let_go_and_troubled(troubled(let_go(doubtful())), Standing::Doubtful, TROUBLE)]
    #[case::unreadable(skipped("Unreadable"), Standing::Doubtful, None)]
    #[case::unreadable_and_protected(protected(skipped("Unreadable")), Standing::Doubtful, None)]
    #[case::unreadable_and_troubled(troubled(skipped("Unreadable")), Standing::Doubtful, TROUBLE)]
    #[case::troubled(troubled(judged(Verdict::Healthy)), Standing::Judged, TROUBLE)]
    #[case::troubled_and_doubtful(troubled(doubtful()), Standing::Doubtful, TROUBLE)]
    fn what_a_finding_amounts_to(
        #[case] report: ClusterReport,
        #[case] standing: Standing,
        #[case] trouble: Option<&str>,
    ) {
        let seen = said_of(&report);
        let seen = Summary::of(&seen.status);
        assert_eq!((seen.standing, seen.trouble), (standing, trouble));
        assert_eq!(
            seen.probed,
            !matches!(report.finding, Finding::Skipped { .. })
        );
        assert_eq!(seen.protected, report.protection != Protection::None);
        assert!(!seen.overdue);
    }

    /// What holds a cluster back, or keeps it from being judged, is no trouble with a dependent.
    #[rstest]
    fn trouble_is_about_dependents_alone(
        #[values(
            None,
            Some(HeldBack::By("why")),
            Some(HeldBack::Unconfirmed("why")),
            Some(HeldBack::Paced),
            closed("why")
        )]
        held_back: Option<HeldBack>,
        #[values(
            Protection::None,
            Protection::ScalingDown,
            Protection::Active,
            Protection::Restoring
        )]
        protection: Protection,
    ) {
        for found in [
            report(Finding::Pending),
            judged(Verdict::Healthy),
            judged(Verdict::Outage),
            doubtful(),
            unread(),
            skipped("Hibernated"),
            skipped("Unreadable"),
            let_go(doubtful()),
        ] {
            let report = ClusterReport {
                held_back: held_back.clone(),
                protection,
                overdue: true,
                ..found
            };
            let seen = said_of(&report);
            assert_eq!(Summary::of(&seen.status).trouble, None, "{report:?}");
            let seen = said_of(&troubled(report));
            assert_eq!(Summary::of(&seen.status).trouble, TROUBLE);
        }
    }

    #[test]
    fn what_lasts_or_is_owed() {
        let overdue = said_of(&ClusterReport {
            overdue: true,
            ..protected(judged(Verdict::Outage))
        });
        assert!(Summary::of(&overdue.status).overdue);
        let owed = said_of(&ClusterReport {
            dependents: vec![owed("kcm")],
            ..judged(Verdict::Healthy)
        });
        assert!(Summary::of(&owed.status).protected);
    }

    #[test]
    fn a_record_without_a_status_is_pending() {
        let status = ClusterHealthStatus::default();
        let summary = Summary::of(&status);
        assert_eq!(summary.standing, Standing::Pending);
        assert!(!summary.protected);
    }
}
