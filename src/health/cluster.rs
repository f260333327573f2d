//! From a [`ClusterReport`] to the status of a ClusterHealth.

use std::fmt::Write;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    conditions::{self, DEGRADED, PROTECTING, READY, Wanted},
    report::{ClusterReport, Finding},
};
use crate::{
    api::{ClusterHealthStatus, LeaseCounts, Mode, Protection},
    prober::verdict::{Assessment, Doubt, Verdict},
};

/// The status that the report asks for, given the one before.
pub fn status(
    report: &ClusterReport,
    before: &ClusterHealthStatus,
    now: Timestamp,
) -> ClusterHealthStatus {
    let reason = reason(&report.finding);
    let evidence = evidence(&report.finding);
    let message = message(report, &evidence);
    let last_transition_time = if before.protection == report.protection {
        before.last_transition_time.clone()
    } else {
        Some(Time(now))
    };
    ClusterHealthStatus {
        protection: report.protection,
        policy: report.policy.as_deref().map(str::to_owned),
        skipped: match &report.finding {
            Finding::Skipped { reason, .. } => Some((*reason).to_owned()),
            _ => None,
        },
        leases: match &report.finding {
            Finding::Judged(_, seen) => Some(counts(seen)),
            _ => None,
        },
        dependents: report.dependents.clone(),
        reason: Some(reason.to_owned()),
        conditions: conditions::conditions(
            wanted(report, reason, &evidence, &message),
            &before.conditions,
            None,
            now,
        ),
        message: Some(conditions::bounded(&message)),
        protected_since: report.protected_since.map(Time),
        last_action: report.last_action.clone(),
        last_transition_time,
        last_probe_time: report.probed.map(Time),
    }
}

/// Whether the second status says something that the first did not: ages, counts and the time of
/// the last probe alone are not worth a write, except that an outage that is over is not to leave
/// expired leases behind.
pub fn differs(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> bool {
    before.protection != after.protection
        || before.policy != after.policy
        || before.skipped != after.skipped
        || before.reason != after.reason
        || before.dependents != after.dependents
        || before.leases.is_some() != after.leases.is_some()
        || (expired(before) > 0 && expired(after) == 0)
        || !conditions::same(&before.conditions, &after.conditions)
}

fn expired(status: &ClusterHealthStatus) -> i32 {
    status.leases.as_ref().map_or(0, |leases| leases.expired)
}

/// Whether a cluster that is probed could be judged. One that is suspect is about to be.
pub fn judged(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Judged(
            Verdict::Healthy | Verdict::Outage | Verdict::Undetermined(Doubt::Unproven(_)),
            _
        )
    )
}

/// The finding in one word.
pub fn reason(finding: &Finding) -> &'static str {
    match finding {
        Finding::Pending => "Pending",
        Finding::Unread { reason, .. } | Finding::Skipped { reason, .. } => reason,
        Finding::Judged(Verdict::Outage, _) => "Outage",
        Finding::Judged(Verdict::Healthy, _) => "Healthy",
        Finding::Judged(Verdict::Undetermined(doubt), _) => match doubt {
            Doubt::Unproven(_) => "Suspect",
            Doubt::NoWrites => "NoWrites",
            Doubt::SingleNode => "SingleNode",
            Doubt::UnknownLeases => "LeasesUnknown",
            Doubt::LeaseTooSlow => "LeaseTooSlow",
            Doubt::NoCandidates => "NoCandidates",
        },
    }
}

fn wanted(
    report: &ClusterReport,
    reason: &'static str,
    evidence: &str,
    message: &str,
) -> Vec<Wanted> {
    let ready = match &report.finding {
        Finding::Skipped { .. } => Wanted::new(READY, true, reason, evidence),
        finding => Wanted::new(READY, judged(finding), reason, evidence),
    };
    let protecting = match report.protection {
        held_back if report.held_back.is_some() => Wanted::new(
            PROTECTING,
            held_back != Protection::None,
            "HeldBack",
            message,
        ),
        Protection::None => Wanted::new(PROTECTING, false, "NotProtected", ""),
        Protection::ScalingDown => Wanted::new(PROTECTING, true, "ScalingDown", message),
        Protection::Active => Wanted::new(PROTECTING, true, "Protected", message),
        Protection::Restoring => Wanted::new(PROTECTING, true, "Restoring", message),
    };
    let degraded = match (report.problems.first(), &report.finding) {
        (Some(problem), _) => Wanted::new(DEGRADED, true, problem.reason, joined(report)),
        (None, Finding::Skipped { .. }) if report.protection != Protection::None => {
            Wanted::new(DEGRADED, true, "ProtectedUnprobed", message)
        }
        (None, finding @ (Finding::Unread { .. } | Finding::Judged(..))) if !judged(finding) => {
            Wanted::new(DEGRADED, true, reason, evidence)
        }
        (None, _) => Wanted::new(DEGRADED, false, "AsExpected", ""),
    };
    vec![ready, protecting, degraded]
}

