//! From a [`ClusterReport`] to the status of a ClusterHealth.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    ClusterReport,
    finding::{Finding, HEALTHY, PENDING, is_meant, judged, reason},
    wording,
};
use crate::{
    api::{
        Action, CheckResult, CheckStatus, ClusterHealthStatus, ClusterState, Duration, LastAction,
        LeaseCounts, Mode, OUTAGE, Protection,
    },
    observer::nodes::{DISK_PRESSURE, MEMORY_PRESSURE, NodeCounts, PID_PRESSURE},
    prober::verdict::Assessment,
    report::conditions::{self, DEGRADED, PROTECTED_TOO_LONG, PROTECTING, READY, condition},
};

/// Why a cluster is not probed whose policy is suspended.
const SUSPENDED: &str = "Suspended";
/// Reason of a restore that begins since the cluster was protected for as long as its policy's maxProtection allows.
const MAX_PROTECTION_REACHED: &str = "MaxProtectionReached";
/// A dependent waits for the nodes before it is restored.
const AWAITING_NODES: &str = "AwaitingNodes";
/// Why one is degraded that is protected and not probed.
pub(super) const PROTECTED_UNPROBED: &str = "ProtectedUnprobed";
/// The generation of each ClusterHealth: its spec is empty, so it never changes.
const GENERATION: i64 = 1;

/// The status that the report asks for, yet without times of transitions.
pub(super) fn status(report: &ClusterReport) -> ClusterHealthStatus {
    let reason = reason(&report.finding);
    let evidence = wording::evidence(&report.finding);
    let message = wording::message(report, &evidence);
    let observed = report.observed.as_ref();
    let state = observed.map(|view| view.state);
    let nodes = observed.and_then(|view| view.nodes.as_ref());
    let of_all = |of: fn(&NodeCounts) -> usize| nodes.map(|it| format!("{}/{}", of(it), it.all));
    ClusterHealthStatus {
        state,
        state_message: observed.map(|view| conditions::bounded(&view.message)),
        nodes: of_all(|nodes| nodes.well),
        nodes_pid_pressure: of_all(|nodes| nodes.with(PID_PRESSURE)),
        nodes_memory_pressure: of_all(|nodes| nodes.with(MEMORY_PRESSURE)),
        nodes_disk_pressure: of_all(|nodes| nodes.with(DISK_PRESSURE)),
        unhealthy_nodes: nodes
            .map(|nodes| nodes.unhealthy.clone())
            .unwrap_or_default(),
        checks: report.checks.clone(),
        protection: report.protection,
        policy: report.policy.as_deref().map(str::to_owned),
        skipped: match (&report.finding, &report.let_go) {
            (Finding::Skipped { reason, .. }, _) | (_, Some(Finding::Skipped { reason, .. })) => {
                Some((*reason).to_owned())
            }
            _ => None,
        },
        leases: match &report.finding {
            Finding::Judged(_, seen) => Some(counts(seen)),
            _ => None,
        },
        dependents: report.dependents.clone(),
        reason: Some(reason.to_owned()),
        conditions: wanted(report, reason, &evidence, &message),
        message: Some(conditions::bounded(&message)),
        protected_since: report.protected_since.map(Time),
        silent_since: report.silent_since.map(Time),
        node_monitor_grace_period: report.grace.map(Duration::from),
        max_protection_reached: report.max_protection_reached.map(Time),
        last_action: report.last_action.clone(),
        last_probe_time: report.probed.map(Time),
        ..ClusterHealthStatus::default()
    }
}

/// Returns whether all is known that a status tells. Until then, what an earlier run left may stand.
pub(super) fn is_complete(status: &ClusterHealthStatus) -> bool {
    let unrun = |it: &CheckStatus| it.result == CheckResult::Unknown && it.since.is_none();
    let reason = status.reason.as_deref();
    // A protected cluster has been found to be silent, and has to be again.
    let is_judged =
        status.protection == Protection::None || [Some(OUTAGE), Some(HEALTHY)].contains(&reason);
    reason != Some(PENDING)
        && is_judged
        && status.state != Some(ClusterState::Pending)
        && (status.state.is_none() || status.nodes.is_some())
        && !status.checks.iter().any(unrun)
}

fn wanted(
    report: &ClusterReport,
    reason: &'static str,
    evidence: &str,
    message: &str,
) -> Vec<Condition> {
    let is_ready = match &report.finding {
        Finding::Skipped { reason, .. } => is_meant(reason),
        finding => judged(finding),
    };
    let protected = report.protection != Protection::None;
    let degraded = match (report.problems.first(), &report.finding) {
        (Some(problem), _) => condition(DEGRADED, true, problem.reason, wording::problems(report)),
        (None, Finding::Skipped { .. }) if protected => {
            condition(DEGRADED, true, PROTECTED_UNPROBED, message)
        }
        (None, finding) if !is_ready && *finding != Finding::Pending => {
            condition(DEGRADED, true, reason, evidence)
        }
        (None, _) => condition(DEGRADED, false, "AsExpected", ""),
    };
    let too_long = report.overdue.then(|| {
        let message = wording::too_long(report, evidence);
        condition(PROTECTED_TOO_LONG, true, "ProtectedTooLong", message)
    });
    let ready = condition(READY, is_ready, reason, evidence);
    let always = [ready, protecting(report, message), degraded];
    let all = always.into_iter().chain(too_long);
    all.map(|it| Condition {
        observed_generation: Some(GENERATION),
        ..it
    })
    .collect()
}

fn protecting(report: &ClusterReport, message: &str) -> Condition {
    let holds = report.protection != Protection::None;
    let outage = reason(&report.finding) == OUTAGE;
    let reason = match (&report.finding, report.protection) {
        (Finding::Skipped { reason, .. }, _) if holds && *reason == SUSPENDED => SUSPENDED,
        _ if report.mode == Mode::DryRun && (holds || outage) => "DryRun",
        _ if let Some(held) = &report.held_back => held.reason,
        (_, Protection::None) => return unprotected(report.last_action.as_ref()),
        (_, Protection::ScalingDown) => "ScalingDown",
        (_, Protection::Active) => "Protected",
        (_, Protection::Restoring) if report.is_cut() => MAX_PROTECTION_REACHED,
        (_, Protection::Restoring) if report.awaits.is_some() => AWAITING_NODES,
        (_, Protection::Restoring) => "Restoring",
    };
    condition(PROTECTING, holds, reason, message)
}

/// Says by its reason what the last protection came to.
fn unprotected(last: Option<&LastAction>) -> Condition {
    let (reason, message) = match last.map(|last| (last.action, &*last.message)) {
        Some((Action::Restored, message)) => ("Restored", message),
        Some((Action::Released, message)) => ("Released", message),
        Some((Action::ScaledDown, _)) | None => ("NotProtected", ""),
    };
    condition(PROTECTING, false, reason, message)
}

fn counts(seen: &Assessment) -> LeaseCounts {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    LeaseCounts {
        candidates: count(seen.candidates),
        expired: count(seen.expired),
        unknown: count(seen.unknown),
    }
}

#[cfg(test)]
mod tests;
