//! What a report says, as a table.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use super::{
    super::{
        finding::HeldBack,
        fixtures::{assessment, owed, problem, report},
    },
    *,
};
use crate::{
    prober::{
        nodes::Exclusion,
        verdict::{Doubt, Verdict, ZoneCount},
    },
    util::mono_time::MonoTime,
};

fn judged_as(verdict: Verdict, candidates: usize, expired: usize) -> ClusterReport {
    let mut seen = assessment(candidates, expired);
    seen.lacks_machines = false;
    // The others are of any cluster.
    seen.protected = verdict == doubt(Doubt::Recovering);
    report(Finding::Judged(verdict, Box::new(seen)))
}

const fn doubt(doubt: Doubt) -> Verdict {
    Verdict::Undetermined(doubt)
}

fn zone(name: Option<&str>, candidates: usize, expired: usize) -> ZoneCount {
    ZoneCount {
        name: name.map(Arc::from),
        candidates,
        expired,
    }
}

fn unread() -> ClusterReport {
    report(Finding::Unread {
        reason: "Timeout",
        message: "no answer".to_owned(),
    })
}

fn skipped(reason: &'static str) -> ClusterReport {
    report(Finding::Skipped {
        reason,
        message: "what was seen".to_owned(),
    })
}

/// The same of a cluster whose dependents are down.
fn protected(protection: Protection, report: ClusterReport) -> ClusterReport {
    ClusterReport {
        protection,
        protected_since: Some(Timestamp::UNIX_EPOCH),
        dependents: vec![owed("kcm"), owed("mcm")],
        ..report
    }
}

fn active(report: ClusterReport) -> ClusterReport {
    protected(Protection::Active, report)
}

fn dry_run(report: ClusterReport) -> ClusterReport {
    ClusterReport {
        mode: Mode::DryRun,
        ..report
    }
}

fn overdue(report: ClusterReport) -> ClusterReport {
    ClusterReport {
        overdue: true,
        ..active(report)
    }
}

/// A verdict with what else was seen.
fn seen(verdict: Verdict, change: impl FnOnce(&mut Assessment)) -> ClusterReport {
    let mut seen = assessment(5, 4);
    seen.lacks_machines = false;
    change(&mut seen);
    report(Finding::Judged(verdict, Box::new(seen)))
}

/// Renders a status: reason and message, then each condition, with its own message where that differs.
fn told(report: &ClusterReport) -> String {
    let status = status(report);
    let message = status.message.unwrap();
    let line = |it: &Condition| match message.contains(&it.message) {
        true => format!("{} {} {}", it.type_, it.status, it.reason),
        false => format!("{} {} {}: {}", it.type_, it.status, it.reason, it.message),
    };
    let conditions: Vec<String> = status.conditions.iter().map(line).collect();
    let skipped = status.skipped.map(|it| format!(" (skipped: {it})"));
    format!(
        "{}{}: {message}\n    {}",
        status.reason.unwrap(),
        skipped.unwrap_or_default(),
        conditions.join(", "),
    )
}

