//! What a ClusterHealth says for people: what was seen, what was done, and what comes next.

use super::{
    ClusterReport,
    finding::{Finding, reason},
};
use crate::{
    api::{Mode, OUTAGE, Protection},
    prober::verdict::{Assessment, Doubt, Returning, Verdict, ZoneCount},
    report::conditions::listed,
};

/// How many zones a message tells.
const ZONES: usize = 12;

/// What was seen.
pub fn evidence(finding: &Finding) -> String {
    match finding {
        Finding::Pending => "not probed yet".to_owned(),
        Finding::Unread { message, .. } | Finding::Skipped { message, .. } => message.clone(),
        Finding::Judged(verdict, seen) => {
            let excluded = seen.excluded.iter();
            let excluded = excluded.map(|(why, count)| format!("{count} {}", why.describe()));
            let excluded = excluded.collect::<Vec<_>>().join(", ");
            let fresh = seen.counter_evidence;
            let lacks = "the seed does not serve Machines, so their phases are not considered";
            parts([
                Some(judged_evidence(*verdict, seen)),
                (!seen.zones.is_empty()).then(|| format!("zones: {}", zones(&seen.zones))),
                (!excluded.is_empty()).then(|| format!("leases that do not count: {excluded}")),
                (fresh > 0 && seen.expired > 0).then(|| {
                    format!("{fresh} of these are fresh, which is evidence against an outage")
                }),
                seen.lacks_machines.then(|| lacks.to_owned()),
            ])
        }
    }
}

/// The parts of a message that there are, joined.
fn parts<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

