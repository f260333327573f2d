//! What a report says, as a table, and what is worth a write.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use rstest::rstest;

use super::{
    super::{
        finding::HeldBack,
        fixtures::{self, assessment, check, closed, owed, problem, report, said_of, view},
        urgency,
    },
    *,
};
use crate::{
    api::{CheckResult, ClusterState, UnhealthyNode},
    observer::View,
    prober::{
        candidates::Exclusion,
        verdict::{Doubt, Verdict, ZoneCount},
    },
    util::mono_time::MonoTime,
};

/// The status of this report, written over the one before.
fn status(
    report: &ClusterReport,
    before: &ClusterHealthStatus,
    now: Timestamp,
) -> ClusterHealthStatus {
    fixtures::written(report, before, now)
}

fn differs(left: &ClusterReport, report: &ClusterReport) -> bool {
    urgency::differs(&written(left), &said_of(report))
}

fn condition<'a>(status: &'a ClusterHealthStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|c| c.type_ == kind).unwrap()
}

fn written(report: &ClusterReport) -> ClusterHealthStatus {
    status(
        report,
        &ClusterHealthStatus::default(),
        Timestamp::UNIX_EPOCH,
    )
}

fn judged_as(verdict: Verdict, candidates: usize, expired: usize) -> ClusterReport {
    let mut seen = assessment(candidates, expired);
    // The others are of any cluster.
    seen.protected = verdict == doubt(Doubt::Recovering);
    report(Finding::Judged(verdict, Box::new(seen)))
}

const fn doubt(doubt: Doubt) -> Verdict {
    Verdict::Undetermined(doubt)
}

#[rstest]
#[case::fresh(
    Verdict::Healthy,
    5,
    0,
    "Healthy",
    "True",
    "False",
    "none of 5 node leases is expired"
)]
#[case::some(Verdict::Healthy, 5, 2, "Healthy", "True", "False", "2 of 5")]
#[case::nothing_counts(
    Verdict::Healthy,
    0,
    0,
    "Healthy",
    "True",
    "False",
    "nothing to protect"
)]
#[case::outage(Verdict::Outage, 5, 3, "Outage", "True", "False", "3 of 5")]
#[case::suspect(
    doubt(Doubt::Unproven(MonoTime::from_nanos(0))),
    5,
    3,
    "Suspect",
    "True",
    "False",
    "1.5 renewal periods"
)]
#[case::outdated(
    doubt(Doubt::FactsOutdated),
    5,
    3,
    "FactsOutdated",
    "True",
    "False",
    "are read again"
)]
#[case::no_writes(
    doubt(Doubt::NoWrites),
    5,
    3,
    "NoWrites",
    "False",
    "True",
    "etcd accepts writes"
)]
#[case::recovering(
    doubt(Doubt::Recovering),
    5,
    2,
    "Recovering",
    "True",
    "False",
    "no outage any more; it is restored once fewer than"
)]
#[case::single(
    doubt(Doubt::TooFewSilent),
    1,
    1,
    "TooFewSilent",
    "False",
    "True",
    "no evidence of a network"
)]
#[case::unknown(
    doubt(Doubt::UnknownLeases),
    5,
    2,
    "LeasesUnknown",
    "False",
    "True",
    "lack a renewTime"
)]
#[case::slow(
    doubt(Doubt::LeaseTooSlow),
    5,
    0,
    "LeaseTooSlow",
    "False",
    "True",
    "kcmNodeMonitorGraceDuration"
)]
#[case::none_left(
    doubt(Doubt::NoCandidates),
    0,
    0,
    "NoCandidates",
    "False",
    "True",
    "an outage could not be seen"
)]
fn every_verdict_has_a_reason_and_a_sentence(
    #[case] verdict: Verdict,
    #[case] candidates: usize,
    #[case] expired: usize,
    #[case] reason: &str,
    #[case] ready: &str,
    #[case] degraded: &str,
    #[case] says: &str,
) {
    let status = written(&judged_as(verdict, candidates, expired));
    assert_eq!(status.reason.as_deref(), Some(reason));
    let message = status.message.as_deref().unwrap();
    assert!(message.contains(says), "{message}");
    assert_eq!(condition(&status, READY).status, ready);
    assert_eq!(condition(&status, DEGRADED).status, degraded);
    assert_eq!(condition(&status, PROTECTING).status, "False");
    let leases = status.leases.unwrap();
    assert_eq!(leases.candidates, i32::try_from(candidates).unwrap());
    assert_eq!(leases.expired, i32::try_from(expired).unwrap());
}

