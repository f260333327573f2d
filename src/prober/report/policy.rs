//! From a [`PolicyReport`] and what is known of its clusters to the status of a ProbePolicy.

mod tally;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use self::tally::{Tally, tally};
use super::summary::Summary;
use crate::{
    api::{MAX_PROTECTED_NAMES, ProbePolicyStatus},
    cluster::PolicyHold,
    status::{
        conditions::{
            self, CONFLICTED, DELETING, PROTECTING, READY, RECONCILING, STALLED, condition,
        },
        finalizer::Finalizer,
        policies::Policy,
        rights::{RIGHTS_MISSING, Rights},
    },
};

/// How many clusters a message names.
const EXAMPLES: usize = 3;

/// Reason of Ready while the policy is suspended.
const SUSPENDED: &str = "Suspended";
/// Reason of Ready while no dependent is written to, by the mode or by `--dry-run`.
const DRY_RUN: &str = "DryRun";
/// Reason of Ready while clusters of a policy that has not been ready are probed for the first time.
const FIRST: &str = "Reconciling";
/// Reason of Ready while clusters are to be probed and none can be judged.
const NOTHING_JUDGED: &str = "NothingJudged";
/// Reason of Degraded if the probe itself needs what the policy scales.
const NEEDED_BY_PROBE: &str = "NeededByProbe";
/// Why one that is being deleted is still there: it waits for clusters that it protects.
pub(super) const LETTING_GO: &str = "LettingGo";

/// What is known of one policy, beside its clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its `metadata.uid`.
    pub uid: Arc<str>,
    /// Whether its deletion has been asked for.
    pub deleting: bool,
    /// What it holds back, so that nothing is restored.
    pub hold: PolicyHold,
    /// Whether it carries [`FINALIZER`](crate::api::FINALIZER).
    pub held: bool,
    /// The generation that this is about.
    pub generation: i64,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// What may be a mistake in it.
    pub warnings: Vec<String>,
    /// The clusters to which it applies.
    pub selected: Vec<Arc<str>>,
    /// The clusters that no policy selects any more, this one having been the last, and that are
    /// not let go of yet.
    pub kept: Vec<Arc<str>>,
    /// The clusters that it selects in vain, by the policy that applies to them.
    pub lost: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

/// What is said of the rights that an outage calls for.
pub(super) const RIGHTS: Rights = Rights {
    lacks: "the operator lacks rights that the policy calls for",
    grant: "manifests/prober/rbac.yaml, and in manifests/examples other-dependents and exec-checks, do",
    suffice: "the operator has all rights that the policy calls for",
};

/// Knowledge of a policy beyond its report and status.
#[derive(Debug)]
pub(super) struct More {
    pub(super) finalizer: Finalizer,
    /// The clusters for which it needs the finalizer: those that it protects, selected or not, and
    /// while it is being deleted also those that have not been looked at.
    pub(super) holding: BTreeSet<Arc<str>>,
    /// The message about missing rights; before they are asked for, that of an earlier run.
    pub(super) lacking: Option<String>,
}

impl More {
    /// The first knowledge of a policy, from the status that an earlier run has left.
    pub(super) fn new(held: bool, status: &ProbePolicyStatus) -> Self {
        Self {
            finalizer: Finalizer::new(held),
            holding: BTreeSet::new(),
            lacking: RIGHTS.told(&status.conditions).map(str::to_owned),
        }
    }
}

/// The status of a policy.
pub(super) fn status<'a>(
    policy: &'a Policy<PolicyReport, More>,
    cluster: impl Fn(&str) -> Option<Summary<'a>>,
    now: Timestamp,
) -> ProbePolicyStatus {
    let (report, before) = (&policy.report, &policy.status.conditions);
    let tally = tally(policy, cluster);
    let mut wanted = match report.deleting {
        true => deleting(policy, &tally),
        false => ready(report, &tally, before),
    };
    wanted.push(protecting(report.hold, &tally));
    wanted.push(degraded(report, &tally, policy.more.lacking.as_deref()));
    wanted.push(conflicted(report));
    let generation = Some(report.generation);
    let protected = tally.protected.into_iter().take(MAX_PROTECTED_NAMES);
    ProbePolicyStatus {
        observed_generation: generation,
        clusters: tally.counts,
        protected_clusters: protected.collect(),
        conditions: conditions::conditions(wanted, before, generation, now),
    }
}

/// What it waits for before it can go.
fn deleting(policy: &Policy<PolicyReport, More>, tally: &Tally) -> Vec<Condition> {
    if !policy.more.finalizer.is_on() || tally.awaited.is_empty() {
        let message = "the policy is being deleted, and holds nothing back";
        return vec![condition(READY, false, DELETING, message)];
    }
    let message = format!(
        "the policy goes once {} clusters are let go: {}; {}; to let go of one by hand, annotate its dependents with \
         dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get \
         clusterhealth <cluster> -o yaml lists them with their replicas",
        tally.awaited.len(),
        examples(&tally.awaited),
        restored(policy.report.hold)
    );
    vec![
        condition(READY, false, DELETING, &*message),
        condition(RECONCILING, true, LETTING_GO, message),
    ]
}

