//! From a [`PolicyReport`] and what is known of its clusters to the status of a ProbePolicy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write},
    sync::Arc,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use super::{
    summary::{Standing, Summary},
    widespread::Widespread,
};
use crate::{
    api::{ClusterCounts, MAX_PROTECTED_NAMES, ProbePolicyStatus, Protection},
    cluster::Brake,
    status::{
        conditions::{
            self, CONFLICTED, DELETING, PROTECTING, READY, RECONCILING, STALLED, WIDESPREAD_OUTAGE,
            Wanted,
        },
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
    pub brake: Brake,
    /// Whether it carries [`FINALIZER`](crate::api::FINALIZER).
    pub held: bool,
    /// The generation that this is about.
    pub generation: i64,
    /// What is wrong with it.
    pub problems: Vec<String>,
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

/// What is known of one policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// The policy.
    pub(super) policy: &'a PolicyReport,
    /// Whether it carries the finalizer, as far as is known.
    pub(super) held: bool,
    /// The clusters for which it needs the finalizer: those that it protects, selected or not, and
    /// while it is being deleted also those that have not been looked at.
    pub(super) holding: &'a BTreeSet<Arc<str>>,
    /// What is to be said of rights that are missing.
    pub(super) lacking: Option<&'a str>,
    /// Clusters that fell silent at once, of whichever policy.
    pub(super) widespread: Option<&'a Widespread>,
}

/// The clusters of one policy, counted.
#[derive(Default)]
struct Tally<'a> {
    counts: ClusterCounts,
    protected: BTreeSet<&'a str>,
    /// Protected, but not selected any more, with their states.
    kept: Vec<(&'a str, String)>,
    /// Protected for too long.
    overdue: Vec<&'a str>,
    /// Dependents that could not be scaled.
    troubled: Vec<(&'a str, &'a str)>,
    /// To be probed, but not judged at present.
    doubtful: Vec<(&'a str, &'a str)>,
    /// What it waits for while it is being deleted, with their states.
    awaited: Vec<(&'a str, String)>,
    judged: i32,
    /// Clusters whose first verdict is due.
    new: i32,
}

/// The status that a policy asks for, given the one before.
pub(super) fn status<'a>(
    view: &View<'a>,
    cluster: impl Fn(&str) -> Option<Summary<'a>>,
    before: &ProbePolicyStatus,
    now: Timestamp,
) -> ProbePolicyStatus {
    let tally = tally(view, cluster);
    let generation = Some(view.policy.generation);
    let protected = tally.protected.iter().take(MAX_PROTECTED_NAMES);
    ProbePolicyStatus {
        observed_generation: generation,
        clusters: tally.counts,
        protected_clusters: protected.map(|name| (*name).to_owned()).collect(),
        conditions: conditions::conditions(
            wanted(view, &tally, &before.conditions),
            &before.conditions,
            generation,
            now,
        ),
    }
}

fn tally<'a>(view: &View<'a>, cluster: impl Fn(&str) -> Option<Summary<'a>>) -> Tally<'a> {
    let mut tally = Tally::default();
    let selected: BTreeSet<&str> = view.policy.selected.iter().map(|name| &**name).collect();
    for name in &selected {
        tally.counts.selected += 1;
        let summary = cluster(name);
        match summary.map(|seen| (seen.standing, seen.reason)) {
            // Its loop is about to start.
            None => tally.new += 1,
            Some((Standing::Pending, _)) => {
                tally.counts.probing += 1;
                tally.new += 1;
            }
            Some((Standing::Skipped, _)) => tally.counts.skipped += 1,
            Some((Standing::Judged, _)) => {
                tally.counts.probing += 1;
                tally.judged += 1;
            }
            Some((Standing::Doubtful, reason)) => {
                tally.counts.probing += 1;
                tally.counts.undetermined += 1;
                tally.doubtful.push((name, reason));
            }
        }
        if let Some(seen) = summary {
            tally.protection(name, &seen);
        }
    }
    for name in view.holding {
        let name = &**name;
        let summary = cluster(name);
        if let Some(seen) = summary.filter(|_| !selected.contains(name)) {
            tally.protection(name, &seen);
            if seen.protected {
                tally.kept.push((name, state(Some(&seen))));
            }
        }
        tally.awaited.push((name, state(summary.as_ref())));
    }
    tally.counts.protected = i32::try_from(tally.protected.len()).unwrap_or(i32::MAX);
    tally
}

impl<'a> Tally<'a> {
    fn protection(&mut self, name: &'a str, seen: &Summary<'a>) {
        if seen.protected {
            self.protected.insert(name);
        }
        if seen.overdue {
            self.overdue.push(name);
        }
        if let Some(trouble) = seen.trouble {
            self.troubled.push((name, trouble));
        }
    }
}

/// How a cluster is that is not let go yet.
fn state(seen: Option<&Summary<'_>>) -> String {
    match seen {
        Some(seen) if !seen.protected => "not looked at yet".to_owned(),
        Some(seen) if seen.protection == Protection::None => format!("owed, {}", seen.reason),
        Some(seen) => format!("{:?}, {}", seen.protection, seen.reason),
        None => "not looked at yet".to_owned(),
    }
}

fn wanted(view: &View<'_>, tally: &Tally<'_>, before: &[Condition]) -> Vec<Wanted> {
    let mut wanted = Vec::with_capacity(6);
    if view.policy.deleting {
        wanted.extend(deleting(view, tally));
    } else {
        wanted.extend(ready(view.policy, tally, before));
    }
    wanted.push(protecting(view.policy.brake, tally));
    wanted.push(degraded(view.policy.brake, tally, view.lacking));
    wanted.push(conflicted(view.policy));
    let affected = view.widespread.filter(|spread| {
        let mut clusters = view.policy.selected.iter().chain(view.holding);
        clusters.any(|name| spread.clusters.contains(name))
    });
    wanted.extend(
        affected
            .map(|spread| Wanted::new(WIDESPREAD_OUTAGE, true, "SilentAtOnce", spread.message())),
    );
    wanted
}

/// What it waits for before it can go.
fn deleting(view: &View<'_>, tally: &Tally<'_>) -> Vec<Wanted> {
    if !view.held || tally.awaited.is_empty() {
        let message = "the policy is being deleted, and holds nothing back";
        return vec![Wanted::new(READY, false, DELETING, message)];
    }
    let message = format!(
        "the policy goes once {} clusters are let go: {}; {}; to let go of one by hand, annotate its dependents with \
         dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get \
         clusterhealth <cluster> -o yaml lists them with their replicas",
        tally.awaited.len(),
        examples(&tally.awaited),
        restored(view.policy.brake)
    );
    vec![
        Wanted::new(READY, false, DELETING, &*message),
        Wanted::new(RECONCILING, true, LETTING_GO, message),
    ]
}

/// When the clusters are restored that are not let go yet.
fn restored(brake: Brake) -> &'static str {
    match (brake.suspend, brake.dry_run) {
        _ if brake.unreadable => {
            "none is restored while the policy cannot be read: correct it, or have an operator of the \
             version run that can"
        }
        _ if brake.no_mode => {
            "none is restored while the policy has no mode: set spec.mode to Enforce, and spec.suspend to \
             false"
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
fn ready(policy: &PolicyReport, tally: &Tally<'_>, before: &[Condition]) -> Vec<Wanted> {
    let ClusterCounts {
        selected,
        probing,
        undetermined,
        ..
    } = tally.counts;
    let Tally { judged, new, .. } = *tally;
    let said = before.iter().find(|known| known.type_ == READY);
    let was_ready = said.is_some_and(|known| known.status == "True");
    let is_first = said.is_none_or(|known| known.reason == FIRST);
    let saw_nothing = said.is_some_and(|known| known.reason == NOTHING_JUDGED);
    if !policy.problems.is_empty() {
        let problems = policy.problems.join("; ");
        vec![
            Wanted::new(READY, false, "Invalid", &*problems),
            Wanted::new(STALLED, true, "Invalid", problems),
        ]
    } else if policy.brake.suspend {
        let message = "the policy is suspended: no cluster is probed and no dependent is written to; \
                       set spec.suspend to false to have it go on";
        vec![Wanted::new(READY, true, SUSPENDED, message)]
    } else if judged == 0 && undetermined > 0 && (new == 0 || saw_nothing) {
        let message = format!(
            "none of {probing} clusters can be judged: {}",
            examples(&tally.doubtful)
        );
        vec![Wanted::new(READY, false, NOTHING_JUDGED, message)]
    } else if new > 0 && (is_first || judged == 0 && !was_ready) {
        let message = format!("{new} of {selected} clusters have not been judged yet");
        vec![
            Wanted::new(READY, false, FIRST, &*message),
            Wanted::new(RECONCILING, true, "FirstProbes", message),
        ]
    } else {
        let mut message = match selected {
            0 => "the policy selects no cluster".to_owned(),
            _ => format!("{judged} of {probing} clusters that are to be probed are judged"),
        };
        if new > 0 {
            let _ = write!(message, "; {new} are new, and their first verdict is due");
        }
        if !policy.brake.dry_run {
            return vec![Wanted::new(READY, true, "Probing", message)];
        }
        let message =
            format!("dry run, by spec.mode or by --dry-run: no dependent is written to; {message}");
        vec![Wanted::new(READY, true, DRY_RUN, message)]
    }
}

fn protecting(brake: Brake, tally: &Tally<'_>) -> Wanted {
    if tally.protected.is_empty() {
        return Wanted::new(PROTECTING, false, "NoOutage", "");
    }
    let protected: Vec<&str> = tally.protected.iter().copied().collect();
    let mut message = format!(
        "{} clusters are protected: {}",
        protected.len(),
        names(&protected)
    );
    if !tally.kept.is_empty() {
        let _ = write!(
            message,
            "; not selected any more: {}",
            examples(&tally.kept)
        );
    }
    if !tally.kept.is_empty() || brake != Brake::default() {
        let _ = write!(message, "; {}", restored(brake));
    }
    Wanted::new(PROTECTING, true, "Outage", message)
}

/// All that is amiss; the reason is that of the gravest, which comes first: a cluster that has been
/// without its controllers for too long, then those that stay so since the policy holds back, then one
/// whose dependents are not where they should be, then what could not be protected if it had to be:
/// all of them, or one.
fn degraded(brake: Brake, tally: &Tally<'_>, lacking: Option<&str>) -> Wanted {
    let mut parts = Vec::with_capacity(5);
    if !tally.overdue.is_empty() {
        let message = format!(
            "{} clusters have been protected for too long: {}",
            tally.overdue.len(),
            names(&tally.overdue)
        );
        parts.push(("ProtectedTooLong", message));
    }
    if !tally.protected.is_empty() && brake != Brake::default() {
        let message = format!(
            "{} clusters stay protected: {}",
            tally.protected.len(),
            restored(brake)
        );
        parts.push(("NotRestored", message));
    }
    if !tally.troubled.is_empty() {
        let message = format!(
            "dependents of {} clusters could not be scaled: {}",
            tally.troubled.len(),
            examples(&tally.troubled)
        );
        parts.push(("ScalingTrouble", message));
    }
    parts.extend(lacking.map(|message| (RIGHTS_MISSING, message.to_owned())));
    if !tally.doubtful.is_empty() {
        let message = format!(
            "{} of {} clusters cannot be judged: {}",
            tally.doubtful.len(),
            tally.counts.probing,
            examples(&tally.doubtful)
        );
        parts.push(("Undetermined", message));
    }
    Wanted::degraded(&parts)
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
        "{lost} clusters that this policy selects are left to policies that come before it, by \
         priority, age or name, or that applied last and cannot be read: {}; narrow clusterSelector, \
         change priority, or mend what cannot be read",
        winners.join(", ")
    );
    Wanted::new(CONFLICTED, true, "Outranked", message)
}

fn examples(clusters: &[(&str, impl Display)]) -> String {
    let named: Vec<String> = clusters
        .iter()
        .take(EXAMPLES)
        .map(|(name, why)| format!("{name} ({why})"))
        .collect();
    and_more(named.join(", "), clusters.len())
}

/// The first of these, and how many more there are.
pub(super) fn names(clusters: &[&str]) -> String {
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