#[test]
fn a_protected_cluster_without_candidates_is_not_over() {
    let mut seen = assessment(0, 0);
    seen.protected = true;
    let finding = Finding::Judged(doubt(Doubt::NoCandidates), Box::new(seen));
    let message = written(&report(finding)).message.unwrap();
    assert!(
        message.contains("does not show that the outage is over"),
        "{message}"
    );
}

/// As a rolling update shows it.
#[test]
fn evidence_against_an_outage_is_named() {
    let mut seen = assessment(3, 2);
    seen.needed = 6;
    seen.excluded = BTreeMap::from([(Exclusion::MachineTerminating, 7)]);
    seen.counter_evidence = 7;
    seen.machines = Some(10);
    let finding = Finding::Judged(Verdict::Healthy, Box::new(seen));
    let message = written(&report(finding)).message.unwrap();
    assert_eq!(
        message,
        "2 of 3 node leases that count are expired; 6 would be an outage; leases that do not count: \
         7 with a Terminating Machine; 7 of these are fresh, which is evidence against an outage"
    );
}

#[test]
fn what_is_not_probed_says_why_and_is_not_degraded() {
    let status = written(&report(Finding::Skipped {
        reason: "Hibernated",
        message: "spec.hibernation.enabled is true".to_owned(),
    }));
    assert_eq!(status.skipped.as_deref(), Some("Hibernated"));
    assert_eq!(status.leases, None);
    assert_eq!(condition(&status, READY).status, "True");
    assert_eq!(condition(&status, DEGRADED).status, "False");
}

/// It may have to be probed; otherwise every cluster could be skipped like this and be green.
#[rstest]
#[case("Unreadable")]
#[case("UnknownOperation")]
fn a_cluster_that_may_have_to_be_probed_is_not_ready(#[case] reason: &'static str) {
    let status = written(&report(Finding::Skipped {
        reason,
        message: "spec.shoot.spec: no map".to_owned(),
    }));
    assert_eq!(status.skipped.as_deref(), Some(reason));
    for (kind, expected) in [(READY, "False"), (DEGRADED, "True")] {
        let condition = condition(&status, kind);
        assert_eq!(condition.status, expected, "{kind}");
        assert_eq!(condition.reason, reason, "{kind}");
        assert!(condition.message.contains("spec.shoot.spec"), "{kind}");
    }
}

#[test]
fn what_cannot_be_read_is_neither_ready_nor_silent() {
    let status = written(&report(Finding::Unread {
        reason: "SecretMissing",
        message: "the Secret a/b does not exist".to_owned(),
    }));
    assert_eq!(status.reason.as_deref(), Some("SecretMissing"));
    assert_eq!(condition(&status, READY).status, "False");
    assert_eq!(condition(&status, DEGRADED).status, "True");
    assert!(condition(&status, DEGRADED).message.contains("a/b"));
}

#[rstest]
#[case(
    Protection::ScalingDown,
    "ScalingDown",
    "not all scaled down yet, only"
)]
#[case(
    Protection::Active,
    "Protected",
    "scaled to zero until the leases are fresh again: kcm, mcm"
)]
#[case(Protection::Restoring, "Restoring", "not all restored yet: kcm, mcm")]
fn a_protection_names_what_is_owed(
    #[case] protection: Protection,
    #[case] reason: &str,
    #[case] says: &str,
) {
    let status = written(&ClusterReport {
        protection,
        dependents: vec![owed("kcm"), owed("mcm")],
        ..judged_as(Verdict::Outage, 5, 5)
    });
    let protecting = condition(&status, PROTECTING);
    assert_eq!((&*protecting.status, &*protecting.reason), ("True", reason));
    assert!(protecting.message.contains(says), "{}", protecting.message);
    assert_eq!(
        status.last_transition_time,
        Some(Time(Timestamp::UNIX_EPOCH))
    );
}

/// Whatever is found of its leases.
#[rstest]
#[case(judged_as(Verdict::Outage, 5, 5), "Outage")]
#[case(
    report(Finding::Unread { reason: "Timeout", message: "no answer".to_owned() }),
    "Timeout"
)]
fn a_cluster_that_is_let_go_says_why(#[case] found: ClusterReport, #[case] reason: &str) {
    let status = written(&ClusterReport {
        protection: Protection::Active,
        dependents: vec![owed("kcm")],
        let_go: Some(Finding::Skipped {
            reason: "LiveMigrating",
            message: "lastOperation is LiveMigrate".to_owned(),
        }),
        ..found
    });
    assert_eq!(status.reason.as_deref(), Some(reason));
    assert_eq!(status.skipped.as_deref(), Some("LiveMigrating"));
    let message = status.message.unwrap();
    assert!(
        message.ends_with("let go once it is healthy: lastOperation is LiveMigrate"),
        "{message}"
    );
}

