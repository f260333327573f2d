//! Reports for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    ClusterReport,
    finding::{Finding, HeldBack},
    policy::{More, PolicyReport, RIGHTS},
    record::{Said, date},
    status::status,
};
use crate::{
    api::{
        self, CheckResult, CheckRole, CheckStatus, CheckType, ClusterHealthStatus, ClusterState,
        DependentRef, DependentStatus, Mode, ProbePolicyStatus, Protection,
    },
    cluster::PolicyHold,
    observer::{NodeCounts, View},
    prober::{dependents::Problem, verdict::Assessment},
    status::{policies::Policy, schedule::Schedule},
};

/// A report that says this and nothing else.
pub(super) fn report(finding: Finding) -> ClusterReport {
    ClusterReport {
        uid: "uid".into(),
        policy: Some("shoots".into()),
        mode: Mode::Enforce,
        finding,
        observed: None,
        checks: vec![],
        protection: Protection::None,
        protected_since: None,
        silent_since: None,
        grace: None,
        max_protection_reached: None,
        overdue: false,
        looked_at: true,
        last_action: None,
        awaits: None,
        held_back: None,
        let_go: None,
        dependents: vec![],
        problems: vec![],
        probed: None,
    }
}

/// A Gate does not pass.
pub(super) fn closed(why: &str) -> Option<HeldBack> {
    Some(HeldBack::Gate(why.to_owned()))
}

/// A check that has come to this, and has never been run if that is nothing.
pub(super) fn check(name: &str, result: CheckResult) -> CheckStatus {
    let since = match result {
        CheckResult::Unknown => None,
        _ => Some(Time(Timestamp::UNIX_EPOCH)),
    };
    CheckStatus {
        name: name.to_owned(),
        role: Some(CheckRole::Observe),
        r#type: CheckType::HttpGet,
        result,
        since,
        message: None,
    }
}

/// The state of a cluster of three nodes, none of them in trouble.
pub(super) fn view(state: ClusterState) -> View {
    View {
        state,
        message: "what was seen".to_owned(),
        nodes: Some(NodeCounts {
            all: 3,
            well: 3,
            ..NodeCounts::default()
        }),
        providers: vec![],
    }
}

/// This Deployment is not where it should be.
pub(super) fn problem(name: &str, reason: &'static str, message: &str) -> Problem {
    Problem {
        dependent: owed(name).r#ref,
        reason,
        message: message.to_owned(),
    }
}

/// A Deployment that is owed two replicas.
pub(super) fn owed(name: &str) -> DependentStatus {
    DependentStatus {
        r#ref: DependentRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        },
        recorded_replicas: Some(2),
        owed: true,
        keeps_mark: false,
        level: 0,
        initial_delay: api::Duration::from_secs(0),
        timeout: api::Duration::from_secs(30),
    }
}

/// So many leases that count, so many of them expired, of which 60 % are an outage.
pub(super) fn assessment(candidates: usize, expired: usize) -> Assessment {
    Assessment {
        candidates,
        expired,
        needed: candidates * 3 / 5,
        period: Duration::from_secs(10),
        lacks_machines: true,
        ..Assessment::default()
    }
}

/// A policy that selects these clusters, and nothing more.
pub(super) fn selecting(names: &[&str]) -> PolicyReport {
    PolicyReport {
        name: "shoots".into(),
        uid: "uid".into(),
        deleting: false,
        hold: PolicyHold::default(),
        held: false,
        generation: 1,
        problems: vec![],
        warnings: vec![],
        selected: names.iter().copied().map(Arc::from).collect(),
        kept: vec![],
        lost: BTreeMap::new(),
    }
}

/// A cluster that is not probed, for this reason.
pub(super) fn skipped(reason: &'static str) -> ClusterReport {
    let message = String::new();
    report(Finding::Skipped { reason, message })
}

/// The status of this report, written over the one before.
pub(super) fn written(
    report: &ClusterReport,
    before: &ClusterHealthStatus,
    now: Timestamp,
) -> ClusterHealthStatus {
    let mut status = status(report);
    date(&mut status, before, now);
    status
}

/// The same with its report.
pub(super) fn said_of(report: &ClusterReport) -> Said {
    let before = ClusterHealthStatus::default();
    Said {
        status: written(report, &before, Timestamp::UNIX_EPOCH),
        report: report.clone(),
    }
}

/// A policy with this status, for which rights are missing and that holds clusters.
pub(super) fn policy_of(
    report: &PolicyReport,
    status: &ProbePolicyStatus,
    missing: &[String],
    holding: BTreeSet<Arc<str>>,
) -> Policy<PolicyReport, More> {
    Policy {
        report: report.clone(),
        status: status.clone(),
        told: None,
        schedule: Schedule::idle(),
        more: More {
            holding,
            lacking: RIGHTS.lacking(missing),
            ..More::new(report.held, status)
        },
    }
}