/// The reason, message and conditions of the status, for each finding.
#[test]
fn findings() {
    let healthy = || judged_as(Verdict::Healthy, 5, 0);
    let outage = || judged_as(Verdict::Outage, 5, 5);
    let unproven = doubt(Doubt::Unproven(MonoTime::from_nanos(0)));
    let zones = |seen: &mut Assessment| {
        seen.zones = vec![zone(Some("a"), 3, 3), zone(None, 2, 1)];
    };
    let reports = [
        healthy(),
        judged_as(Verdict::Healthy, 5, 2),
        judged_as(Verdict::Healthy, 0, 0),
        outage(),
        judged_as(unproven, 5, 3),
        judged_as(doubt(Doubt::FactsOutdated), 5, 3),
        judged_as(doubt(Doubt::NoWrites), 5, 3),
        judged_as(doubt(Doubt::Recovering), 5, 2),
        judged_as(doubt(Doubt::TooFewSilent), 1, 1),
        judged_as(doubt(Doubt::UnknownLeases), 5, 2),
        judged_as(doubt(Doubt::NoCandidates), 0, 0),
        seen(doubt(Doubt::NoCandidates), |seen| {
            (seen.candidates, seen.expired, seen.protected) = (0, 0, true);
            seen.alive = 3;
        }),
        seen(doubt(Doubt::NoCandidates), |seen| {
            (seen.candidates, seen.expired, seen.missing) = (0, 0, 3);
        }),
        seen(Verdict::Outage, zones),
        // As a rolling update shows it.
        seen(Verdict::Healthy, |seen| {
            seen.excluded = BTreeMap::from([(Exclusion::MachineTerminating, 7)]);
            (seen.counter_evidence, seen.needed) = (7, 6);
        }),
        seen(Verdict::Healthy, |seen| {
            seen.excluded = BTreeMap::from([(Exclusion::NoNode, 2), (Exclusion::NotManaged, 1)]);
            seen.lacks_machines = true;
        }),
        unread(),
        skipped("Hibernated"),
        // It may have to be probed; otherwise every cluster could be skipped like this and be green.
        skipped("Unreadable"),
        skipped("UnknownOperation"),
        protected(Protection::ScalingDown, outage()),
        active(outage()),
        protected(Protection::Restoring, healthy()),
        ClusterReport {
            let_go: Some(skipped("LiveMigrating").finding),
            ..active(unread())
        },
        // A person has to look: nothing restores its dependents.
        active(skipped("Hibernated")),
        active(skipped("Suspended")),
        ClusterReport {
            problems: vec![problem("ScalingForbidden", "patch is forbidden")],
            ..outage()
        },
        ClusterReport {
            held_back: Some(HeldBack::by("the policy's initialDelay has not passed yet")),
            ..outage()
        },
        ClusterReport {
            held_back: Some(HeldBack::gate("the Gate etcd fails: no leader")),
            ..overdue(healthy())
        },
        overdue(seen(Verdict::Outage, zones)),
        overdue(unread()),
        ClusterReport {
            dependents: vec![owed("kcm"), owed("mcm")],
            ..dry_run(outage())
        },
        dry_run(active(outage())),
        dry_run(active(healthy())),
    ];
    let told: Vec<String> = reports.iter().map(told).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    Healthy: none of 5 node leases is expired
        Ready True Healthy, Protecting False NotProtected, Degraded False AsExpected
    Healthy: 2 of 5 node leases that count are expired; 3 would be an outage
        Ready True Healthy, Protecting False NotProtected, Degraded False AsExpected
    Healthy: no node lease counts: there is nothing to protect
        Ready True Healthy, Protecting False NotProtected, Degraded False AsExpected
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes
        Ready True Outage, Protecting False NotProtected, Degraded False AsExpected
    Suspect: 3 of 5 node leases that count are expired, 0 more may be, and 3 are an outage; but the silence has not been watched for long enough yet: it must last for 1.5 renewal periods in which reads and writes succeed
        Ready True Suspect, Protecting False NotProtected, Degraded False AsExpected
    FactsOutdated: 3 of 5 node leases that count are expired, and 3 are an outage; but Nodes and Machines, which tell which of them count, were read too long before: they are read again
        Ready True FactsOutdated, Protecting False NotProtected, Degraded False AsExpected
    NoWrites: 3 of 5 node leases that count are expired, but nobody has written to the API server for a while, so that the silence of nodes says nothing: see whether its etcd accepts writes
        Ready False NoWrites, Protecting False NotProtected, Degraded True NoWrites
    Recovering: 2 of 5 node leases that count are expired, which is no outage any more; it is restored once fewer than 0 are, or may be (the policy's nodeLeaseRecoveryFraction)
        Ready True Recovering, Protecting False NotProtected, Degraded False AsExpected
    TooFewSilent: 1 of 1 node leases that count are expired, but fewer than 0 silent nodes are no evidence of a network (the policy's minimumSilentNodes)
        Ready False TooFewSilent, Protecting False NotProtected, Degraded True TooFewSilent
    LeasesUnknown: 2 of 5 node leases that count are expired, and of 0 it cannot be said: they lack a renewTime, when it was written is not known yet, or they are renewed too slowly for the grace, into which three renewals must fit (kcmNodeMonitorGraceDuration, the kubelets' nodeLeaseDurationSeconds)
        Ready False LeasesUnknown, Protecting False NotProtected, Degraded True LeasesUnknown
    NoCandidates: no node lease counts although there are nodes, so an outage could not be seen: see whether their Machines carry the label node, and which conditions the nodes have; Nodes and Machines are read again
        Ready False NoCandidates, Protecting False NotProtected, Degraded True NoCandidates
    NoCandidates: no node lease counts, which does not show that the outage is over: 3 nodes are meant to be alive, and once there is none it is over
        Ready False NoCandidates, Protecting False NotProtected, Degraded True NoCandidates
    NoCandidates: no node lease counts, and 3 nodes have none, so an outage could not be seen: see whether the namespace kube-node-lease is there, and kubelets may write to it
        Ready False NoCandidates, Protecting False NotProtected, Degraded True NoCandidates
    Outage: 4 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; zones: a 3 of 3, without a zone 1 of 2
        Ready True Outage, Protecting False NotProtected, Degraded False AsExpected
    Healthy: 4 of 5 node leases that count are expired; 6 would be an outage; leases that do not count: 7 with a Terminating Machine; 7 of these are fresh, which is evidence against an outage
        Ready True Healthy, Protecting False NotProtected, Degraded False AsExpected
    Healthy: 4 of 5 node leases that count are expired; 3 would be an outage; leases that do not count: 2 without a Node, 1 not managed by machine-controller-manager; the seed does not serve Machines, so their phases are not considered
        Ready True Healthy, Protecting False NotProtected, Degraded False AsExpected
    Timeout: no answer
        Ready False Timeout, Protecting False NotProtected, Degraded True Timeout
    Hibernated (skipped: Hibernated): what was seen
        Ready True Hibernated, Protecting False NotProtected, Degraded False AsExpected
    Unreadable (skipped: Unreadable): what was seen
        Ready False Unreadable, Protecting False NotProtected, Degraded True Unreadable
    UnknownOperation (skipped: UnknownOperation): what was seen
        Ready False UnknownOperation, Protecting False NotProtected, Degraded True UnknownOperation
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; its dependents are not all scaled down yet, only kcm, mcm
        Ready True Outage, Protecting True ScalingDown, Degraded False AsExpected
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; scaled to zero until the leases are fresh again: kcm, mcm
        Ready True Outage, Protecting True Protected, Degraded False AsExpected
    Healthy: none of 5 node leases is expired; not all restored yet: kcm, mcm
        Ready True Healthy, Protecting True Restoring, Degraded False AsExpected
    Timeout (skipped: LiveMigrating): no answer; scaled to zero until the leases are fresh again: kcm, mcm; it is let go once it is healthy: what was seen
        Ready False Timeout, Protecting True Protected, Degraded True Timeout
    Hibernated (skipped: Hibernated): what was seen; scaled to zero, and nothing restores them while the cluster is not probed: kcm, mcm
        Ready True Hibernated, Protecting True Protected, Degraded True ProtectedUnprobed
    Suspended (skipped: Suspended): what was seen; scaled to zero, and nothing restores them while the cluster is not probed: kcm, mcm
        Ready True Suspended, Protecting True Suspended, Degraded True ProtectedUnprobed
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; patch is forbidden
        Ready True Outage, Protecting False NotProtected, Degraded True ScalingForbidden
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; for now nothing is done: the policy's initialDelay has not passed yet
        Ready True Outage, Protecting False HeldBack, Degraded False AsExpected
    Healthy: none of 5 node leases is expired; scaled to zero: kcm, mcm; for now nothing is done: nothing is restored before each Gate passes, and the Gate etcd fails: no leader
        Ready True Healthy, Protecting True HeldBack, Degraded False AsExpected, ProtectedTooLong True ProtectedTooLong: its dependents are scaled down since 1970-01-01T00:00:00Z, so no silent node is replaced; somebody must look: nothing is restored before each Gate passes, and the Gate etcd fails: no leader; none of 5 node leases is expired
    Outage: 4 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; zones: a 3 of 3, without a zone 1 of 2; scaled to zero until the leases are fresh again: kcm, mcm
        Ready True Outage, Protecting True Protected, Degraded False AsExpected, ProtectedTooLong True ProtectedTooLong: its dependents are scaled down since 1970-01-01T00:00:00Z, so no silent node is replaced; somebody must look: a 3 of 3, without a zone 1 of 2 silent
    Timeout: no answer; scaled to zero until the leases are fresh again: kcm, mcm
        Ready False Timeout, Protecting True Protected, Degraded True Timeout, ProtectedTooLong True ProtectedTooLong: its dependents are scaled down since 1970-01-01T00:00:00Z, so no silent node is replaced; somebody must look: no answer
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; the mode is DryRun, so nothing is scaled; in Enforce, these would be scaled to zero: kcm, mcm
        Ready True Outage, Protecting False DryRun, Degraded False AsExpected
    Outage: 5 of 5 node leases that count are expired, and 3 are an outage; the API server answers and accepts writes; scaled to zero: kcm, mcm; the mode is DryRun, so they stay as they are, marked, until the dry run ends
        Ready True Outage, Protecting True DryRun, Degraded False AsExpected
    Healthy: none of 5 node leases is expired; scaled to zero: kcm, mcm; the mode is DryRun, so they stay as they are, marked, until the dry run ends
        Ready True Healthy, Protecting True DryRun, Degraded False AsExpected
    ");
}

#[test]
fn messages_are_bounded() {
    let status = status(&report(Finding::Unread {
        reason: "Unreadable",
        message: "x".repeat(100_000),
    }));
    assert!(status.message.unwrap().len() <= 5_000);
    assert!(status.conditions.iter().all(|c| c.message.len() <= 5_000));
}
