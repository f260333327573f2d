//! What in a report is worth a write, and what can wait for the refresh.
//!
//! Reports come with every probe of every cluster, so they are compared as they are, and a healthy
//! one costs no more than that: no status is put into words to find that it says nothing new.

use super::{
    ClusterReport,
    finding::{Finding, HeldBack},
};
use crate::{
    api::{CheckResult, CheckStatus},
    observer::View,
    prober::{
        ledger::Problem,
        verdict::{Doubt, Verdict},
    },
};

/// Whether the second report says something that the first did not, and that matters whatever it costs:
/// what is done or would be, for whom, and what was found if that decides it.
pub fn is_news(said: &ClusterReport, report: &ClusterReport) -> bool {
    said.uid != report.uid
        || said.policy != report.policy
        || said.mode != report.mode
        || said.protection != report.protection
        || said.protected_since != report.protected_since
        || said.overdue != report.overdue
        || said.last_action != report.last_action
        || is_held_back_otherwise(said, report)
        || said.let_go != report.let_go
        || said.dependents != report.dependents
        || !is_same_trouble(&said.problems, &report.problems)
        || is_decisive(&said.finding, &report.finding)
}

/// Whether the second report says that something else was found of the cluster, that it is in another
/// state, its nodes in other trouble, or that a check has come to something else. How many nodes there
/// are is no news, nor what a check has put out. Since nothing is scaled for it, it is said less often
/// than [news](is_news) if it comes and goes.
pub fn is_other_observation(said: &ClusterReport, report: &ClusterReport) -> bool {
    is_other_finding(said, report)
        || is_other_state(said.observed.as_ref(), report.observed.as_ref())
        || is_other_result(&said.checks, &report.checks)
}

/// Whether something else was found of the cluster. Ages, counts, and when it was probed make no
/// difference, but for the last expired lease that is fresh again: an outage that is over is not to
/// leave expired leases behind.
pub fn is_other_finding(said: &ClusterReport, report: &ClusterReport) -> bool {
    !is_same(&said.finding, &report.finding)
}

/// Whether the same failure, of a probe, of a check or to scale a dependent, or the same state, is put into
/// other words, such as another mistake in a kubeconfig that was just corrected. Numbers alone are none in
/// what a server has said: they may be counters, ports or times.
pub fn is_reworded(said: &ClusterReport, report: &ClusterReport) -> bool {
    let failure = match (&said.finding, &report.finding) {
        (Finding::Unread { message: said, .. }, Finding::Unread { message, .. })
        | (Finding::Triggered { why: said, .. }, Finding::Triggered { why: message, .. }) => {
            is_in_other_words(said, message)
        }
        _ => false,
    };
    let held_back = match (&said.held_back, &report.held_back) {
        (Some(HeldBack::Check { why: said, .. }), Some(HeldBack::Check { why, .. })) => {
            is_in_other_words(said, why)
        }
        _ => false,
    };
    let state = match (&said.observed, &report.observed) {
        (Some(said), Some(view)) => is_in_other_words(&said.message, &view.message),
        _ => false,
    };
    let mut problems = said.problems.iter().zip(&report.problems);
    let trouble = problems.any(|(said, it)| match it.quotes_the_seed() {
        true => is_in_other_words(&said.message, &it.message),
        // A number may be the remedy.
        false => said.message != it.message,
    });
    let mut checks = said.checks.iter().zip(&report.checks);
    let unknown = checks.any(|(said, check)| is_unknown_otherwise(said, check));
    failure || held_back || state || trouble || unknown
}

/// Whether the same dependents are not where they should be, for the same reasons. What the seed says of
/// that may be another each time.
fn is_same_trouble(said: &[Problem], problems: &[Problem]) -> bool {
    let mut pairs = said.iter().zip(problems);
    said.len() == problems.len()
        && pairs.all(|(said, it)| (said.reason, &said.dependent) == (it.reason, &it.dependent))
}

