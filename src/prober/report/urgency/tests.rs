use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use rstest::rstest;

use super::{
    super::fixtures::{self, assessment, check, closed, owed, report, said_of, view},
    *,
};
use crate::{
    api::{
        Action, CheckResult, CheckRole,
        ClusterState::{self, Degraded, Online},
        LastAction, Mode, Protection, UnhealthyNode,
    },
    observer::{NodeCounts, View},
    prober::verdict::Doubt,
    util::mono_time::MonoTime,
};

fn urgency(said: &ClusterReport, report: &ClusterReport) -> Option<Urgency> {
    super::urgency(&said_of(said), &said_of(report))
}

fn is_news(said: &ClusterReport, report: &ClusterReport) -> bool {
    urgency(said, report) == Some(Urgency::News)
}

fn is_other_observation(said: &ClusterReport, report: &ClusterReport) -> bool {
    urgency(said, report) == Some(Urgency::Observed)
}

fn is_reworded(said: &ClusterReport, report: &ClusterReport) -> bool {
    urgency(said, report) == Some(Urgency::Words)
}

fn judged(verdict: Verdict, expired: usize) -> ClusterReport {
    report(Finding::Judged(verdict, Box::new(assessment(5, expired))))
}

fn healthy() -> ClusterReport {
    judged(Verdict::Healthy, 1)
}

fn suspect(until: i128) -> ClusterReport {
    let doubt = Doubt::Unproven(MonoTime::from_nanos(until));
    judged(Verdict::Undetermined(doubt), 3)
}

fn gated(why: &str) -> ClusterReport {
    ClusterReport {
        held_back: closed(why),
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
#[case::the_first_that_counts(
    report(Finding::Judged(Verdict::Healthy, Box::new(assessment(0, 0)))),
    judged(Verdict::Healthy, 0)
)]
#[case::machines(healthy(), with_machines(Some(4)))]
#[case::no_outage_seen_any_more(judged(Verdict::Outage, 3), unread(""))]
fn what_is_observed_otherwise(#[case] said: ClusterReport, #[case] report: ClusterReport) {
    assert!(is_other_observation(&said, &report));
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
#[case::other_output_of_a_gate(gated("it said A"), gated("it said B"))]
#[case::other_words_of_a_problem(problem("the seed said A"), problem("the seed said B"))]
fn what_can_wait(#[case] said: ClusterReport, #[case] report: ClusterReport) {
    assert!(!is_news(&said, &report));
    assert!(!is_other_observation(&said, &report));
}

#[rstest]
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
#[case::let_go(ClusterReport { let_go: Some(skipped("").finding), ..healthy() })]
#[case::dependents(ClusterReport { dependents: vec![owed("kcm")], ..healthy() })]
#[case::problem(problem(""))]
#[case::outage(judged(Verdict::Outage, 1))]
#[case::skipped(skipped(""))]
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
fn an_outage_is_said_at_once_whatever_was_seen_before(
    #[values(
        healthy(),
        unread(""),
        suspect(1),
        skipped(""),
        report(Finding::Pending)
    )]
    said: ClusterReport,
) {
    assert!(is_news(&said, &judged(Verdict::Outage, 3)));
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
    for says in [unread, gated, problem] {
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
