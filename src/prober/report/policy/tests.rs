//! A policy's conditions, by what its clusters report.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::{
    super::{
        ClusterReport,
        finding::Finding,
        fixtures::{assessment, owed, policy_of, problem, report, said_of, selecting, skipped},
    },
    *,
};
use crate::{
    api::{ClusterCounts, DependentStatus, Protection},
    cluster::PolicyHold,
    prober::verdict::{Doubt, Verdict},
    status::conditions::DEGRADED,
};

fn healthy() -> ClusterReport {
    report(Finding::Judged(
        Verdict::Healthy,
        Box::new(assessment(3, 0)),
    ))
}

fn protected() -> ClusterReport {
    ClusterReport {
        protection: Protection::Active,
        ..report(Finding::Judged(Verdict::Outage, Box::new(assessment(3, 3))))
    }
}

fn doubtful() -> ClusterReport {
    let verdict = Verdict::Undetermined(Doubt::NoWrites);
    report(Finding::Judged(verdict, Box::new(assessment(3, 3))))
}

fn unread() -> ClusterReport {
    report(Finding::Unread {
        reason: "ConnectionRefused",
        message: String::new(),
    })
}

fn pending() -> ClusterReport {
    report(Finding::Pending)
}

fn troubled() -> ClusterReport {
    ClusterReport {
        problems: vec![problem("kcm", "ScalingForbidden", "")],
        ..healthy()
    }
}

fn overdue() -> ClusterReport {
    ClusterReport {
        overdue: true,
        ..protected()
    }
}

fn owing() -> ClusterReport {
    let dependents: Vec<DependentStatus> = vec![owed("kcm")];
    ClusterReport {
        dependents,
        ..healthy()
    }
}

fn policy(selected: usize) -> PolicyReport {
    PolicyReport {
        generation: 7,
        selected: (0..selected).map(|n| format!("shoot-{n}").into()).collect(),
        ..selecting(&[])
    }
}

fn written(policy: &PolicyReport, reports: Vec<ClusterReport>) -> ProbePolicyStatus {
    written_by_one_that_lacks(&[], policy, reports)
}

/// By an operator that lacks these rights.
fn written_by_one_that_lacks(
    missing: &[String],
    policy: &PolicyReport,
    reports: Vec<ClusterReport>,
) -> ProbePolicyStatus {
    written_after(&ProbePolicyStatus::default(), missing, policy, reports)
}

/// After this status.
fn written_after(
    before: &ProbePolicyStatus,
    missing: &[String],
    policy: &PolicyReport,
    reports: Vec<ClusterReport>,
) -> ProbePolicyStatus {
    let clusters: BTreeMap<_, _> = policy
        .selected
        .iter()
        .chain(&policy.kept)
        .cloned()
        .zip(reports)
        .collect();
    let clusters: BTreeMap<_, _> = clusters
        .into_iter()
        .map(|(name, report)| (name, said_of(&report)))
        .collect();
    let of = |name: &str| {
        let seen = clusters.get(name)?;
        Some(Summary {
            looked_at: seen.report.looked_at,
            ..Summary::of(&seen.status)
        })
    };
    let holding = clusters.keys().filter(|name| {
        let seen = of(name).unwrap();
        seen.protected || policy.deleting && !seen.looked_at
    });
    let policy = policy_of(policy, before, missing, holding.cloned().collect());
    status(&policy, None, of, Timestamp::UNIX_EPOCH)
}

/// One that keeps the clusters of these names, and selects none.
fn keeping(kept: &[&str]) -> PolicyReport {
    PolicyReport {
        kept: kept.iter().copied().map(Arc::from).collect(),
        ..policy(0)
    }
}

fn condition<'a>(status: &'a ProbePolicyStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|c| c.type_ == kind)
}