/// Nobody would look, if it were green.
#[test]
fn a_protected_cluster_that_is_not_probed_is_degraded() {
    let status = written(&ClusterReport {
        protection: Protection::Active,
        dependents: vec![owed("kcm")],
        ..report(Finding::Skipped {
            reason: "Hibernated",
            message: "spec.hibernation.enabled is true".to_owned(),
        })
    });
    assert_eq!(condition(&status, DEGRADED).reason, "ProtectedUnprobed");
    let message = status.message.unwrap();
    assert!(
        message.contains("nothing restores them while the cluster is not probed: kcm"),
        "{message}"
    );
}

#[test]
fn trouble_with_a_dependent_degrades_without_hiding_the_verdict() {
    let status = written(&ClusterReport {
        problems: vec![problem(
            "kcm",
            "ScalingForbidden",
            "apps/v1 Deployment/kcm: patch is forbidden",
        )],
        ..judged_as(Verdict::Outage, 5, 5)
    });
    assert_eq!(status.reason.as_deref(), Some("Outage"));
    assert_eq!(condition(&status, DEGRADED).reason, "ScalingForbidden");
    assert!(status.message.unwrap().contains("patch is forbidden"));
}

#[test]
fn what_is_held_back_says_why() {
    let held_back = written(&ClusterReport {
        held_back: Some(HeldBack::By("the policy's initialDelay has not passed yet")),
        ..judged_as(Verdict::Outage, 5, 5)
    });
    assert_eq!(condition(&held_back, PROTECTING).reason, "HeldBack");
    assert_eq!(condition(&held_back, PROTECTING).status, "False");
    assert!(held_back.message.unwrap().contains("initialDelay"));
}

#[test]
fn a_check_that_holds_a_restore_back_is_named_also_when_it_lasts_too_long() {
    let healthy = judged_as(Verdict::Healthy, 5, 0);
    let status = written(&ClusterReport {
        protection: Protection::Active,
        overdue: true,
        dependents: vec![owed("kcm")],
        held_back: closed("the Gate etcd fails: no leader"),
        ..healthy
    });
    let protecting = condition(&status, PROTECTING);
    assert_eq!(
        (&*protecting.status, &*protecting.reason),
        ("True", "HeldBack")
    );
    let why = "nothing is restored before each Gate passes, and the Gate etcd fails: no leader";
    for message in [
        &status.message.clone().unwrap(),
        &protecting.message,
        &condition(&status, PROTECTED_TOO_LONG).message,
    ] {
        assert!(message.contains(why), "{message}");
    }
}

/// What a policy that scales nothing says of an outage, and of what is scaled down already.
#[rstest]
#[case::outage(
    judged_as(Verdict::Outage, 5, 5),
    Protection::None,
    "False DryRun",
    "in Enforce, these would be scaled to zero: kcm, mcm"
)]
#[case::healthy(
    judged_as(Verdict::Healthy, 5, 0),
    Protection::None,
    "False NotProtected",
    ""
)]
#[case::protected(
    judged_as(Verdict::Outage, 5, 5),
    Protection::Active,
    "True DryRun",
    "scaled to zero: kcm, mcm; the mode is DryRun, so they stay as they are, marked"
)]
#[case::protected_and_healthy(
    judged_as(Verdict::Healthy, 5, 0),
    Protection::Active,
    "True DryRun",
    "stay as they are, marked"
)]
#[case::suspended(
    suspended(),
    Protection::Active,
    "True Suspended",
    "nothing restores them while the cluster is not probed: kcm, mcm"
)]
#[case::suspended_at_rest(suspended(), Protection::None, "False NotProtected", "")]
fn a_policy_that_scales_nothing_says_what_it_would_do(
    #[case] report: ClusterReport,
    #[case] protection: Protection,
    #[case] expected: &str,
    #[case] says: &str,
) {
    let mode = match &report.finding {
        Finding::Skipped { .. } => Mode::Enforce,
        _ => Mode::DryRun,
    };
    let status = written(&ClusterReport {
        mode,
        protection,
        dependents: vec![owed("kcm"), owed("mcm")],
        ..report
    });
    let protecting = condition(&status, PROTECTING);
    assert_eq!(
        format!("{} {}", protecting.status, protecting.reason),
        expected
    );
    assert!(protecting.message.contains(says), "{}", protecting.message);
}

