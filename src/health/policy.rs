//! From a [`PolicyReport`] and the reports of its clusters to the status of a ProbePolicy.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::jiff::Timestamp;

use super::{
    cluster::{judged, reason},
    conditions::{self, CONFLICTED, DEGRADED, PROTECTING, READY, RECONCILING, STALLED, Wanted},
    report::{ClusterReport, Finding, PolicyReport},
};
use crate::api::{ClusterCounts, MAX_PROTECTED_NAMES, ProbePolicyStatus, Protection};

/// How many clusters a message names.
const EXAMPLES: usize = 3;

/// The clusters of one policy, counted.
#[derive(Default)]
struct Tally<'a> {
    counts: ClusterCounts,
    protected: Vec<&'a str>,
    /// Probed, but not judged at present.
    doubtful: Vec<(&'a str, &'static str)>,
    /// Dependents that could not be scaled.
    troubled: Vec<(&'a str, &'static str)>,
    pending: i32,
}

/// The status that the reports ask for, given the one before.
pub fn status(
    policy: &PolicyReport,
    clusters: &BTreeMap<Arc<str>, ClusterReport>,
    before: &ProbePolicyStatus,
    now: Timestamp,
) -> ProbePolicyStatus {
    let tally = tally(policy, clusters);
    let wanted = wanted(policy, &tally);
    let protected = tally.protected.iter().take(MAX_PROTECTED_NAMES);
    ProbePolicyStatus {
        observed_generation: Some(policy.generation),
        clusters: tally.counts,
        protected_clusters: protected.map(|name| (*name).to_owned()).collect(),
        conditions: conditions::conditions(
            wanted,
            &before.conditions,
            Some(policy.generation),
            now,
        ),
    }
}

/// Whether the second status says something that the first did not.
pub fn differs(before: &ProbePolicyStatus, after: &ProbePolicyStatus) -> bool {
    before.observed_generation != after.observed_generation
        || before.clusters != after.clusters
        || before.protected_clusters != after.protected_clusters
        || !conditions::same(&before.conditions, &after.conditions)
}

fn tally<'a>(policy: &'a PolicyReport, clusters: &BTreeMap<Arc<str>, ClusterReport>) -> Tally<'a> {
    let mut tally = Tally::default();
    for name in &policy.selected {
        tally.counts.selected += 1;
        let Some(report) = clusters.get(name) else {
            tally.pending += 1;
            continue;
        };
        if report.protection != Protection::None {
            tally.counts.protected += 1;
            tally.protected.push(name);
        }
        if let Some(problem) = report.problems.first() {
            tally.troubled.push((name, problem.reason));
        }
        match &report.finding {
            Finding::Skipped { .. } => tally.counts.skipped += 1,
            Finding::Pending => {
                tally.counts.probing += 1;
                tally.pending += 1;
            }
            finding => {
                tally.counts.probing += 1;
                if !judged(finding) {
                    tally.counts.undetermined += 1;
                    tally.doubtful.push((name, reason(finding)));
                }
            }
        }
    }
    tally
}

fn wanted(policy: &PolicyReport, tally: &Tally<'_>) -> Vec<Wanted> {
    let ClusterCounts {
        selected,
        probing,
        protected,
        undetermined,
        ..
    } = tally.counts;
    let mut wanted = Vec::with_capacity(5);
    if !policy.problems.is_empty() {
        let problems = policy.problems.join("; ");
        wanted.push(Wanted::new(READY, false, "Invalid", &*problems));
        wanted.push(Wanted::new(STALLED, true, "Invalid", problems));
    } else if probing > 0 && undetermined == probing {
        let message = format!(
            "none of {probing} clusters can be judged: {}",
            examples(&tally.doubtful)
        );
        wanted.push(Wanted::new(READY, false, "NothingJudged", message));
    } else if tally.pending > 0 {
        let message = format!(
            "{} of {selected} clusters have not been judged yet",
            tally.pending
        );
        wanted.push(Wanted::new(READY, false, "Reconciling", &*message));
        wanted.push(Wanted::new(RECONCILING, true, "FirstProbes", message));
    } else {
        let message = match selected {
            0 => "the policy selects no cluster".to_owned(),
            _ => format!(
                "{} of {probing} probed clusters are judged",
                probing - undetermined
            ),
        };
        wanted.push(Wanted::new(READY, true, "Probing", message));
    }
    wanted.push(if protected > 0 {
        let message = format!(
            "{protected} clusters are protected: {}",
            names(&tally.protected)
        );
        Wanted::new(PROTECTING, true, "Outage", message)
    } else {
        Wanted::new(PROTECTING, false, "NoOutage", "")
    });
    wanted.push(match (undetermined, tally.troubled.len()) {
        (0, 0) => Wanted::new(DEGRADED, false, "AsExpected", ""),
        (0, troubled) => {
            let message = format!(
                "dependents of {troubled} clusters could not be scaled: {}",
                examples(&tally.troubled)
            );
            Wanted::new(DEGRADED, true, "ScalingTrouble", message)
        }
        (doubtful, _) => {
            let message = format!(
                "{doubtful} of {probing} clusters cannot be judged: {}",
                examples(&tally.doubtful)
            );
            Wanted::new(DEGRADED, true, "Undetermined", message)
        }
    });
    wanted.push(conflicted(policy));
    wanted
}

fn conflicted(policy: &PolicyReport) -> Wanted {
    let lost: usize = policy.lost.values().map(Vec::len).sum();
    if lost == 0 {
        return Wanted::new(CONFLICTED, false, "NoConflict", "");
    }
    let winners: Vec<String> = policy
        .lost
        .iter()
        .take(EXAMPLES)
        .map(|(winner, clusters)| format!("{winner} ({} clusters)", clusters.len()))
        .collect();
    let message = format!(
        "{lost} clusters that this policy selects are probed by policies that come before it, by \
         priority, age or name: {}; narrow clusterSelector or change priority",
        winners.join(", ")
    );
    Wanted::new(CONFLICTED, true, "Outranked", message)
}

fn examples(clusters: &[(&str, &str)]) -> String {
    let named: Vec<String> = clusters
        .iter()
        .take(EXAMPLES)
        .map(|(name, why)| format!("{name} ({why})"))
        .collect();
    and_more(named.join(", "), clusters.len())
}

fn names(clusters: &[&str]) -> String {
    let named: Vec<&str> = clusters.iter().take(EXAMPLES).copied().collect();
    and_more(named.join(", "), clusters.len())
}

fn and_more(named: String, all: usize) -> String {
    match all.saturating_sub(EXAMPLES) {
        0 => named,
        more => format!("{named} and {more} more; kubectl get clusterhealths shows all"),
    }
}

#[cfg(test)]
mod tests;
