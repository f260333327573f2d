//! The urgency of a write: some differences are news, others can wait for the refresh.
//!
//! Reports come with every probe of every cluster. The number of nodes is no news, nor are ages, times,
//! and the output of checks. What is done, or would be, and for whom, is written immediately. What comes
//! and goes, and has nothing scaled, is written within an allowance.

use std::collections::BTreeMap;

use super::{
    ClusterReport,
    finding::{Finding, HeldBack, PENDING},
    record::Said,
};
use crate::{
    api::{CheckResult, CheckStatus, ClusterHealthStatus, OUTAGE},
    prober::verdict::Verdict,
    status::conditions,
};

/// The reason to write a status that differs from the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It puts the same into other words: once a minute.
    Words,
    /// Something else was observed, which may come and go: within an allowance, and after all else.
    Observed,
    /// It is written immediately.
    News,
}

/// The urgency of the second status where the first one is.
pub(super) fn urgency(said: &Said, wanted: &Said) -> Option<Urgency> {
    let (a, b) = (&said.status, &wanted.status);
    if is_news(said, wanted) {
        Some(Urgency::News)
    } else if is_found(said, wanted)
        || said.report.awaits != wanted.report.awaits
        || is_paced(&said.report) != is_paced(&wanted.report)
        || a.state != b.state
        || a.nodes.is_some() != b.nodes.is_some()
        || a.unhealthy_nodes != b.unhealthy_nodes
        || have_other_troubles(&said.report, &wanted.report)
        || !a.checks.iter().map(result).eq(b.checks.iter().map(result))
    {
        Some(Urgency::Observed)
    } else {
        let said = words(&said.report);
        let mut words = words(&wanted.report).into_iter();
        let reworded = words.any(|(place, it)| said.get(&place).is_some_and(|said| *said != it));
        reworded.then_some(Urgency::Words)
    }
}

/// Whether the status has to be written where an earlier run has left another one. The counts in its messages are
/// not worth a thousand writes after each restart.
pub(super) fn differs(left: &ClusterHealthStatus, wanted: &Said) -> bool {
    let said = Said {
        status: left.clone(),
        report: wanted.report.clone(),
    };
    urgency(&said, wanted).is_some()
        || !wanted.report.problems.is_empty()
        || !conditions::same(&left.conditions, &wanted.status.conditions)
}

/// Whether the second status says something that policies have to know.
pub(super) fn concerns_policies(before: &Said, now: &Said) -> bool {
    before.report.looked_at != now.report.looked_at || is_news(before, now) || is_found(before, now)
}

/// Whether something else is done, or would be, or was found that decides it.
fn is_news(said: &Said, wanted: &Said) -> bool {
    let (a, b) = (&said.status, &wanted.status);
    let (k, l) = (&said.report, &wanted.report);
    let (was, is) = (a.reason.as_deref(), b.reason.as_deref());
    // That an outage is not seen any more shows in the protection, if it ends: at every other probe
    // it may be seen again.
    let decisive = was != is && (is == Some(OUTAGE) || [was, is].contains(&Some(PENDING)));
    // Without a verdict nothing is held back, which may be so every other time.
    let held_back = match (held_back(k), held_back(l)) {
        (None, Some(_)) => !is_blind(k),
        (Some(_), None) => !is_blind(l),
        (said, wanted) => said != wanted,
    };
    let problems = |it: &ClusterReport| -> Vec<_> {
        let problems = it.problems.iter();
        problems
            .map(|it| (it.reason, it.dependent.clone()))
            .collect()
    };
    decisive
        || held_back
        || (k.mode, k.overdue, &k.let_go) != (l.mode, l.overdue, &l.let_go)
        || k.awaits.is_some() != l.awaits.is_some()
        || skipped(k) != skipped(l)
        || problems(k) != problems(l)
        || (&a.policy, &a.skipped, &a.dependents) != (&b.policy, &b.skipped, &b.dependents)
        || a.protection != b.protection
        || a.protected_since != b.protected_since
        || a.node_monitor_grace_period != b.node_monitor_grace_period
        || a.max_protection_reached != b.max_protection_reached
        || a.last_action != b.last_action
}