fn suspended() -> ClusterReport {
    report(Finding::Skipped {
        reason: "Suspended",
        message: "the policy p is suspended".to_owned(),
    })
}

fn zone(name: Option<&str>, candidates: usize, expired: usize) -> ZoneCount {
    ZoneCount {
        name: name.map(Box::from),
        candidates,
        expired,
    }
}

#[test]
fn what_is_silent_is_told_by_zone() {
    let mut seen = assessment(7, 4);
    seen.zones = vec![
        zone(Some("a"), 3, 3),
        zone(Some("b"), 2, 0),
        zone(None, 2, 1),
    ];
    let doubt = Doubt::Unproven(MonoTime::from_nanos(0));
    for verdict in [
        Verdict::Outage,
        Verdict::Healthy,
        Verdict::Undetermined(doubt),
    ] {
        let status = written(&report(Finding::Judged(verdict, Box::new(seen.clone()))));
        let message = status.message.unwrap();
        assert!(
            message.contains("; zones: a 3 of 3, b 0 of 2, without a zone 1 of 2"),
            "{message}"
        );
    }
}

#[test]
fn a_thousand_zones_are_told_in_part() {
    let mut seen = assessment(7, 4);
    seen.zones = (0..1_000)
        .map(|index| zone(Some(&format!("z{index}")), 1, 1))
        .collect();
    let status = written(&report(Finding::Judged(Verdict::Outage, Box::new(seen))));
    let message = status.message.unwrap();
    assert!(message.contains("z11 1 of 1 and 988 more"), "{message}");
}

#[test]
fn a_protection_that_is_too_long_says_since_when_and_where() {
    let mut seen = assessment(15, 10);
    seen.zones = vec![zone(Some("a"), 10, 10), zone(Some("b"), 5, 0)];
    let overdue = ClusterReport {
        protection: Protection::Active,
        protected_since: Some(Timestamp::UNIX_EPOCH),
        overdue: true,
        dependents: vec![owed("kcm")],
        ..report(Finding::Judged(Verdict::Outage, Box::new(seen)))
    };
    let status = written(&overdue);
    let too_long = condition(&status, PROTECTED_TOO_LONG);
    assert_eq!(too_long.status, "True");
    for part in [
        "since 1970-01-01T00:00:00Z,",
        ": a 10 of 10, b 0 of 5 silent",
    ] {
        assert!(too_long.message.contains(part), "{}", too_long.message);
    }
    // Where it cannot be seen who is silent, that is said.
    let unread = written(&ClusterReport {
        finding: Finding::Unread {
            reason: "Timeout",
            message: "no answer".to_owned(),
        },
        ..overdue
    });
    let too_long = condition(&unread, PROTECTED_TOO_LONG);
    assert!(
        too_long.message.ends_with("no answer"),
        "{}",
        too_long.message
    );
    let sound = written(&judged_as(Verdict::Healthy, 5, 0));
    assert!(
        sound
            .conditions
            .iter()
            .all(|it| it.type_ != PROTECTED_TOO_LONG)
    );
}

#[test]
fn leases_that_do_not_count_are_told_by_reason() {
    let mut seen = assessment(3, 0);
    seen.excluded = BTreeMap::from([(Exclusion::NoNode, 2), (Exclusion::NotManaged, 1)]);
    let status = written(&report(Finding::Judged(Verdict::Healthy, Box::new(seen))));
    let message = status.message.unwrap();
    assert!(
        message.contains("2 without a Node, 1 not managed by"),
        "{message}"
    );
    assert!(message.contains("does not serve Machines"), "{message}");
}

#[test]
fn counts_and_times_alone_are_not_worth_a_write() {
    let before = written(&judged_as(Verdict::Healthy, 5, 0));
    let later = Timestamp::from_second(100).unwrap();
    let report = ClusterReport {
        probed: Some(later),
        ..judged_as(Verdict::Healthy, 6, 1)
    };
    let after = status(&report, &before, later);
    assert_ne!(before, after);
    assert!(!differs(&judged_as(Verdict::Healthy, 5, 0), &report));
    assert_eq!(
        condition(&after, READY).last_transition_time,
        condition(&before, READY).last_transition_time,
    );
}