fn joined(report: &ClusterReport) -> String {
    let problems: Vec<&str> = report.problems.iter().map(|p| &*p.message).collect();
    problems.join("; ")
}

fn counts(seen: &Assessment) -> LeaseCounts {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    LeaseCounts {
        candidates: count(seen.candidates),
        expired: count(seen.expired),
        unknown: count(seen.unknown),
    }
}

/// What was seen, for people.
pub fn evidence(finding: &Finding) -> String {
    match finding {
        Finding::Pending => "not probed yet".to_owned(),
        Finding::Unread { message, .. } | Finding::Skipped { message, .. } => message.clone(),
        Finding::Judged(verdict, seen) => {
            let mut text = judged_evidence(*verdict, seen);
            if !seen.excluded.is_empty() {
                let excluded: Vec<String> = seen
                    .excluded
                    .iter()
                    .map(|(why, count)| format!("{count} {}", why.describe()))
                    .collect();
                let _ = write!(text, "; leases that do not count: {}", excluded.join(", "));
            }
            if seen.machines.is_none() {
                text.push_str(
                    "; the seed does not serve Machines, so their phases are not considered",
                );
            }
            text
        }
    }
}

fn judged_evidence(verdict: Verdict, seen: &Assessment) -> String {
    let (all, expired, needed) = (seen.candidates, seen.expired, seen.needed);
    let of_all = format!("{expired} of {all} node leases that count are expired");
    match verdict {
        Verdict::Healthy if all == 0 => {
            "no node lease counts: there is nothing to protect".to_owned()
        }
        Verdict::Healthy if expired == 0 => format!("none of {all} node leases is expired"),
        Verdict::Healthy => format!("{of_all}; {needed} would be an outage"),
        Verdict::Outage => format!(
            "{of_all}, and {needed} are an outage; the API server answers and accepts writes"
        ),
        Verdict::Undetermined(Doubt::Unproven(_)) => format!(
            "{of_all}, {} more may be, and {needed} are an outage; but the silence has not been \
             watched for long enough yet: it must last for 1.5 renewal periods in which reads and \
             writes succeed",
            seen.expiring
        ),
        Verdict::Undetermined(Doubt::NoWrites) => format!(
            "{of_all}, but nobody has written to the API server for a while, so that the silence \
             of nodes says nothing: see whether its etcd accepts writes"
        ),
        Verdict::Undetermined(Doubt::SingleNode) => {
            "the only node is silent, which is no evidence of a network".to_owned()
        }
        Verdict::Undetermined(Doubt::UnknownLeases) => format!(
            "{of_all}, and of {} it cannot be said: they lack a renewTime, or when it was written \
             is not known yet",
            seen.unknown
        ),
        Verdict::Undetermined(Doubt::LeaseTooSlow) => format!(
            "{} of {all} node leases are renewed too slowly for the grace: three renewals must fit \
             into it, so lengthen kcmNodeMonitorGraceDuration or shorten the kubelets' \
             nodeLeaseDurationSeconds",
            seen.too_slow
        ),
        Verdict::Undetermined(Doubt::NoCandidates) => {
            "no node lease counts, which does not show that the outage is over".to_owned()
        }
    }
}

/// What was seen, what was done, and what comes next.
fn message(report: &ClusterReport, evidence: &str) -> String {
    let mut text = evidence.to_owned();
    let owed: Vec<&str> = report
        .dependents
        .iter()
        .filter(|dependent| dependent.owed)
        .map(|dependent| &*dependent.r#ref.name)
        .collect();
    let owed = owed.join(", ");
    let _ = match report.protection {
        Protection::None => Ok(()),
        Protection::ScalingDown => write!(text, "; its dependents are being scaled down"),
        Protection::Active if matches!(report.finding, Finding::Skipped { .. }) => write!(
            text,
            "; scaled to zero, and nothing restores them while the cluster is not probed: {owed}"
        ),
        Protection::Active => write!(
            text,
            "; scaled to zero until the leases are fresh again: {owed}"
        ),
        Protection::Restoring => write!(text, "; being restored: {owed}"),
    };
    if let Some(why) = report.held_back {
        let _ = write!(text, "; nothing is scaled: {why}");
    } else if report.mode == Mode::DryRun {
        text.push_str("; the policy's mode is DryRun, so nothing is scaled");
    }
    if !report.problems.is_empty() {
        let _ = write!(text, "; {}", joined(report));
    }
    text
}

#[cfg(test)]
mod tests;