/// Ready, Protecting and Degraded, as their status and reason.
#[rstest]
#[case::no_cluster(vec![], ["True Probing", "False NoOutage", "False AsExpected"])]
#[case::healthy(vec![healthy(), healthy()], ["True Probing", "False NoOutage", "False AsExpected"])]
#[case::protected(vec![healthy(), protected()], ["True Probing", "True Outage", "False AsExpected"])]
#[case::some_doubtful(vec![healthy(), doubtful()], ["True Probing", "False NoOutage", "True Undetermined"])]
#[case::all_blind(vec![unread(), doubtful()], ["False NothingJudged", "False NoOutage", "True Undetermined"])]
#[case::blind_but_for_skipped(vec![unread(), skipped("Hibernated")], ["False NothingJudged", "False NoOutage", "True Undetermined"])]
#[case::all_unreadable(vec![skipped("Unreadable"), skipped("Unreadable")], ["False NothingJudged", "False NoOutage", "True Undetermined"])]
#[case::unreadable_but_for_skipped(vec![skipped("Unreadable"), skipped("Hibernated")], ["False NothingJudged", "False NoOutage", "True Undetermined"])]
#[case::some_unreadable(vec![healthy(), skipped("Unreadable")], ["True Probing", "False NoOutage", "True Undetermined"])]
#[case::only_skipped(vec![skipped("Hibernated")], ["True Probing", "False NoOutage", "False AsExpected"])]
#[case::not_yet(vec![healthy(), pending()], ["False Reconciling", "False NoOutage", "False AsExpected"])]
#[case::trouble(vec![healthy(), troubled()], ["True Probing", "False NoOutage", "True ScalingTrouble"])]
#[case::too_long(vec![healthy(), overdue()], ["True Probing", "True Outage", "True ProtectedTooLong"])]
#[case::trouble_before_doubt(vec![doubtful(), troubled()], ["True Probing", "False NoOutage", "True ScalingTrouble"])]
#[case::too_long_before_all(vec![doubtful(), troubled(), overdue()], ["True Probing", "True Outage", "True ProtectedTooLong"])]
#[case::owed(vec![healthy(), owing()], ["True Probing", "True Outage", "False AsExpected"])]
fn conditions_follow_the_clusters(
    #[case] reports: Vec<ClusterReport>,
    #[case] expected: [&str; 3],
) {
    let status = written(&policy(reports.len()), reports);
    let found = [READY, PROTECTING, DEGRADED].map(|kind| {
        let condition = condition(&status, kind).unwrap();
        assert_eq!(condition.observed_generation, Some(7));
        format!("{} {}", condition.status, condition.reason)
    });
    assert_eq!(found, expected);
    let reconciling = condition(&status, RECONCILING).is_some();
    assert_eq!(reconciling, expected[0] == "False Reconciling");
    assert!(condition(&status, STALLED).is_none());
}

/// The status and reason of Ready.
fn readiness(status: &ProbePolicyStatus) -> String {
    let ready = condition(status, READY).unwrap();
    format!("{} {}", ready.status, ready.reason)
}

/// A status with this condition Ready, or with none.
fn said(ready: &str) -> ProbePolicyStatus {
    let ready = ready.split_once(' ').map(|(holds, reason)| Condition {
        type_: READY.to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: Some(6),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    });
    ProbePolicyStatus {
        conditions: ready.into_iter().collect(),
        ..ProbePolicyStatus::default()
    }
}

/// Ready before, and now.
#[rstest]
#[case::first("", vec![pending()], "False Reconciling")]
#[case::first_goes_on("False Reconciling", vec![healthy(), pending()], "False Reconciling")]
#[case::first_with_doubt("False Reconciling", vec![doubtful(), pending()], "False Reconciling")]
#[case::first_is_over("False Reconciling", vec![healthy(), doubtful()], "True Probing")]
#[case::one_of_two("True Probing", vec![healthy(), pending()], "True Probing")]
#[case::only_one("True Probing", vec![skipped("Hibernated"), pending()], "True Probing")]
#[case::beside_doubt("True Probing", vec![doubtful(), pending()], "True Probing")]
#[case::after_doubt("True Probing", vec![doubtful(), doubtful()], "False NothingJudged")]
#[case::after_a_hold("True Suspended", vec![pending(), pending()], "True Probing")]
#[case::none_judged("False NothingJudged", vec![doubtful(), pending()], "False NothingJudged")]
#[case::none_was_judged("False NothingJudged", vec![skipped("Hibernated"), pending()], "False Reconciling")]
#[case::one_is_again("False NothingJudged", vec![healthy(), pending()], "True Probing")]
#[case::corrected("False Invalid", vec![pending()], "False Reconciling")]
fn a_new_cluster_leaves_a_policy_as_ready_as_it_was(
    #[case] before: &str,
    #[case] reports: Vec<ClusterReport>,
    #[case] expected: &str,
) {
    let status = written_after(&said(before), &[], &policy(reports.len()), reports);
    assert_eq!(readiness(&status), expected);
}

