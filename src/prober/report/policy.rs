//! From a [`PolicyView`] and what is known of its clusters to the status of a ProbePolicy.

mod tally;

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use self::tally::{Tally, tally};
use super::brief::Brief;
use crate::{
    api::{MAX_PROTECTED_NAMES, ProbePolicyStatus},
    cluster::{Policy, PolicyHold, PolicyView},
    report::conditions::{
        self, CONFLICTED, DEGRADED, DELETING, PROTECTING, READY, RECONCILING, STALLED, condition,
    },
};

/// Most clusters that a message names.
const EXAMPLES: usize = 3;
/// Most rights that it names.
const RIGHTS: usize = 8;

/// Beginning of the message about missing rights.
const LACKING: &str = "the operator lacks rights";

/// Why one that is being deleted is still there: it waits for clusters that it protects.
const LETTING_GO: &str = "LettingGo";

/// A policy, with what is known of it in this run.
pub(super) struct Known {
    pub(super) view: PolicyView,
    /// The clusters for which it needs the finalizer: those that it protects, selected or not, and
    /// while it is being deleted also those that have not been looked at.
    pub(super) holding: BTreeSet<Arc<str>>,
    /// The message about missing rights. Until they could be asked for it is that of an earlier run.
    pub(super) lacking: Option<String>,
}

impl Known {
    pub(super) fn new(view: PolicyView) -> Self {
        Self {
            view,
            holding: BTreeSet::new(),
            lacking: None,
        }
    }
}

/// Returns what an earlier run has said of missing rights.
pub(super) fn recalled(left: &ProbePolicyStatus) -> Option<String> {
    let (_, amiss) = conditions::said(&left.conditions, DEGRADED)?;
    let lacking = amiss.split("; ").find(|it| it.starts_with(LACKING))?;
    Some(lacking.to_owned())
}

/// Returns what is to be said of the rights that an outage calls for and that are missing; `None` if none is.
pub(super) fn lacking(missing: &[String]) -> Option<String> {
    let named = conditions::listed(missing, RIGHTS);
    (!missing.is_empty()).then(|| {
        format!(
            "{LACKING} that the policy calls for, grant them to its ServiceAccount as manifests/prober/rbac.yaml, and in manifests/examples other-dependents and exec-checks, do: {named}"
        )
    })
}

/// The status of a policy, without times of transitions.
pub(super) fn status<'a>(
    known: &'a Known,
    cluster: impl Fn(&str) -> Option<&'a Brief>,
) -> ProbePolicyStatus {
    let policy = &known.view.policy;
    let tally = tally(known, cluster);
    let mut wanted = match policy.deleting {
        true => deleting(policy, &tally),
        false => ready(policy, &tally),
    };
    wanted.push(protecting(policy.hold, &tally));
    wanted.push(degraded(policy, &tally, known.lacking.as_deref()));
    wanted.push(conflicted(&known.view));
    let generation = Some(policy.generation);
    for condition in &mut wanted {
        condition.observed_generation = generation;
    }
    let protected = tally.protected.into_iter().take(MAX_PROTECTED_NAMES);
    ProbePolicyStatus {
        observed_generation: generation,
        clusters: tally.counts,
        protected_clusters: protected.collect(),
        conditions: wanted,
    }
}

/// Says what a policy waits for before it can go.
fn deleting(policy: &Policy, tally: &Tally) -> Vec<Condition> {
    if !policy.held || tally.awaited.is_empty() {
        let message = "the policy is being deleted, and holds nothing back";
        return vec![condition(READY, false, DELETING, message)];
    }
    let message = format!(
        "the policy goes once {} clusters are let go: {}; {}; to let go of one by hand, annotate its dependents with \
         dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get \
         clusterhealth <cluster> -o yaml lists them with their replicas",
        tally.awaited.len(),
        examples(&tally.awaited),
        restored(policy.hold)
    );
    vec![
        condition(READY, false, DELETING, &*message),
        condition(RECONCILING, true, LETTING_GO, message),
    ]
}

/// Says when the clusters are restored that are not let go yet.
fn restored(hold: PolicyHold) -> &'static str {
    match hold {
        _ if hold.undecodable => {
            "none is restored while the policy cannot be read: correct it, or have an operator of the \
             version run that can"
        }
        _ if hold.suspended => {
            "none is restored while the policy is suspended: set spec.suspend to false"
        }
        _ if hold.dry_run => "none is restored while the mode is DryRun: set spec.mode to Enforce",
        _ => "each is restored when its leases are fresh",
    }
}

