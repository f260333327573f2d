//! What a ClusterHealth says for people: what was seen, what was done, and what comes next.

use std::fmt::Write;

use super::{
    ClusterReport,
    finding::{Finding, HeldBack, reason},
};
use crate::{
    api::{Mode, Protection, is_outage},
    prober::verdict::{Assessment, Doubt, Verdict, ZoneCount},
};

/// How many zones a message tells.
const ZONES: usize = 12;

/// What was seen.
pub fn evidence(finding: &Finding) -> String {
    match finding {
        Finding::Pending => "not probed yet".to_owned(),
        Finding::Unread { message, .. } | Finding::Skipped { message, .. } => message.clone(),
        Finding::Triggered { why, leases } => {
            let leases = self::evidence(leases);
            format!("{why}; of the leases: {leases}")
        }
        Finding::Judged(verdict, seen) => {
            let mut text = judged_evidence(*verdict, seen);
            if !seen.zones.is_empty() {
                let _ = write!(text, "; zones: {}", zones(&seen.zones));
            }
            if !seen.excluded.is_empty() {
                let excluded: Vec<String> = seen
                    .excluded
                    .iter()
                    .map(|(why, count)| format!("{count} {}", why.describe()))
                    .collect();
                let _ = write!(text, "; leases that do not count: {}", excluded.join(", "));
            }
            if seen.counter_evidence > 0 && seen.expired > 0 {
                let _ = write!(
                    text,
                    "; {} of these are fresh, which is evidence against an outage",
                    seen.counter_evidence
                );
            }
            if seen.lacks_machines() {
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
        Verdict::Healthy => {
            let mut text = match expired {
                0 => format!("none of {all} node leases is expired"),
                _ => format!("{of_all}; {needed} would be an outage"),
            };
            if seen.unknown > 0 {
                let _ = write!(text, "; of {} it cannot be said", seen.unknown);
            }
            text
        }
        Verdict::Outage => format!(
            "{of_all}, and {needed} are an outage; the API server answers and accepts writes"
        ),
        Verdict::Undetermined(Doubt::Unproven(_)) => format!(
            "{of_all}, {} more may be, and {needed} are an outage; but the silence has not been \
             watched for long enough yet: it must last for 1.5 renewal periods in which reads and \
             writes succeed",
            seen.expiring
        ),
        Verdict::Undetermined(Doubt::FactsOutdated) => format!(
            "{of_all}, and {needed} are an outage; but Nodes and Machines, which tell which of them \
             count, were read too long before: they are read again"
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
        Verdict::Undetermined(Doubt::NoCandidates) if seen.protected => {
            "no node lease counts, which does not show that the outage is over".to_owned()
        }
        Verdict::Undetermined(Doubt::NoCandidates) => "no node lease counts although there are \
             nodes, so an outage could not be seen: see whether their Machines carry the label \
             node, and which conditions the nodes have; Nodes and Machines are read again"
            .to_owned(),
    }
}

/// `a 3 of 3, b 0 of 2`: the expired leases of those that count.
fn zones(zones: &[ZoneCount]) -> String {
    let told = zones.iter().take(ZONES).map(|zone| {
        let name = zone.name.as_deref().unwrap_or("without a zone");
        format!("{name} {} of {}", zone.expired, zone.candidates)
    });
    let mut text = told.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = zones.len().checked_sub(ZONES) {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// What was seen, what was done, and what comes next.
pub(super) fn message(report: &ClusterReport, evidence: &str) -> String {
    let mut text = evidence.to_owned();
    let owed = names(report, true);
    let _ = match report.protection {
        Protection::None => Ok(()),
        _ if report.held_back.is_some() => write!(text, "; scaled to zero: {owed}"),
        Protection::ScalingDown if owed.is_empty() => {
            write!(text, "; its dependents are not scaled down yet")
        }
        Protection::ScalingDown => {
            write!(
                text,
                "; its dependents are not all scaled down yet, only {owed}"
            )
        }
        Protection::Active if matches!(report.finding, Finding::Skipped { .. }) => write!(
            text,
            "; scaled to zero, and nothing restores them while the cluster is not probed: {owed}"
        ),
        Protection::Active if report.mode == Mode::DryRun => {
            write!(text, "; scaled to zero: {owed}")
        }
        Protection::Active if matches!(report.finding, Finding::Triggered { .. }) => write!(
            text,
            "; scaled to zero until the Trigger passes and the leases are fresh: {owed}"
        ),
        Protection::Active => write!(
            text,
            "; scaled to zero until the leases are fresh again: {owed}"
        ),
        Protection::Restoring => write!(text, "; not all restored yet: {owed}"),
    };
    if let Some(why) = &report.held_back {
        let _ = write!(text, "; for now nothing is done: {why}");
    } else if report.mode == Mode::DryRun {
        let _ = dry_run(&mut text, report);
    }
    if let Some(why) = &report.let_go {
        let why = self::evidence(why);
        let _ = write!(text, "; it is let go once it is healthy: {why}");
    }
    if !report.problems.is_empty() {
        let _ = write!(text, "; {}", problems(report));
    }
    text
}

fn dry_run(text: &mut String, report: &ClusterReport) -> std::fmt::Result {
    text.push_str("; the mode is DryRun, so ");
    match (&report.finding, report.protection) {
        (finding, Protection::None) if is_outage(reason(finding)) => write!(
            text,
            "nothing is scaled; in Enforce, these would be scaled to zero: {}",
            names(report, false)
        ),
        (_, Protection::None) => write!(text, "nothing is scaled"),
        (_, _) => write!(
            text,
            "they stay as they are, marked, until it is Enforce again"
        ),
    }
}

/// Since when the dependents are down, and which nodes are silent: somebody must look.
pub(super) fn too_long(report: &ClusterReport, evidence: &str) -> String {
    let mut text = "its dependents are scaled down".to_owned();
    if let Some(since) = report.protected_since {
        let _ = write!(text, " since {since:.0}");
    }
    text.push_str(", so no silent node is replaced; somebody must look: ");
    let _ = match (&report.held_back, &report.finding) {
        (Some(why @ (HeldBack::Check { .. } | HeldBack::Trigger { .. })), _) => {
            write!(text, "{why}; {evidence}")
        }
        (_, Finding::Judged(_, seen)) if !seen.zones.is_empty() => {
            write!(text, "{} silent", zones(&seen.zones))
        }
        _ => write!(text, "{evidence}"),
    };
    text
}

/// Why dependents are not where they should be.
pub(super) fn problems(report: &ClusterReport) -> String {
    let problems: Vec<&str> = report.problems.iter().map(|p| &*p.message).collect();
    problems.join("; ")
}

/// The names of the dependents, or of those that are owed their replicas.
fn names(report: &ClusterReport, owed: bool) -> String {
    let dependents = report.dependents.iter();
    let named: Vec<&str> = dependents
        .filter(|dependent| dependent.owed || !owed)
        .map(|dependent| &*dependent.r#ref.name)
        .collect();
    named.join(", ")
}