/// It stays Ready, so that no tool waits forever.
#[rstest]
#[case::suspended(SUSPENDED, vec![skipped("Hibernated")], "True Suspended")]
#[case::just_suspended(SUSPENDED, vec![pending(), doubtful()], "True Suspended")]
#[case::suspended_in_dry_run(PolicyHold { dry_run: true, ..SUSPENDED }, vec![skipped("Hibernated")], "True Suspended")]
#[case::dry_run(DRY_RUN, vec![healthy()], "True DryRun")]
#[case::dry_run_of_nothing(DRY_RUN, vec![], "True DryRun")]
#[case::dry_run_begins(DRY_RUN, vec![pending()], "False Reconciling")]
#[case::dry_run_sees_nothing(DRY_RUN, vec![doubtful()], "False NothingJudged")]
fn a_policy_that_is_held_back_is_ready_and_says_so(
    #[case] hold: PolicyHold,
    #[case] reports: Vec<ClusterReport>,
    #[case] expected: &str,
) {
    let policy = PolicyReport {
        hold,
        ..policy(reports.len())
    };
    let status = written(&policy, reports);
    assert_eq!(readiness(&status), expected);
    let message = &condition(&status, READY).unwrap().message;
    let says = message.contains("no dependent is written to");
    assert_eq!(says, expected.starts_with("True"), "{message}");
    // What is wrong with it comes first.
    let invalid = PolicyReport {
        problems: vec!["spec.a: wrong".to_owned()],
        ..policy
    };
    assert_eq!(readiness(&written(&invalid, vec![])), "False Invalid");
}

#[test]
fn clusters_are_counted() {
    let reports = vec![
        healthy(),
        protected(),
        unread(),
        skipped("Hibernated"),
        pending(),
        skipped("Unreadable"),
    ];
    let status = written(&policy(6), reports);
    let expected = ClusterCounts {
        selected: 6,
        probing: 5,
        protected: 1,
        undetermined: 2,
        skipped: 1,
    };
    assert_eq!(status.clusters, expected);
    assert_eq!(status.protected_clusters, ["shoot-1"]);
}

#[test]
fn a_thousand_clusters_fit_into_a_status() {
    let reports = (0..1_000).map(|_| ClusterReport {
        protection: Protection::Active,
        ..unread()
    });
    let status = written(&policy(1_000), reports.collect());
    assert_eq!(status.clusters.protected, 1_000);
    assert_eq!(status.protected_clusters.len(), MAX_PROTECTED_NAMES);
    let degraded = condition(&status, DEGRADED).unwrap();
    assert!(
        degraded.message.contains("997 more"),
        "{}",
        degraded.message
    );
}

/// In its place among what else is amiss, and so that a successor finds it there.
#[rstest]
#[case::alone(vec![healthy()], "RightsMissing")]
#[case::before_doubt(vec![unread()], "RightsMissing")]
#[case::after_trouble(vec![troubled()], "ScalingTrouble")]
#[case::amid_all(vec![doubtful(), troubled(), overdue()], "ProtectedTooLong")]
fn rights_that_are_missing_are_told_and_found_again(
    #[case] reports: Vec<ClusterReport>,
    #[case] reason: &str,
    #[values(1, 8, 9, 64)] count: usize,
) {
    let policy = policy(reports.len());
    let missing: Vec<String> = (0..count).map(|n| format!("patch a/{n}")).collect();
    let without = written(&policy, reports.clone());
    assert_eq!(RIGHTS.told(&without.conditions), None);

    let status = written_by_one_that_lacks(&missing, &policy, reports);
    assert_eq!(condition(&status, DEGRADED).unwrap().reason, reason);
    let told = RIGHTS.lacking(&missing);
    assert_eq!(RIGHTS.told(&status.conditions), told.as_deref());
    let told = told.unwrap();
    assert!(told.contains("patch a/0"), "{told}");
    let more = format!("{} more", count - count.min(8));
    assert_eq!(told.ends_with(&more), count > 8, "{told}");
    assert_eq!(
        condition(&status, READY),
        condition(&without, READY),
        "it is as ready as before"
    );
}

