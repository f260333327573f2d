//! What a policy needs to know of a cluster: by its report, or, before its loop has reported in
//! this run, by what an earlier run has left in its ClusterHealth. So a restart changes nothing in
//! what is said of a policy until there is something to say.

use super::{
    ClusterReport,
    finding::{Finding, HeldBack, WIDESPREAD, is_meant, judged, reason},
    status::PROTECTED_UNPROBED,
};
use crate::{
    api::{ClusterHealthStatus, Protection},
    health::conditions::{DEGRADED, PROTECTED_TOO_LONG, PROTECTING, READY},
};

/// One cluster, in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary<'a> {
    /// The responsible policy.
    pub policy: Option<&'a str>,
    /// Whether its dependents are scaled down.
    pub protection: Protection,
    /// Whether it is protected, or a dependent is still owed its replicas.
    pub protected: bool,
    /// Whether each dependent has been looked at in this run.
    pub looked_at: bool,
    /// Whether it has been protected for too long.
    pub overdue: bool,
    /// Whether a Trigger fails that is not acted on, since it fails in many clusters.
    pub held: bool,
    /// The finding in one word.
    pub reason: &'a str,
    /// What the finding amounts to.
    pub standing: Standing,
    /// Whether it is probed, so that it can be seen to fall silent.
    pub probed: bool,
    /// Why a dependent is not where it should be, in one word.
    pub trouble: Option<&'a str>,
}

/// What a finding amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
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
    /// By what its loop reports.
    pub fn of(report: &'a ClusterReport) -> Self {
        let owed = report.dependents.iter().any(|dependent| dependent.owed);
        Self {
            policy: report.policy.as_deref(),
            protection: report.protection,
            protected: report.protection != Protection::None || owed,
            looked_at: report.looked_at,
            overdue: report.overdue,
            held: report.held_back.as_ref().map(HeldBack::reason) == Some(WIDESPREAD),
            reason: reason(&report.finding),
            probed: !matches!(report.finding, Finding::Skipped { .. }),
            standing: match &report.finding {
                Finding::Pending => Standing::Pending,
                Finding::Skipped { reason, .. } if is_meant(reason) => Standing::Skipped,
                finding if judged(finding) => Standing::Judged,
                Finding::Judged(..)
                | Finding::Triggered { .. }
                | Finding::Unread { .. }
                | Finding::Skipped { .. } => Standing::Doubtful,
            },
            trouble: report.problems.first().map(|problem| problem.reason),
        }
    }

    /// By what was last written of it. Nothing has been looked at yet.
    pub fn recorded(status: &'a ClusterHealthStatus) -> Self {
        let condition = |kind: &str| status.conditions.iter().find(|known| known.type_ == kind);
        let holds = |kind: &str| condition(kind).filter(|known| known.status == "True");
        let owed = status.dependents.iter().any(|dependent| dependent.owed);
        let reason = status.reason.as_deref().unwrap_or("Pending");
        let standing = match reason {
            _ if let Some(skipped) = status.skipped.as_deref() => match is_meant(skipped) {
                true => Standing::Skipped,
                false => Standing::Doubtful,
            },
            "Pending" => Standing::Pending,
            _ if holds(READY).is_some() => Standing::Judged,
            _ => Standing::Doubtful,
        };
        // Degraded also tells why a cluster cannot be judged, and that one is not probed.
        let trouble = holds(DEGRADED).filter(|known| {
            let expected = [reason, PROTECTED_UNPROBED].contains(&&*known.reason);
            standing == Standing::Judged || standing == Standing::Doubtful && !expected
        });
        Self {
            policy: status.policy.as_deref(),
            protection: status.protection,
            protected: status.protection != Protection::None || owed,
            looked_at: false,
            overdue: holds(PROTECTED_TOO_LONG).is_some(),
            held: condition(PROTECTING).is_some_and(|known| known.reason == WIDESPREAD),
            reason,
            probed: status.skipped.is_none(),
            standing,
            trouble: trouble.map(|known| &*known.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::prober::{
        report::{
            fixtures::{assessment, held, owed, problem, report, triggered},
            status,
        },
        verdict::{Doubt, Verdict},
    };

    fn judged(verdict: Verdict) -> ClusterReport {
        report(Finding::Judged(verdict, Box::new(assessment(5, 3))))
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

    fn skipped() -> ClusterReport {
        report(Finding::Skipped {
            reason: "Hibernated",
            message: String::new(),
        })
    }

    fn unreadable() -> ClusterReport {
        report(Finding::Skipped {
            reason: "Unreadable",
            message: String::new(),
        })
    }

    /// A status tells a successor as much as the report told.
    #[rstest]
    #[case::pending(report(Finding::Pending))]
    #[case::healthy(judged(Verdict::Healthy))]
    #[case::outage(judged(Verdict::Outage))]
    #[case::triggered(report(triggered("", Finding::Pending)))]
    #[case::held(ClusterReport {
        held_back: held(true),
        ..report(triggered("", Finding::Pending))
    })]
    #[case::doubtful(judged(Verdict::Undetermined(Doubt::NoWrites)))]
    #[case::unread(report(Finding::Unread { reason: "Timeout", message: String::new() }))]
    #[case::skipped(skipped())]
    #[case::skipped_and_protected(ClusterReport { protection: Protection::Active, ..skipped() })]
    #[case::unreadable(unreadable())]
    #[case::unreadable_and_protected(ClusterReport { protection: Protection::Active, ..unreadable() })]
    #[case::unreadable_and_troubled(troubled(unreadable()))]
    #[case::troubled(troubled(judged(Verdict::Healthy)))]
    #[case::troubled_and_doubtful(troubled(judged(Verdict::Undetermined(Doubt::NoWrites))))]
    #[case::overdue(ClusterReport {
        protection: Protection::Active,
        overdue: true,
        dependents: vec![owed("kcm")],
        ..judged(Verdict::Outage)
    })]
    #[case::owed(ClusterReport { dependents: vec![owed("kcm")], ..judged(Verdict::Healthy) })]
    fn a_status_says_what_its_report_said(#[case] report: ClusterReport) {
        let before = ClusterHealthStatus::default();
        let status = status::status(&report, &before, Timestamp::UNIX_EPOCH);
        let expected = Summary {
            looked_at: false,
            ..Summary::of(&report)
        };
        assert_eq!(Summary::recorded(&status), expected);
    }

    #[test]
    fn a_record_without_a_status_is_pending() {
        let status = ClusterHealthStatus::default();
        let summary = Summary::recorded(&status);
        assert_eq!(summary.standing, Standing::Pending);
        assert!(!summary.protected);
    }
}
