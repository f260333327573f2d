use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    super::fixtures::{self, assessment, check, closed, owed, report, said_of, view},
    *,
};
use crate::{
    api::{
        Action, CheckRole,
        ClusterState::{Degraded, Online},
        LastAction, Mode, Protection, UnhealthyNode,
    },
    observer::{NodeCounts, View},
    prober::verdict::Doubt,
    util::mono_time::MonoTime,
};

fn judged(verdict: Verdict, expired: usize) -> ClusterReport {
    report(Finding::Judged(verdict, Box::new(assessment(5, expired))))
}

fn healthy() -> ClusterReport {
    judged(Verdict::Healthy, 1)
}

fn outage() -> ClusterReport {
    judged(Verdict::Outage, 3)
}

fn suspect(until: i128) -> ClusterReport {
    let doubt = Doubt::Unproven(MonoTime::from_nanos(until));
    judged(Verdict::Undetermined(doubt), 3)
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

/// Healthy, but for this.
fn with(change: impl FnOnce(&mut ClusterReport)) -> ClusterReport {
    let mut report = healthy();
    change(&mut report);
    report
}

fn gated(why: &str) -> ClusterReport {
    with(|it| it.held_back = closed(why))
}

fn held_back() -> ClusterReport {
    with(|it| it.held_back = Some(HeldBack::By("why")))
}

/// A dependent is not where it should be.
fn trouble(name: &str, reason: &'static str, message: &str) -> ClusterReport {
    with(|it| it.problems = vec![fixtures::problem(name, reason, message)])
}

fn observed(change: impl FnOnce(&mut View)) -> ClusterReport {
    let mut observed = view(Online);
    change(&mut observed);
    with(|it| it.observed = Some(observed))
}

fn unhealthy(name: &str) -> ClusterReport {
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
    observed(|it| it.nodes = Some(nodes))
}

fn checked(result: CheckResult, message: &str) -> ClusterReport {
    let mut check = check("a", result);
    check.message = Some(message.to_owned());
    with(|it| it.checks = vec![check])
}

/// What is done, or would be, and why not.
#[test]
fn what_is_written_at_once() {
    let late = || trouble("kcm", "ScalingLate", "");
    let action = LastAction {
        time: Time(Timestamp::UNIX_EPOCH),
        action: Action::Restored,
        message: String::new(),
    };
    let mut both = late();
    both.problems
        .push(fixtures::problem("mcm", "ScalingLate", ""));
    let changes = [
        (healthy(), with(|it| it.policy = None)),
        (healthy(), with(|it| it.mode = Mode::DryRun)),
        (healthy(), with(|it| it.protection = Protection::Active)),
        (
            healthy(),
            with(|it| it.protected_since = Some(Timestamp::UNIX_EPOCH)),
        ),
        (healthy(), with(|it| it.overdue = true)),
        (healthy(), with(|it| it.last_action = Some(action))),
        (healthy(), with(|it| it.let_go = Some(skipped("").finding))),
        (healthy(), with(|it| it.dependents = vec![owed("kcm")])),
        (healthy(), held_back()),
        (healthy(), gated("")),
        (healthy(), outage()),
        (unread(""), outage()),
        (suspect(1), outage()),
        (skipped(""), outage()),
        (report(Finding::Pending), outage()),
        (report(Finding::Pending), unread("")),
        (healthy(), skipped("")),
        (skipped("to A"), skipped("to B")),
        (skipped(""), healthy()),
        (healthy(), late()),
        (late(), healthy()),
        (late(), both),
        (late(), trouble("mcm", "ScalingLate", "")),
        (late(), trouble("kcm", "ScalingFailed", "")),
    ];
    written(&changes, Some(Urgency::News));
}

/// What may come and go, of a thousand clusters at the same time.
#[test]
fn what_is_written_within_an_allowance() {
    let passing = || checked(CheckResult::Passing, "");
    let mut gate = passing();
    gate.checks[0].role = Some(CheckRole::Gate);
    let mut machines = assessment(5, 1);
    machines.lacks_machines = false;
    let none_counts = report(Finding::Judged(
        Verdict::Healthy,
        Box::new(assessment(0, 0)),
    ));
    let timeout = report(Finding::Unread {
        reason: "Timeout",
        message: String::new(),
    });
    let changes = [
        (observed(|_| ()), observed(|it| it.state = Degraded)),
        (observed(|_| ()), healthy()),
        (observed(|_| ()), observed(|it| it.nodes = None)),
        (observed(|_| ()), unhealthy("n")),
        (unhealthy("n"), unhealthy("m")),
        (healthy(), passing()),
        (passing(), checked(CheckResult::Failing, "")),
        (passing(), gate),
        // Without a verdict nothing is held back, which may be so every other time.
        (unread(""), held_back()),
        (held_back(), suspect(1)),
        (healthy(), unread("")),
        (unread(""), healthy()),
        (unread(""), timeout),
        (healthy(), suspect(1)),
        (outage(), unread("")),
        (healthy(), judged(Verdict::Healthy, 0)),
        (none_counts, judged(Verdict::Healthy, 0)),
        (
            healthy(),
            report(Finding::Judged(Verdict::Healthy, Box::new(machines))),
        ),
    ];
    written(&changes, Some(Urgency::Observed));
}

/// The same failure, of which a person may need the new words; numbers may be counters, ports or times.
#[test]
fn what_is_written_once_a_minute() {
    let failed = |message: &str| trouble("kcm", "ScalingFailed", message);
    let ignored = |message: &str| trouble("kcm", "IgnoredAtZero", message);
    let says = |message: &str| observed(|it| it.message = message.to_owned());
    let untold = |message: &str| checked(CheckResult::Unknown, message);
    let changes = [
        (unread("no server is named"), unread("no user is named")),
        (gated("no server is named"), gated("no user is named")),
        (failed("no server is named"), failed("no user is named")),
        (says("no route to host"), says("connection refused")),
        (untold("it has not been run yet"), untold("no pod runs")),
        // Here the number is the remedy.
        (ignored("--replicas=2"), ignored("--replicas=5")),
    ];
    written(&changes, Some(Urgency::Words));
}

#[test]
fn what_can_wait() {
    let failed = |message: &str| trouble("kcm", "ScalingFailed", message);
    let says = |message: &str| observed(|it| it.message = message.to_owned());
    let more = NodeCounts {
        all: 5,
        well: 5,
        ..NodeCounts::default()
    };
    let changes = [
        (healthy(), healthy()),
        (
            healthy(),
            with(|it| it.probed = Some(Timestamp::UNIX_EPOCH)),
        ),
        (healthy(), with(|it| it.looked_at = false)),
        (healthy(), judged(Verdict::Healthy, 2)),
        (judged(Verdict::Healthy, 0), healthy()),
        (suspect(1), suspect(2)),
        (observed(|_| ()), observed(|it| it.nodes = Some(more))),
        (says("2 of 5 retries failed"), says("3 of 5 retries failed")),
        (unread("attempt 9"), unread("attempt 10")),
        (gated("attempt 9"), gated("attempt 10")),
        (failed("attempt 9"), failed("attempt 10")),
        (
            checked(CheckResult::Failing, "a"),
            checked(CheckResult::Failing, "b"),
        ),
        (
            checked(CheckResult::Unknown, "it cannot be run: no file"),
            checked(CheckResult::Unknown, "it cannot be run: no right"),
        ),
    ];
    written(&changes, None);
}

/// The second report of each pair is written so over the first.
fn written(changes: &[(ClusterReport, ClusterReport)], expected: Option<Urgency>) {
    for (said, report) in changes {
        let found = urgency(&said_of(said), &said_of(report));
        assert_eq!(found, expected, "{said:?}\n{report:?}");
    }
}

/// A restart repeats no counts and times, and whatever else is different.
#[test]
fn what_an_earlier_run_has_left() {
    for (report, expected) in [
        (healthy(), false),
        (judged(Verdict::Healthy, 2), false),
        (judged(Verdict::Healthy, 0), true),
        (outage(), true),
        (observed(|_| ()), true),
        (trouble("kcm", "ScalingLate", ""), true),
    ] {
        let left = said_of(&healthy()).status;
        assert_eq!(differs(&left, &said_of(&report)), expected, "{report:?}");
    }
}