const SUSPENDED: PolicyHold = PolicyHold {
    suspended: true,
    dry_run: false,
    undecodable: false,
};
const DRY_RUN: PolicyHold = PolicyHold {
    suspended: false,
    dry_run: true,
    ..SUSPENDED
};
const UNREADABLE: PolicyHold = PolicyHold {
    suspended: false,
    undecodable: true,
    ..SUSPENDED
};

/// The conditions with a message, for each state of a policy and its clusters.
#[test]
fn findings() {
    let held = |hold: PolicyHold| PolicyReport { hold, ..policy(2) };
    let kept = |hold: PolicyHold| PolicyReport {
        hold,
        held: true,
        ..keeping(&["a", "b"])
    };
    let deleting = |policy: PolicyReport| PolicyReport {
        deleting: true,
        ..policy
    };
    let invalid = PolicyReport {
        problems: vec!["spec.a: wrong".to_owned(), "spec.b: wrong".to_owned()],
        ..policy(0)
    };
    let warned = PolicyReport {
        warnings: vec!["the probe needs etcd-main".to_owned()],
        ..policy(1)
    };
    let outranked = PolicyReport {
        lost: BTreeMap::from([("first".into(), vec!["shoot-0".into(), "shoot-1".into()])]),
        ..policy(0)
    };
    let both = PolicyHold {
        dry_run: true,
        ..SUSPENDED
    };
    let unseen = ClusterReport {
        looked_at: false,
        ..healthy()
    };
    let new = vec![healthy(), doubtful(), pending(), pending()];
    let told = [
        written_after(&said("True Probing"), &[], &policy(4), new),
        written(&policy(3), vec![doubtful(), troubled(), overdue()]),
        written(&warned, vec![healthy()]),
        written(&outranked, vec![]),
        written(&invalid, vec![]),
        written(&held(SUSPENDED), vec![healthy(), protected()]),
        written(&held(DRY_RUN), vec![healthy(), protected()]),
        written(&held(UNREADABLE), vec![healthy(), protected()]),
        written(&held(DRY_RUN), vec![healthy(), healthy()]),
        written(&kept(PolicyHold::default()), vec![protected(), healthy()]),
        written(&kept(both), vec![protected(), healthy()]),
        written(
            &deleting(kept(PolicyHold::default())),
            vec![protected(), unseen],
        ),
        written(&deleting(kept(UNREADABLE)), vec![protected(), healthy()]),
        // One that has a problem goes as any other.
        written(&deleting(invalid), vec![]),
    ]
    .map(|status| {
        let said = status.conditions.iter().filter(|it| !it.message.is_empty());
        let line =
            |it: &Condition| format!("{} {} {}: {}", it.type_, it.status, it.reason, it.message);
        said.map(line).collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!(told.join("\n\n"), @r"
    Ready True Probing: 1 of 4 clusters that are to be probed are judged; 2 are new, and their first verdict is due
    Degraded True Undetermined: 1 of 4 clusters cannot be judged: shoot-1 (NoWrites)

    Ready True Probing: 2 of 3 clusters that are to be probed are judged
    Protecting True Outage: 1 clusters are protected: shoot-2
    Degraded True ProtectedTooLong: 1 clusters have been protected for too long: shoot-2; dependents of 1 clusters could not be scaled: shoot-1 (ScalingForbidden); 1 of 3 clusters cannot be judged: shoot-0 (NoWrites)

    Ready True Probing: 1 of 1 clusters that are to be probed are judged
    Degraded True NeededByProbe: the probe needs etcd-main

    Ready True Probing: the policy selects no cluster
    Conflicted True Outranked: 2 clusters that this policy selects are left to policies that come before it, by priority, age or name, or that applied last and cannot be read: first (2 clusters); narrow clusterSelector, change priority, or mend what cannot be read

    Ready False Invalid: spec.a: wrong; spec.b: wrong
    Stalled True Invalid: spec.a: wrong; spec.b: wrong

    Ready True Suspended: the policy is suspended: no cluster is probed and no dependent is written to; set spec.suspend to false to have it go on
    Protecting True Outage: 1 clusters are protected: shoot-1; none is restored while the policy is suspended: set spec.suspend to false
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the policy is suspended: set spec.suspend to false

    Ready True DryRun: dry run, by spec.mode or by --dry-run: no dependent is written to; 2 of 2 clusters that are to be probed are judged
    Protecting True Outage: 1 clusters are protected: shoot-1; none is restored while the mode is DryRun: set spec.mode to Enforce
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the mode is DryRun: set spec.mode to Enforce

    Ready True Probing: 2 of 2 clusters that are to be probed are judged
    Protecting True Outage: 1 clusters are protected: shoot-1; none is restored while the policy cannot be read: correct it, or have an operator of the version run that can
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the policy cannot be read: correct it, or have an operator of the version run that can

    Ready True DryRun: dry run, by spec.mode or by --dry-run: no dependent is written to; 2 of 2 clusters that are to be probed are judged

    Ready True Probing: the policy selects no cluster
    Protecting True Outage: 1 clusters are protected: a; not selected any more: a (Active, Outage); each is restored when its leases are fresh

    Ready True Suspended: the policy is suspended: no cluster is probed and no dependent is written to; set spec.suspend to false to have it go on
    Protecting True Outage: 1 clusters are protected: a; not selected any more: a (Active, Outage); none is restored while the policy is suspended and its mode is DryRun: set spec.suspend to false and spec.mode to Enforce
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the policy is suspended and its mode is DryRun: set spec.suspend to false and spec.mode to Enforce

    Ready False Deleting: the policy goes once 2 clusters are let go: a (Active, Outage), b (not looked at yet); each is restored when its leases are fresh; to let go of one by hand, annotate its dependents with dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get clusterhealth <cluster> -o yaml lists them with their replicas
    Reconciling True LettingGo: the policy goes once 2 clusters are let go: a (Active, Outage), b (not looked at yet); each is restored when its leases are fresh; to let go of one by hand, annotate its dependents with dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get clusterhealth <cluster> -o yaml lists them with their replicas
    Protecting True Outage: 1 clusters are protected: a; not selected any more: a (Active, Outage); each is restored when its leases are fresh

    Ready False Deleting: the policy goes once 1 clusters are let go: a (Active, Outage); none is restored while the policy cannot be read: correct it, or have an operator of the version run that can; to let go of one by hand, annotate its dependents with dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get clusterhealth <cluster> -o yaml lists them with their replicas
    Reconciling True LettingGo: the policy goes once 1 clusters are let go: a (Active, Outage); none is restored while the policy cannot be read: correct it, or have an operator of the version run that can; to let go of one by hand, annotate its dependents with dependency-watchdog.gardener.cloud/ignore-scaling=true and scale them: kubectl get clusterhealth <cluster> -o yaml lists them with their replicas
    Protecting True Outage: 1 clusters are protected: a; not selected any more: a (Active, Outage); none is restored while the policy cannot be read: correct it, or have an operator of the version run that can
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the policy cannot be read: correct it, or have an operator of the version run that can

    Ready False Deleting: the policy is being deleted, and holds nothing back
    ");
}

#[test]
fn clusters_that_fell_silent_at_once_are_told_where_they_belong() {
    let spread = Widespread {
        clusters: ["shoot-1".into(), "b".into(), "c".into()].into(),
        first: Timestamp::UNIX_EPOCH,
        probed: 4,
    };
    let tell = |policy: &PolicyReport, holding: &[&str]| {
        let before = ProbePolicyStatus::default();
        let holding = holding.iter().copied().map(Arc::from).collect();
        let policy = policy_of(policy, &before, &[], holding);
        let status = status(&policy, Some(&spread), |_| None, Timestamp::UNIX_EPOCH);
        condition(&status, WIDESPREAD_OUTAGE).map(|it| it.message.clone())
    };
    assert_eq!(tell(&policy(2), &[]), Some(spread.message()));
    assert_eq!(tell(&policy(0), &["b"]), Some(spread.message()));
    assert_eq!(tell(&policy(1), &["a"]), None);
}