#[rstest]
#[case::verdict(judged_as(Verdict::Outage, 5, 3))]
#[case::policy(ClusterReport { policy: Some("another".into()), ..judged_as(Verdict::Healthy, 5, 0) })]
#[case::protection(ClusterReport { protection: Protection::Restoring, ..judged_as(Verdict::Healthy, 5, 0) })]
#[case::dependents(ClusterReport { dependents: vec![owed("kcm")], ..judged_as(Verdict::Healthy, 5, 0) })]
#[case::problems(ClusterReport {
    problems: vec![problem("kcm", "ScalingLate", "")],
    ..judged_as(Verdict::Healthy, 5, 0)
})]
fn news_are_worth_a_write(#[case] report: ClusterReport) {
    assert!(differs(&judged_as(Verdict::Healthy, 5, 0), &report));
}

#[test]
fn the_last_expired_lease_is_worth_a_write_when_it_is_fresh_again() {
    let [one, none] = [1, 0].map(|expired| judged_as(Verdict::Healthy, 5, expired));
    assert!(differs(&one, &none));
    assert!(!differs(&none, &one));
}

fn observed(view: View) -> ClusterReport {
    ClusterReport {
        observed: Some(view),
        ..judged_as(Verdict::Healthy, 5, 0)
    }
}

/// One node of three is not ready, another runs out of disk and memory.
fn in_trouble() -> NodeCounts {
    let mut nodes = NodeCounts {
        all: 3,
        well: 1,
        not_ready: 1,
        memory_pressure: 1,
        disk_pressure: 1,
        ..NodeCounts::default()
    };
    nodes.name(UnhealthyNode {
        name: "n2".to_owned(),
        problems: vec!["NotReady".to_owned()],
    });
    nodes.name(UnhealthyNode {
        name: "n1".to_owned(),
        problems: vec!["MemoryPressure".to_owned(), "DiskPressure".to_owned()],
    });
    nodes
}

#[test]
fn what_is_observed_is_shown() {
    let status = written(&ClusterReport {
        checks: vec![check("a", CheckResult::Failing)],
        ..observed(View {
            nodes: Some(in_trouble()),
            ..view(ClusterState::NotReady)
        })
    });
    assert_eq!(status.state, Some(ClusterState::NotReady));
    assert_eq!(status.state_message.as_deref(), Some("what was seen"));
    let counts = [
        &status.nodes,
        &status.nodes_pid_pressure,
        &status.nodes_memory_pressure,
        &status.nodes_disk_pressure,
    ];
    let counts = counts.map(|it| it.as_deref().unwrap());
    assert_eq!(counts, ["1/3", "0/3", "1/3", "1/3"]);
    let names = status.unhealthy_nodes.iter().map(|it| &*it.name);
    assert!(names.eq(["n1", "n2"]));
    assert_eq!(status.checks, [check("a", CheckResult::Failing)]);
    // What is not probed is in no state.
    let skipped = written(&suspended());
    assert_eq!(
        (skipped.state, skipped.state_message, skipped.nodes),
        (None, None, None)
    );
    assert_eq!(skipped.last_state_transition_time, None);
}

#[test]
fn a_state_has_its_time() {
    let time = |second| Some(Time(Timestamp::from_second(second).unwrap()));
    let mut before = ClusterHealthStatus::default();
    for (second, state, since) in [
        (1, ClusterState::Online, 1),
        (2, ClusterState::Online, 1),
        (3, ClusterState::Degraded, 3),
        (4, ClusterState::Online, 4),
    ] {
        let now = Timestamp::from_second(second).unwrap();
        before = status(&observed(view(state)), &before, now);
        assert_eq!(before.last_state_transition_time, time(since), "{second}");
        // That of the protection is another.
        assert_eq!(before.last_transition_time, None);
    }
}

#[rstest]
#[case::state(observed(view(ClusterState::Degraded)), true)]
#[case::nodes(
    observed(View { nodes: Some(in_trouble()), ..view(ClusterState::Online) }), true
)]
#[case::check(
    ClusterReport {
        checks: vec![check("a", CheckResult::Failing)],
        ..observed(view(ClusterState::Online))
    },
    true
)]
#[case::words(
    observed(View { message: "other words".into(), ..view(ClusterState::Online) }), false
)]
#[case::the_same(observed(view(ClusterState::Online)), false)]
fn what_is_left_is_written_anew_if_it_is_otherwise(
    #[case] report: ClusterReport,
    #[case] expected: bool,
) {
    let left = observed(view(ClusterState::Online));
    assert_eq!(differs(&left, &report), expected);
}

#[test]
fn messages_are_bounded() {
    let status = written(&report(Finding::Unread {
        reason: "Unreadable",
        message: "x".repeat(100_000),
    }));
    assert!(status.message.unwrap().len() <= 5_000);
    assert!(status.conditions.iter().all(|c| c.message.len() <= 5_000));
}
