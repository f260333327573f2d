//! What in a report is worth a write, and what can wait for the refresh.
//!
//! Reports come with every probe of every cluster, so they are compared as they are, and a healthy
//! one costs no more than that: no status is put into words to find that it says nothing new.

use super::report::{ClusterReport, Finding, HeldBack};
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

/// The reasons of problems of which the seed tells in words of its own.
const WORDS_OF_THE_SEED: [&str; 3] = ["ScalingFailed", "ScalingForbidden", "ScalingConflicts"];

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
    let trouble = problems.any(|(said, it)| match WORDS_OF_THE_SEED.contains(&it.reason) {
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
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use rstest::rstest;

    use super::*;
    use crate::{
        api::{
            Action, CheckResult, CheckRole,
            ClusterState::{self, Degraded, Online},
            LastAction, Mode, Protection, UnhealthyNode,
        },
        health::fixtures::{self, assessment, check, closed, owed, report, triggered, view},
        observer::NodeCounts,
        prober::moment::Moment,
    };

    fn judged(verdict: Verdict, expired: usize) -> ClusterReport {
        report(Finding::Judged(verdict, Box::new(assessment(5, expired))))
    }

    fn healthy() -> ClusterReport {
        judged(Verdict::Healthy, 1)
    }

    fn suspect(until: i128) -> ClusterReport {
        let doubt = Doubt::Unproven(Moment::from_nanos(until));
        judged(Verdict::Undetermined(doubt), 3)
    }

    fn failing(why: &str) -> ClusterReport {
        report(triggered(why, healthy().finding))
    }

    fn gated(why: &str) -> ClusterReport {
        ClusterReport {
            held_back: closed(CheckRole::Gate, why),
            ..healthy()
        }
    }

    fn unread(message: &str) -> ClusterReport {
        report(Finding::Unread {
            reason: "ServerError",
            message: message.to_owned(),
        })
    }

    fn skipped(message: &str) -> ClusterReport {
        report(Finding::Skipped {
            reason: "Migrating",
            message: message.to_owned(),
        })
    }

    fn problems(of: &[(&str, &'static str)]) -> ClusterReport {
        let problem = |&(name, reason): &(&str, &'static str)| fixtures::problem(name, reason, "");
        ClusterReport {
            problems: of.iter().map(problem).collect(),
            ..healthy()
        }
    }

    fn problem(message: &str) -> ClusterReport {
        ClusterReport {
            problems: vec![fixtures::problem("kcm", "ScalingFailed", message)],
            ..healthy()
        }
    }

    fn with_machines(machines: Option<usize>) -> ClusterReport {
        let mut seen = assessment(5, 1);
        seen.machines = machines;
        report(Finding::Judged(Verdict::Healthy, Box::new(seen)))
    }

    fn seen(state: ClusterState) -> ClusterReport {
        with_view(view(state))
    }

    fn with_view(view: View) -> ClusterReport {
        ClusterReport {
            observed: Some(view),
            ..healthy()
        }
    }

    fn saying(message: &str) -> ClusterReport {
        with_view(View {
            message: message.to_owned(),
            ..view(Online)
        })
    }

    fn with_nodes(nodes: NodeCounts) -> ClusterReport {
        with_view(View {
            nodes: Some(nodes),
            ..view(Online)
        })
    }

    fn unhealthy(name: &str) -> NodeCounts {
        let mut nodes = NodeCounts {
            all: 3,
            well: 2,
            disk_pressure: 1,
            ..NodeCounts::default()
        };
        nodes.name(UnhealthyNode {
            name: name.to_owned(),
            problems: vec!["DiskPressure".to_owned()],
        });
        nodes
    }

    fn checked(checks: &[CheckStatus]) -> ClusterReport {
        ClusterReport {
            checks: checks.to_vec(),
            ..seen(Online)
        }
    }

    fn passing() -> CheckStatus {
        check("a", CheckResult::Passing)
    }

    #[rstest]
    #[case::state(seen(Online), seen(Degraded))]
    #[case::not_probed_any_more(seen(Online), healthy())]
    #[case::probed(healthy(), seen(Online))]
    #[case::nodes_not_seen(seen(Online), with_view(View { nodes: None, ..view(Online) }))]
    #[case::pressure(seen(Online), with_nodes(unhealthy("n")))]
    #[case::another_node(with_nodes(unhealthy("n")), with_nodes(unhealthy("m")))]
    #[case::not_ready(seen(Online), with_nodes(NodeCounts { all: 3, well: 2, not_ready: 1, ..NodeCounts::default() }))]
    #[case::a_first_check(checked(&[]), checked(&[passing()]))]
    #[case::another_check(checked(&[passing()]), checked(&[check("b", CheckResult::Passing)]))]
    #[case::result(checked(&[passing()]), checked(&[check("a", CheckResult::Failing)]))]
    #[case::role(
        checked(&[passing()]),
        checked(&[CheckStatus { role: Some(CheckRole::Gate), ..passing() }])
    )]
    #[case::held_back_now_and_then(
        unread(""),
        ClusterReport { held_back: Some(HeldBack::By("why")), ..healthy() }
    )]
    #[case::not_held_back_now_and_then(
        ClusterReport { held_back: Some(HeldBack::By("why")), ..healthy() },
        suspect(1)
    )]
    #[case::unread(healthy(), unread(""))]
    #[case::read_again(unread(""), healthy())]
    #[case::for_another_reason(
        unread(""),
        report(Finding::Unread { reason: "Timeout", message: String::new() })
    )]
    #[case::suspect(healthy(), suspect(1))]
    #[case::the_last_expired(healthy(), judged(Verdict::Healthy, 0))]
    #[case::machines(healthy(), with_machines(Some(4)))]
    #[case::no_outage_seen_any_more(judged(Verdict::Outage, 3), unread(""))]
    #[case::no_trigger_any_more(failing(""), healthy())]
    #[case::of_the_leases_beside(failing(""), report(triggered("", unread("").finding)))]
    fn what_is_observed_otherwise(#[case] said: ClusterReport, #[case] report: ClusterReport) {
        assert!(is_other_observation(&said, &report));
        // It is said, but not whatever it costs.
        assert!(!is_news(&said, &report));
    }

    #[rstest]
    #[case::the_same(seen(Online), seen(Online))]
    #[case::more_nodes(seen(Online), with_nodes(NodeCounts { all: 5, well: 5, ..NodeCounts::default() }))]
    #[case::words(saying("a"), saying("b"))]
    #[case::output(
        checked(&[passing()]),
        checked(&[CheckStatus { message: Some("out".into()), ..passing() }])
    )]
    #[case::since(checked(&[passing()]), checked(&[CheckStatus { since: None, ..passing() }]))]
    fn what_is_observed_the_same(#[case] said: ClusterReport, #[case] report: ClusterReport) {
        assert!(!is_other_observation(&said, &report));
        assert!(!is_news(&said, &report));
    }

    #[rstest]
    #[case::another_reason("no route to host", "connection refused", true)]
    #[case::counters("2 of 5 retries failed", "3 of 5 retries failed", false)]
    #[case::the_same("a", "a", false)]
    fn other_words_of_a_state(#[case] said: &str, #[case] now: &str, #[case] expected: bool) {
        assert_eq!(is_reworded(&saying(said), &saying(now)), expected);
    }

    #[rstest]
    #[case::another_reason("it has not been run yet", "no pod runs", true)]
    #[case::another_cause("it cannot be run: no such file", "it cannot be run: no right", false)]
    #[case::counters("failed 1 of 3 times: no", "failed 2 of 3 times: no", false)]
    fn other_words_of_what_tells_nothing(
        #[case] said: &str,
        #[case] now: &str,
        #[case] expected: bool,
    ) {
        let telling = |result, message: &str| {
            let message = Some(message.to_owned());
            checked(&[CheckStatus {
                message,
                ..check("a", result)
            }])
        };
        let is_told = |result| is_reworded(&telling(result, said), &telling(result, now));
        assert_eq!(is_told(CheckResult::Unknown), expected);
        assert!(!is_told(CheckResult::Failing));
    }

    #[rstest]
    #[case::probed_again(healthy(), ClusterReport { probed: Some(Timestamp::UNIX_EPOCH), ..healthy() })]
    #[case::other_counts(healthy(), judged(Verdict::Healthy, 2))]
    #[case::the_first_expired(judged(Verdict::Healthy, 0), healthy())]
    #[case::looked_at(healthy(), ClusterReport { looked_at: false, ..healthy() })]
    #[case::longer_suspect(suspect(1), suspect(2))]
    #[case::other_machines(with_machines(Some(4)), with_machines(Some(5)))]
    #[case::other_words(unread("the server said A"), unread("the server said B"))]
    #[case::other_output(failing("it said A"), failing("it said B"))]
    #[case::other_output_of_a_gate(gated("it said A"), gated("it said B"))]
    #[case::other_words_of_a_problem(problem("the seed said A"), problem("the seed said B"))]
    fn what_can_wait(#[case] said: ClusterReport, #[case] report: ClusterReport) {
        assert!(!is_news(&said, &report));
        assert!(!is_other_observation(&said, &report));
    }

    #[rstest]
    #[case::recreated(ClusterReport { uid: "another".into(), ..healthy() })]
    #[case::policy(ClusterReport { policy: None, ..healthy() })]
    #[case::mode(ClusterReport { mode: Mode::DryRun, ..healthy() })]
    #[case::protection(ClusterReport { protection: Protection::Active, ..healthy() })]
    #[case::since(ClusterReport { protected_since: Some(Timestamp::UNIX_EPOCH), ..healthy() })]
    #[case::overdue(ClusterReport { overdue: true, ..healthy() })]
    #[case::action(ClusterReport {
        last_action: Some(LastAction {
            time: Time(Timestamp::UNIX_EPOCH),
            action: Action::Restored,
            message: String::new(),
        }),
        ..healthy()
    })]
    #[case::held_back(ClusterReport { held_back: Some(HeldBack::By("why")), ..healthy() })]
    #[case::dependents(ClusterReport { dependents: vec![owed("kcm")], ..healthy() })]
    #[case::problem(problem(""))]
    #[case::outage(judged(Verdict::Outage, 1))]
    #[case::skipped(skipped(""))]
    #[case::triggered(failing(""))]
    #[case::gate(gated(""))]
    fn what_is_said_at_once(#[case] report: ClusterReport) {
        assert!(is_news(&healthy(), &report));
    }

    #[rstest]
    #[case::a_second(&[("kcm", "ScalingLate"), ("mcm", "ScalingLate")])]
    #[case::of_another(&[("mcm", "ScalingLate")])]
    #[case::for_another_reason(&[("kcm", "ScalingFailed")])]
    #[case::none_any_more(&[])]
    fn other_trouble_is_news(#[case] now: &[(&str, &'static str)]) {
        assert!(is_news(
            &problems(&[("kcm", "ScalingLate")]),
            &problems(now)
        ));
    }

    #[rstest]
    #[case::outage(judged(Verdict::Outage, 3))]
    #[case::triggered(failing(""))]
    fn an_outage_is_said_at_once_whatever_was_seen_before(
        #[case] outage: ClusterReport,
        #[values(
            healthy(),
            unread(""),
            suspect(1),
            skipped(""),
            report(Finding::Pending)
        )]
        said: ClusterReport,
    ) {
        assert!(is_news(&said, &outage));
    }

    #[test]
    fn that_a_cluster_is_probed_is_news() {
        assert!(is_news(&skipped(""), &healthy()));
        assert!(is_news(&report(Finding::Pending), &unread("")));
    }

    #[test]
    fn why_a_cluster_is_not_probed_is_news() {
        assert!(is_news(&skipped("to A"), &skipped("to B")));
    }

    #[rstest]
    #[case::same("a", "a", false)]
    #[case::counter("attempt 9 from port 40512", "attempt 10 from port 40612", false)]
    #[case::another_mistake("no server is named", "no user is named", true)]
    fn another_failure_of_the_same_reason(
        #[case] said: &str,
        #[case] now: &str,
        #[case] expected: bool,
    ) {
        for says in [unread, failing, gated, problem] {
            assert_eq!(is_reworded(&says(said), &says(now)), expected);
            assert!(!is_reworded(&says(said), &healthy()));
        }
    }

    #[test]
    fn another_number_in_a_remedy_of_ours_is_told() {
        let says = |message: &str| ClusterReport {
            problems: vec![fixtures::problem("kcm", "IgnoredAtZero", message)],
            ..healthy()
        };
        let [two, five] = ["--replicas=2", "--replicas=5"].map(says);
        assert!(is_reworded(&two, &five) && !is_reworded(&two, &two));
    }
}
