//! A policy's conditions, by what its clusters report.

use std::collections::BTreeMap;

use super::{
    super::{
        ClusterReport,
        finding::Finding,
        fixtures::{assessment, problem, report},
    },
    *,
};
use crate::{
    api::Protection,
    cluster::PolicyHold,
    prober::verdict::{Doubt, Verdict},
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
        reason: "Unreachable",
        message: String::new(),
    })
}

fn pending() -> ClusterReport {
    report(Finding::Pending)
}

fn troubled() -> ClusterReport {
    ClusterReport {
        problems: vec![problem("ScalingForbidden", "")],
        ..healthy()
    }
}

fn overdue() -> ClusterReport {
    ClusterReport {
        overdue: true,
        ..protected()
    }
}

/// A policy that selects so many clusters.
fn policy(selected: usize) -> PolicyView {
    PolicyView {
        policy: Policy {
            name: "shoots".into(),
            uid: "uid".into(),
            generation: 7,
            deleting: false,
            held: false,
            created: None,
            hold: PolicyHold::default(),
            rules: None,
            problems: vec![],
        },
        selected: (0..selected).map(|n| format!("shoot-{n}").into()).collect(),
        kept: vec![],
        lost: BTreeMap::new(),
    }
}

fn written(policy: &PolicyView, reports: Vec<ClusterReport>) -> ProbePolicyStatus {
    written_without(&[], policy, reports)
}

/// The status by an operator that lacks these rights.
fn written_without(
    missing: &[String],
    policy: &PolicyView,
    reports: Vec<ClusterReport>,
) -> ProbePolicyStatus {
    let names = policy.selected.iter().chain(&policy.kept).cloned();
    let briefs = reports
        .iter()
        .map(|it| Brief::of(&super::super::status::status(it), Some(it.looked_at)));
    let clusters: BTreeMap<_, _> = names.zip(briefs).collect();
    let holding = clusters
        .iter()
        .filter(|(_, it)| it.protected || policy.policy.deleting && it.looked_at != Some(true));
    let policy = Known {
        holding: holding.map(|(name, _)| name.clone()).collect(),
        lacking: lacking(missing),
        ..Known::new(policy.clone())
    };
    status(&policy, |name| clusters.get(name))
}

/// One that keeps the clusters of these names, and selects none.
fn keeping(kept: &[&str]) -> PolicyView {
    PolicyView {
        kept: kept.iter().copied().map(Arc::from).collect(),
        ..policy(0)
    }
}

fn condition<'a>(status: &'a ProbePolicyStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|c| c.type_ == kind)
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
    let held = |hold: PolicyHold| {
        let mut view = policy(2);
        view.policy.hold = hold;
        view
    };
    let kept = |hold: PolicyHold| {
        let mut view = keeping(&["a", "b"]);
        (view.policy.hold, view.policy.held) = (hold, true);
        view
    };
    let deleting = |mut view: PolicyView| {
        view.policy.deleting = true;
        view
    };
    let mut invalid = policy(0);
    invalid.policy.problems = ["spec.a: wrong", "spec.b: wrong"].map(str::to_owned).into();
    let outranked = PolicyView {
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
        written(&policy(4), new),
        written(&policy(3), vec![doubtful(), troubled(), overdue()]),
        written(&policy(2), vec![unread(), doubtful()]),
        written(&policy(3), vec![doubtful(), pending()]),
        written_without(&["patch a".to_owned()], &policy(1), vec![unread()]),
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
    Ready True Probing: 1 of 4 clusters that are to be probed are judged
    Degraded True Undetermined: 1 of 4 clusters cannot be judged: shoot-1 (NoWrites)

    Ready True Probing: 2 of 3 clusters that are to be probed are judged
    Protecting True Outage: 1 clusters are protected: shoot-2
    Degraded True ProtectedTooLong: 1 clusters have been protected for too long: shoot-2; dependents of 1 clusters could not be scaled: shoot-1 (ScalingForbidden); 1 of 3 clusters cannot be judged: shoot-0 (NoWrites)

    Ready True Probing: 0 of 2 clusters that are to be probed are judged
    Degraded True NothingJudged: none of 2 clusters can be judged: shoot-0 (Unreachable), shoot-1 (NoWrites)

    Ready True Probing: 0 of 2 clusters that are to be probed are judged
    Degraded Unknown FirstVerdicts: 2 of 3 clusters have not been judged yet

    Ready True Probing: 0 of 1 clusters that are to be probed are judged
    Degraded True NothingJudged: none of 1 clusters can be judged: shoot-0 (Unreachable); the operator lacks rights that the policy calls for, grant them to its ServiceAccount as manifests/prober/rbac.yaml, and in manifests/examples other-dependents and exec-checks, do: patch a

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
    Protecting True Outage: 1 clusters are protected: a; not selected any more: a (Active, Outage); none is restored while the policy is suspended: set spec.suspend to false
    Degraded True NotRestored: 1 clusters stay protected: none is restored while the policy is suspended: set spec.suspend to false

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