fn judged_evidence(verdict: Verdict, seen: &Assessment) -> String {
    let (all, expired, needed) = (seen.candidates, seen.expired, seen.needed);
    let of_all = format!("{expired} of {all} node leases that count are expired");
    match verdict {
        Verdict::Healthy if all == 0 => {
            "no node lease counts: there is nothing to protect".to_owned()
        }
        Verdict::Healthy => {
            let text = match expired {
                0 => format!("none of {all} node leases is expired"),
                _ => format!("{of_all}; {needed} would be an outage"),
            };
            match seen.unknown {
                0 => text,
                unknown => format!("{text}; of {unknown} it cannot be said"),
            }
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
        Verdict::Undetermined(Doubt::Recovering) if !seen.protected => {
            format!(
                "{of_all}; but the leases were read before it was protected, and are read again"
            )
        }
        Verdict::Undetermined(Doubt::Recovering) => {
            let few = match seen.unrecovered {
                1 => "none is, or may be".to_owned(),
                share => format!("fewer than {share} are, or may be"),
            };
            format!(
                "{of_all}, which is no outage any more; it is restored once {few} (the policy's \
                 nodeLeaseRecoveryFraction)"
            )
        }
        Verdict::Undetermined(Doubt::TooFewSilent) if all == 0 => {
            "all nodes fell silent, one by one, which is no evidence of a network".to_owned()
        }
        Verdict::Undetermined(Doubt::TooFewSilent) => format!(
            "{of_all}, but fewer than {needed} silent nodes are no evidence of a network (the policy's \
             minimumSilentNodes)"
        ),
        Verdict::Undetermined(Doubt::UnknownLeases) => format!(
            "{of_all}, and of {} it cannot be said: they lack a renewTime, when it was written is not known yet, \
             or they are renewed too slowly for the grace, into which three renewals must fit \
             (kcmNodeMonitorGraceDuration, the kubelets' nodeLeaseDurationSeconds)",
            seen.unknown
        ),
        Verdict::Undetermined(Doubt::NoCandidates) if seen.protected => format!(
            "no node lease counts, which does not show that the outage is over: {} nodes are meant to be \
             alive, and once there is none it is over",
            seen.alive
        ),
        Verdict::Undetermined(Doubt::NoCandidates) if seen.missing > 0 => format!(
            "no node lease counts, and {} nodes have none, so an outage could not be seen: see whether the \
             namespace kube-node-lease is there, and kubelets may write to it",
            seen.missing
        ),
        Verdict::Undetermined(Doubt::NoCandidates) => "no node lease counts although there are \
             nodes, so an outage could not be seen: see whether their Machines carry the label \
             node, and which conditions the nodes have; Nodes and Machines are read again"
            .to_owned(),
    }
}

/// `a 3 of 3, b 0 of 2`: the expired leases of those that count.
fn zones(zones: &[ZoneCount]) -> String {
    let told = zones.iter().map(|zone| {
        let name = zone.name.as_deref().unwrap_or("without a zone");
        format!("{name} {} of {}", zone.expired, zone.candidates)
    });
    listed(&told.collect::<Vec<_>>(), ZONES)
}

/// What was seen, what was done, and what comes next.
pub(super) fn message(report: &ClusterReport, evidence: &str) -> String {
    let next = match &report.held_back {
        Some(why) => Some(format!("for now nothing is done: {}", why.message)),
        None => dry_run(report),
    };
    let let_go = report.let_go.as_ref().map(self::evidence);
    parts([
        Some(evidence.to_owned()),
        dependents(report),
        next,
        let_go.map(|why| format!("it is let go once it is healthy: {why}")),
        (!report.problems.is_empty()).then(|| problems(report)),
    ])
}

/// The state of the dependents, unless they are as they were before the outage.
fn dependents(report: &ClusterReport) -> Option<String> {
    let owed = names(report, true);
    let until = match (report.protection, &report.finding) {
        (Protection::None, _) => return None,
        _ if report.held_back.is_some() => "",
        (Protection::ScalingDown, _) if owed.is_empty() => {
            return Some("its dependents are not scaled down yet".to_owned());
        }
        (Protection::ScalingDown, _) => {
            return Some(format!(
                "its dependents are not all scaled down yet, only {owed}"
            ));
        }
        (Protection::Restoring, _) => {
            let awaits = report.awaits.map(awaits).unwrap_or_default();
            let cut = match report.is_cut() {
                true => {
                    "; it was protected for as long as the policy's maxProtection allows, and nodes that are \
                     silent since before count neither way until they renew"
                }
                false => "",
            };
            return Some(format!("not all restored yet: {owed}{awaits}{cut}"));
        }
        (Protection::Active, Finding::Skipped { .. }) => {
            ", and nothing restores them while the cluster is not probed"
        }
        (Protection::Active, _) if report.mode == Mode::DryRun => "",
        (Protection::Active, _) => " until the leases are fresh again",
    };
    Some(format!("scaled to zero{until}: {owed}"))
}

/// What a restore waits for.
fn awaits(returning: Returning) -> String {
    let Returning { back, all } = returning;
    format!(
        "; {back} of the {all} nodes that count are ready, and what has awaitNodes waits for them"
    )
}

fn dry_run(report: &ClusterReport) -> Option<String> {
    if report.mode != Mode::DryRun {
        return None;
    }
    let what = match report.protection {
        Protection::None if reason(&report.finding) == OUTAGE => format!(
            "nothing is scaled; in Enforce, these would be scaled to zero: {}",
            names(report, false)
        ),
        Protection::None if report.dependents.iter().any(|it| it.keeps_mark) => {
            "nothing is scaled; what was restored keeps its marks until the dry run ends".to_owned()
        }
        Protection::None => "nothing is scaled".to_owned(),
        _ => "they stay as they are, marked, until the dry run ends".to_owned(),
    };
    Some(format!("the mode is DryRun, so {what}"))
}

/// The beginning of an overdue protection, and the silent nodes.
pub(super) fn too_long(report: &ClusterReport, evidence: &str) -> String {
    let since = report.protected_since;
    let since = since.map_or_else(String::new, |since| format!(" since {since:.0}"));
    let why = match (&report.held_back, &report.finding) {
        (Some(why), _) => format!("{}; {evidence}", why.message),
        (_, Finding::Judged(_, seen)) if !seen.zones.is_empty() => {
            format!("{} silent", zones(&seen.zones))
        }
        _ => evidence.to_owned(),
    };
    format!(
        "its dependents are scaled down{since}, so no silent node is replaced; somebody must look: {why}"
    )
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
