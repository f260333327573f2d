//! What in a status is worth a write, and what can wait for the refresh.
//!
//! Reports come with every probe of every cluster. How many nodes there are is no news, nor are ages,
//! times, and what a check puts out. What is done, or would be, and for whom, is written immediately;
//! what comes and goes, and has nothing scaled, within an allowance.

use std::collections::BTreeMap;

use super::{
    ClusterReport,
    finding::{Finding, HeldBack, PENDING, reason},
};
use crate::{
    api::{CheckResult, CheckStatus, ClusterHealthStatus, DependentRef, Mode, is_outage},
    prober::verdict::Verdict,
    status::{
        cluster_health::{self, Keyed, Urgency},
        conditions,
    },
};

/// What tells statuses apart beyond their fields.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// Whether each dependent has been looked at: only policies have to know.
    pub(super) looked_at: bool,
    mode: Mode,
    overdue: bool,
    /// What keeps from acting. In how many clusters a check fails, and what it puts out, is no news.
    held_back: Option<String>,
    /// No verdict. So there is nothing to be held back, which may be so every other time.
    blind: bool,
    /// Why the cluster is not probed.
    skipped: Option<String>,
    /// Why it would not be probed.
    let_go: Option<Finding>,
    /// The dependents that are not where they should be, and why.
    problems: Vec<(&'static str, DependentRef)>,
    /// What was found of the leases.
    leases: &'static str,
    lacks_machines: bool,
    /// How many nodes are in which trouble.
    troubles: Option<[usize; 4]>,
    /// Words of the same failure, such as another mistake in a kubeconfig that was just corrected.
    words: BTreeMap<(&'static str, usize), String>,
}

impl Key {
    /// The key of the status of this report.
    pub(super) fn of(report: &ClusterReport) -> Self {
        let leases = report.finding.leases();
        let nodes = report.observed.as_ref().and_then(|it| it.nodes.as_ref());
        let problems = report.problems.iter();
        Self {
            looked_at: report.looked_at,
            mode: report.mode,
            overdue: report.overdue,
            held_back: report.held_back.as_ref().map(|held| match held {
                HeldBack::By(why) => (*why).to_owned(),
                HeldBack::Check { role, .. } => format!("{role:?}"),
                HeldBack::Trigger { why, .. } => without_digits(why),
            }),
            blind: matches!(
                report.finding,
                Finding::Unread { .. } | Finding::Judged(Verdict::Undetermined(_), _)
            ),
            skipped: match &report.finding {
                Finding::Skipped { message, .. } => Some(message.clone()),
                _ => None,
            },
            let_go: report.let_go.clone(),
            problems: problems
                .map(|it| (it.reason, it.dependent.clone()))
                .collect(),
            leases: reason(leases),
            lacks_machines: matches!(leases, Finding::Judged(_, seen) if seen.lacks_machines()),
            troubles: nodes.map(|it| {
                [
                    it.not_ready,
                    it.pid_pressure,
                    it.memory_pressure,
                    it.disk_pressure,
                ]
            }),
            words: words(report),
        }
    }

    /// Whether the second status says something that policies have to know.
    pub(super) fn concerns_policies(before: &Keyed<Self>, now: &Keyed<Self>) -> bool {
        before.key.looked_at != now.key.looked_at || is_news(before, now) || is_found(before, now)
    }
}

impl cluster_health::Key for Key {
    fn urgency(said: &Keyed<Self>, wanted: &Keyed<Self>) -> Option<Urgency> {
        let (a, b) = (&said.status, &wanted.status);
        if is_news(said, wanted) {
            Some(Urgency::News)
        } else if is_found(said, wanted)
            || a.state != b.state
            || a.nodes.is_some() != b.nodes.is_some()
            || a.unhealthy_nodes != b.unhealthy_nodes
            || said.key.troubles != wanted.key.troubles
            || !a.checks.iter().map(result).eq(b.checks.iter().map(result))
        {
            Some(Urgency::Observed)
        } else {
            let mut words = wanted.key.words.iter();
            let said = &said.key.words;
            let reworded = words.any(|(place, it)| said.get(place).is_some_and(|said| said != it));
            reworded.then_some(Urgency::Words)
        }
    }

    /// Its messages carry counts, which are not worth a thousand writes after each restart.
    fn differs(left: &ClusterHealthStatus, wanted: &Keyed<Self>) -> bool {
        let said = Keyed {
            status: left.clone(),
            key: wanted.key.clone(),
        };
        Self::urgency(&said, wanted).is_some()
            || !wanted.key.problems.is_empty()
            || !conditions::same(&left.conditions, &wanted.status.conditions)
    }
}

/// Whether something else is done, or would be, or was found that decides it.
fn is_news(said: &Keyed<Key>, wanted: &Keyed<Key>) -> bool {
    let (Keyed { status: a, key: k }, Keyed { status: b, key: l }) = (said, wanted);
    let (was, is) = (a.reason.as_deref(), b.reason.as_deref());
    // That an outage is not seen any more shows in the protection, if it ends: at every other probe
    // it may be seen again.
    let decisive = was != is && (is.is_some_and(is_outage) || [was, is].contains(&Some(PENDING)));
    let held_back = match (&k.held_back, &l.held_back) {
        (None, Some(_)) => !k.blind,
        (Some(_), None) => !l.blind,
        (said, wanted) => said != wanted,
    };
    decisive
        || held_back
        || (k.mode, k.overdue) != (l.mode, l.overdue)
        || (&k.skipped, &k.let_go, &k.problems) != (&l.skipped, &l.let_go, &l.problems)
        || (&a.policy, &a.skipped, &a.dependents) != (&b.policy, &b.skipped, &b.dependents)
        || a.protection != b.protection
        || a.protected_since != b.protected_since
        || a.last_action != b.last_action
}

/// Whether something else was found. The last expired lease that is fresh again counts: an outage
/// that is over leaves no expired leases behind.
fn is_found(said: &Keyed<Key>, wanted: &Keyed<Key>) -> bool {
    let (a, b) = (&said.status, &wanted.status);
    let expired = |it: &ClusterHealthStatus| it.leases.as_ref().is_some_and(|it| it.expired > 0);
    a.reason != b.reason
        || a.leases.is_some() != b.leases.is_some()
        || expired(a) && !expired(b)
        || said.key.leases != wanted.key.leases
        || said.key.lacks_machines != wanted.key.lacks_machines
}

/// What a check has come to. Its output may wait.
fn result(it: &CheckStatus) -> impl PartialEq + '_ {
    (&it.name, &it.hash, it.result, it.role, it.r#type)
}

/// The words that can be others for the same failure. Numbers in what a server says may be counters,
/// ports or times.
fn words(report: &ClusterReport) -> BTreeMap<(&'static str, usize), String> {
    let finding = match &report.finding {
        Finding::Unread { message, .. } => Some(("unread", message)),
        Finding::Triggered { why, .. } => Some(("triggered", why)),
        _ => None,
    };
    let held_back = match &report.held_back {
        Some(HeldBack::Check { why, .. }) => Some(("held back", why)),
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