/// When the clusters are restored that are not let go yet.
fn restored(hold: PolicyHold) -> &'static str {
    match (hold.suspended, hold.dry_run) {
        _ if hold.undecodable => {
            "none is restored while the policy cannot be read: correct it, or have an operator of the \
             version run that can"
        }
        (false, false) => "each is restored when its leases are fresh",
        (true, false) => {
            "none is restored while the policy is suspended: set spec.suspend to false"
        }
        (false, true) => "none is restored while the mode is DryRun: set spec.mode to Enforce",
        (true, true) => {
            "none is restored while the policy is suspended and its mode is DryRun: set \
             spec.suspend to false and spec.mode to Enforce"
        }
    }
}

/// A new cluster leaves Ready as it was. A policy that has not been ready yet waits for the first
/// verdict on each of its clusters.
fn ready(policy: &PolicyReport, tally: &Tally, before: &[Condition]) -> Vec<Condition> {
    let (selected, probing) = (tally.counts.selected, tally.counts.probing);
    let (judged, new) = (tally.judged, tally.new);
    let said = conditions::find(before, READY);
    let was_ready = said.is_some_and(|known| known.status == "True");
    let is_first = said.is_none_or(|known| known.reason == FIRST);
    let saw_nothing = said.is_some_and(|known| known.reason == NOTHING_JUDGED);
    if !policy.problems.is_empty() {
        let problems = policy.problems.join("; ");
        vec![
            condition(READY, false, "Invalid", &*problems),
            condition(STALLED, true, "Invalid", problems),
        ]
    } else if policy.hold.suspended {
        let message = "the policy is suspended: no cluster is probed and no dependent is written to; \
                       set spec.suspend to false to have it go on";
        vec![condition(READY, true, SUSPENDED, message)]
    } else if judged == 0 && !tally.doubtful.is_empty() && (new == 0 || saw_nothing) {
        let names = examples(&tally.doubtful);
        let message = format!("none of {probing} clusters can be judged: {names}");
        vec![condition(READY, false, NOTHING_JUDGED, message)]
    } else if new > 0 && (is_first || judged == 0 && !was_ready) {
        let message = format!("{new} of {selected} clusters have not been judged yet");
        vec![
            condition(READY, false, FIRST, &*message),
            condition(RECONCILING, true, "FirstProbes", message),
        ]
    } else {
        let mut message = match selected {
            0 => "the policy selects no cluster".to_owned(),
            _ => format!("{judged} of {probing} clusters that are to be probed are judged"),
        };
        if new > 0 {
            let _ = write!(message, "; {new} are new, and their first verdict is due");
        }
        if !policy.hold.dry_run {
            return vec![condition(READY, true, "Probing", message)];
        }
        let message =
            format!("dry run, by spec.mode or by --dry-run: no dependent is written to; {message}");
        vec![condition(READY, true, DRY_RUN, message)]
    }
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

/// All that is amiss; the reason is that of the gravest, which comes first: a cluster that has been
/// without its controllers for too long, then those that stay so since the policy holds back, then one
/// whose dependents are not where they should be, then what could not be protected if it had to be:
/// all of them, or one.
fn degraded(policy: &PolicyReport, tally: &Tally, lacking: Option<&str>) -> Condition {
    let (hold, mut parts) = (policy.hold, vec![]);
    let names = examples(&tally.overdue);
    if let many @ 1.. = tally.overdue.len() {
        let message = format!("{many} clusters have been protected for too long: {names}");
        parts.push(("ProtectedTooLong", message));
    }
    if !tally.protected.is_empty() && hold != PolicyHold::default() {
        let (protected, restored) = (tally.protected.len(), restored(hold));
        let message = format!("{protected} clusters stay protected: {restored}");
        parts.push(("NotRestored", message));
    }
    let names = examples(&tally.troubled);
    if let many @ 1.. = tally.troubled.len() {
        let message = format!("dependents of {many} clusters could not be scaled: {names}");
        parts.push(("ScalingTrouble", message));
    }
    parts.extend(lacking.map(|message| (RIGHTS_MISSING, message.to_owned())));
    let warnings = policy.warnings.iter();
    parts.extend(warnings.map(|warning| (NEEDED_BY_PROBE, warning.clone())));
    let (probing, names) = (tally.counts.probing, examples(&tally.doubtful));
    if let many @ 1.. = tally.doubtful.len() {
        let message = format!("{many} of {probing} clusters cannot be judged: {names}");
        parts.push(("Undetermined", message));
    }
    conditions::degraded(&parts)
}

fn conflicted(policy: &PolicyReport) -> Condition {
    let lost: usize = policy.lost.values().map(Vec::len).sum();
    if lost == 0 {
        return condition(CONFLICTED, false, "NoConflict", "");
    }
    let winners = policy.lost.iter().take(EXAMPLES);
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
pub(super) fn examples(clusters: &[String]) -> String {
    let named = conditions::listed(clusters, EXAMPLES);
    match clusters.len() > EXAMPLES {
        true => named + "; kubectl get clusterhealths shows all",
        false => named,
    }
}

#[cfg(test)]
mod tests;