/// Whether something else was found. The last expired lease that is fresh again counts: an outage
/// that is over leaves no expired leases behind.
fn is_found(said: &Said, wanted: &Said) -> bool {
    let (a, b) = (&said.status, &wanted.status);
    let expired = |it: &ClusterHealthStatus| it.leases.as_ref().is_some_and(|it| it.expired > 0);
    let remarks = |it: &Said| match &it.report.finding {
        Finding::Judged(_, seen) => seen.lacks_machines,
        _ => false,
    };
    // A cluster of which no lease counts is protected by nothing, whatever its reason.
    let none_counts =
        |it: &ClusterHealthStatus| it.leases.as_ref().is_some_and(|it| it.candidates == 0);
    a.reason != b.reason
        || none_counts(a) != none_counts(b)
        || a.leases.is_some() != b.leases.is_some()
        || expired(a) && !expired(b)
        || remarks(said) != remarks(wanted)
}

/// Whether it waits for its turn, as hundreds may at the same time.
fn is_paced(report: &ClusterReport) -> bool {
    report.held_back == Some(HeldBack::Paced)
}

/// The reason not to act. What a Gate has come to is no news.
fn held_back(report: &ClusterReport) -> Option<String> {
    let held = report.held_back.as_ref();
    held.filter(|_| !is_paced(report)).map(|held| match held {
        HeldBack::By(why) | HeldBack::Unconfirmed(why) => (*why).to_owned(),
        HeldBack::Flapping | HeldBack::Paced => held.reason().to_owned(),
        HeldBack::Gate(_) => "Gate".to_owned(),
    })
}

/// Whether there is no verdict.
fn is_blind(report: &ClusterReport) -> bool {
    matches!(
        report.finding,
        Finding::Unread { .. } | Finding::Judged(Verdict::Undetermined(_), _)
    )
}

/// The reason not to probe the cluster.
fn skipped(report: &ClusterReport) -> Option<&str> {
    match &report.finding {
        Finding::Skipped { message, .. } => Some(message),
        _ => None,
    }
}

/// Whether other numbers of nodes are in trouble, where they have been read.
fn have_other_troubles(said: &ClusterReport, wanted: &ClusterReport) -> bool {
    troubles(said)
        .zip(troubles(wanted))
        .is_some_and(|(said, wanted)| said != wanted)
}

/// The number of nodes in each kind of trouble.
fn troubles(report: &ClusterReport) -> Option<[usize; 4]> {
    let nodes = report.observed.as_ref()?.nodes.as_ref()?;
    Some([
        nodes.not_ready,
        nodes.pid_pressure,
        nodes.memory_pressure,
        nodes.disk_pressure,
    ])
}

/// The result of a check without its output, which may wait.
fn result(it: &CheckStatus) -> impl PartialEq + '_ {
    (&it.name, it.result, it.role, it.r#type)
}

/// The words that may change while the failure stays the same, such as another mistake in a kubeconfig
/// that was just corrected. Numbers in what a server says may be counters, ports or times.
fn words(report: &ClusterReport) -> BTreeMap<(&'static str, usize), String> {
    let finding = match &report.finding {
        Finding::Unread { message, .. } => Some(("unread", message)),
        _ => None,
    };
    let held_back = match &report.held_back {
        Some(HeldBack::Gate(why)) => Some(("held back", why)),
        _ => None,
    };
    let state = report.observed.as_ref().map(|it| ("state", &it.message));
    let whole = finding.into_iter().chain(held_back).chain(state);
    let whole = whole.map(|(what, text)| ((what, 0), without_digits(text)));
    // A check that has no result yet may lack a pod now. What follows is what it has met there.
    let checks = report.checks.iter().enumerate();
    let unknown = checks.filter(|(_, check)| check.result == CheckResult::Unknown);
    let checks = unknown.map(|(place, check)| {
        let message = check.message.as_deref().unwrap_or_default();
        let why = message.split(": ").next().unwrap_or_default();
        (("check", place), without_digits(why))
    });
    let problems = report.problems.iter().enumerate().map(|(place, it)| {
        let words = match it.quotes_the_seed() {
            true => without_digits(&it.message),
            // A number may be the remedy.
            false => it.message.clone(),
        };
        (("problem", place), words)
    });
    whole.chain(checks).chain(problems).collect()
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|it| !it.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests;