/// Says whether the policy is obeyed, whatever becomes of its clusters.
fn ready(policy: &Policy, tally: &Tally) -> Vec<Condition> {
    if !policy.problems.is_empty() {
        let problems = policy.problems.join("; ");
        return vec![
            condition(READY, false, "Invalid", &*problems),
            condition(STALLED, true, "Invalid", problems),
        ];
    }
    if policy.hold.suspended {
        let message = "the policy is suspended: no cluster is probed and no dependent is written to; \
                       set spec.suspend to false to have it go on";
        return vec![condition(READY, true, "Suspended", message)];
    }
    let (judged, probing) = (tally.judged, tally.counts.probing);
    let message = match tally.counts.selected {
        0 => "the policy selects no cluster".to_owned(),
        _ => format!("{judged} of {probing} clusters that are to be probed are judged"),
    };
    if !policy.hold.dry_run {
        return vec![condition(READY, true, "Probing", message)];
    }
    let message =
        format!("dry run, by spec.mode or by --dry-run: no dependent is written to; {message}");
    vec![condition(READY, true, "DryRun", message)]
}

fn protecting(hold: PolicyHold, tally: &Tally) -> Condition {
    if tally.protected.is_empty() {
        return condition(PROTECTING, false, "NoOutage", "");
    }
    let (protected, names) = (tally.protected.len(), examples(&tally.protected));
    let mut message = format!("{protected} clusters are protected: {names}");
    if !tally.kept.is_empty() {
        let _ = write!(
            message,
            "; not selected any more: {}",
            examples(&tally.kept)
        );
    }
    if !tally.kept.is_empty() || hold != PolicyHold::default() {
        let _ = write!(message, "; {}", restored(hold));
    }
    condition(PROTECTING, true, "Outage", message)
}

/// Says all that is amiss; the reason is that of the gravest, which comes first: nothing could be protected, then a
/// cluster that has been without its controllers for too long, then those that stay so since the policy holds back, then
/// one whose dependents are not where they should be, then what could not be protected if it had to be.
fn degraded(policy: &Policy, tally: &Tally, lacking: Option<&str>) -> Condition {
    let (hold, mut parts) = (policy.hold, vec![]);
    let (probing, many) = (tally.counts.probing, tally.doubtful.len());
    let none = tally.judged == 0 && tally.new == 0;
    let names = examples(&tally.doubtful);
    if none && many > 0 {
        let message = format!("none of {probing} clusters can be judged: {names}");
        parts.push(("NothingJudged", message));
    }
    let overdue = examples(&tally.overdue);
    if let many @ 1.. = tally.overdue.len() {
        let message = format!("{many} clusters have been protected for too long: {overdue}");
        parts.push(("ProtectedTooLong", message));
    }
    if !tally.protected.is_empty() && hold != PolicyHold::default() {
        let (protected, restored) = (tally.protected.len(), restored(hold));
        let message = format!("{protected} clusters stay protected: {restored}");
        parts.push(("NotRestored", message));
    }
    let troubled = examples(&tally.troubled);
    if let many @ 1.. = tally.troubled.len() {
        let message = format!("dependents of {many} clusters could not be scaled: {troubled}");
        parts.push(("ScalingTrouble", message));
    }
    parts.extend(lacking.map(|message| ("RightsMissing", message.to_owned())));
    let warnings = policy.warnings().into_iter();
    parts.extend(warnings.map(|warning| ("NeededByProbe", warning)));
    if tally.judged > 0 && many > 0 {
        let message = format!("{many} of {probing} clusters cannot be judged: {names}");
        parts.push(("Undetermined", message));
    }
    let is_first = tally.judged == 0 && tally.new > 0;
    if is_first && parts.is_empty() {
        let (new, selected) = (tally.new, tally.counts.selected);
        let message = format!("{new} of {selected} clusters have not been judged yet");
        return Condition {
            status: "Unknown".to_owned(),
            ..condition(DEGRADED, false, "FirstVerdicts", message)
        };
    }
    conditions::degraded(&parts)
}

fn conflicted(view: &PolicyView) -> Condition {
    let lost: usize = view.lost.values().map(Vec::len).sum();
    if lost == 0 {
        return condition(CONFLICTED, false, "NoConflict", "");
    }
    let winners = view.lost.iter().take(EXAMPLES);
    let winners = winners.map(|(winner, its)| format!("{winner} ({} clusters)", its.len()));
    let message = format!(
        "{lost} clusters that this policy selects are left to policies that come before it, by \
         priority, age or name, or that applied last and cannot be read: {}; narrow clusterSelector, \
         change priority, or mend what cannot be read",
        winners.collect::<Vec<_>>().join(", ")
    );
    condition(CONFLICTED, true, "Outranked", message)
}

/// The first of these clusters, and the number of those that are left out.
fn examples(clusters: &[String]) -> String {
    let named = conditions::listed(clusters, EXAMPLES);
    match clusters.len() > EXAMPLES {
        true => named + "; kubectl get clusterhealths shows all",
        false => named,
    }
}

#[cfg(test)]
mod tests;