/// Whether a check tells nothing for another reason than before: it had not been run yet, and now has
/// no pod to be run in. What follows is what it has met there, which may be another each time.
fn is_unknown_otherwise(said: &CheckStatus, check: &CheckStatus) -> bool {
    check.result == CheckResult::Unknown && is_in_other_words(reason(said), reason(check))
}

fn reason(check: &CheckStatus) -> &str {
    let message = check.message.as_deref().unwrap_or_default();
    message.split(": ").next().unwrap_or_default()
}

/// Whether something else keeps from acting, or nothing any more. What a check puts out may be another
/// each time; and while nothing is found there is nothing to be held back, which may be so every other
/// time.
fn is_held_back_otherwise(said: &ClusterReport, report: &ClusterReport) -> bool {
    match (&said.held_back, &report.held_back) {
        (Some(HeldBack::Check { role: said, .. }), Some(HeldBack::Check { role, .. })) => {
            said != role
        }
        // In how many clusters it fails is no news.
        (Some(HeldBack::Trigger { why: said, .. }), Some(HeldBack::Trigger { why, .. })) => {
            is_in_other_words(said, why)
        }
        (None, Some(_)) => !is_blind(&said.finding),
        (Some(_), None) => !is_blind(&report.finding),
        (said, held_back) => said != held_back,
    }
}

fn is_blind(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::Unread { .. } | Finding::Judged(Verdict::Undetermined(_), _)
    )
}

fn is_other_state(said: Option<&View>, view: Option<&View>) -> bool {
    match (said, view) {
        (Some(said), Some(view)) => {
            said.state != view.state
                || match (&said.nodes, &view.nodes) {
                    (Some(said), Some(nodes)) => nodes.is_news(said),
                    (said, nodes) => said.is_some() != nodes.is_some(),
                }
        }
        (said, view) => said.is_some() != view.is_some(),
    }
}

/// Whether a check has come to something else. Its output may wait.
pub(super) fn is_other_result(said: &[CheckStatus], checks: &[CheckStatus]) -> bool {
    let key = |it: &CheckStatus| (it.result, it.role, it.r#type);
    said.len() != checks.len()
        || said.iter().zip(checks).any(|(said, check)| {
            key(said) != key(check) || (&said.name, &said.hash) != (&check.name, &check.hash)
        })
}

/// Whether something else was found that decides what is done: that the cluster is not to be probed, or
/// is after all, or an outage. That one is not seen any more is told by the protection, if it ends: at
/// every other probe it may be seen again.
fn is_decisive(said: &Finding, finding: &Finding) -> bool {
    use Finding::{Judged, Pending, Skipped, Triggered, Unread};
    match (said, finding) {
        (Pending | Skipped { .. }, _) | (_, Pending | Skipped { .. }) => !is_same(said, finding),
        (Judged(Verdict::Outage, _), Judged(Verdict::Outage, _))
        | (Triggered { .. }, Triggered { .. }) => false,
        (_, Judged(Verdict::Outage, _) | Triggered { .. }) => true,
        (_, Judged(..) | Unread { .. }) => false,
    }
}

fn is_same(said: &Finding, finding: &Finding) -> bool {
    match (said, finding) {
        (Finding::Judged(said, before), Finding::Judged(verdict, seen)) => {
            is_same_verdict(*said, *verdict)
                && before.lacks_machines() == seen.lacks_machines()
                && (before.expired == 0 || seen.expired > 0)
        }
        (Finding::Unread { reason: said, .. }, Finding::Unread { reason, .. }) => said == reason,
        (Finding::Triggered { leases: said, .. }, Finding::Triggered { leases, .. }) => {
            is_same(said, leases)
        }
        (said, finding) => said == finding,
    }
}

/// The instant at which the silence would be proven is not told.
fn is_same_verdict(said: Verdict, verdict: Verdict) -> bool {
    let unproven = |verdict| matches!(verdict, Verdict::Undetermined(Doubt::Unproven(_)));
    said == verdict || unproven(said) && unproven(verdict)
}

fn is_in_other_words(said: &str, message: &str) -> bool {
    said != message && !without_digits(said).eq(without_digits(message))
}

fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|letter| !letter.is_ascii_digit())
}

#[cfg(test)]
mod tests;
