//! From a [`WeedReport`] to the status of a WeedPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DELETION_REFUSED, PODS_UNWATCHED, SERVICES_UNWATCHED, WeedReport, WeedTrouble};
use crate::{
    api::{MAX_LAST_WEEDS, MAX_LEFT_ALONE, Mode, ServiceCounts, WeedPolicyStatus},
    report::conditions::{self, DELETING, READY, STALLED, WEEDING, condition},
};

/// Most services, or failures, that a message names.
const EXAMPLES: usize = 3;

/// Reasons that keep pods from being deleted, from the gravest to the least, and how it is told.
const TROUBLES: [(&str, &str); 3] = [
    (
        SERVICES_UNWATCHED,
        "services cannot be watched, so that none is seen to recover",
    ),
    (
        PODS_UNWATCHED,
        "pods that need a service cannot be watched, so that none is deleted",
    ),
    (DELETION_REFUSED, "pods could not be deleted"),
];

/// The status that a policy asks for, without times of transitions.
pub(super) fn status(report: &WeedReport) -> WeedPolicyStatus {
    let generation = Some(report.policy.generation);
    let mut wanted = ready(report);
    wanted.push(weeding(report));
    wanted.push(degraded(report));
    for condition in &mut wanted {
        condition.observed_generation = generation;
    }
    WeedPolicyStatus {
        observed_generation: generation,
        services: ServiceCounts {
            watched: count(report.services),
            ready: count(report.ready),
        },
        open_windows: count(report.windows),
        weeded: report.weeded,
        last_weeds: first(&report.last_weeds, MAX_LAST_WEEDS),
        left_alone: first(&report.left_alone, MAX_LEFT_ALONE),
        conditions: wanted,
    }
}

/// The troubles with this reason.
fn of<'a>(report: &'a WeedReport, reason: &'a str) -> impl Iterator<Item = &'a WeedTrouble> {
    let troubles = report.troubles.iter();
    troubles.filter(move |trouble| trouble.reason == reason)
}

fn ready(report: &WeedReport) -> Vec<Condition> {
    let WeedReport {
        services, ready, ..
    } = *report;
    if report.policy.deleting {
        let message = "the policy is being deleted, and no pod is deleted for it any more";
        return vec![condition(READY, false, DELETING, message)];
    }
    if !report.policy.problems.is_empty() {
        let problems = report.policy.problems.join("; ");
        return vec![
            condition(READY, false, "Invalid", &*problems),
            condition(STALLED, true, "Invalid", problems),
        ];
    }
    if report.policy.suspend() {
        let message = "the policy is suspended: no service is watched and no pod deleted for it";
        return vec![condition(READY, true, "Suspended", message)];
    }
    if !report.listed {
        let message = "Namespaces, or the EndpointSlices of its services, have not been listed yet, so \
                       that no pod is deleted for those that were not known before; the log and \
                       /readyz of the weeder say why";
        return vec![condition(READY, false, "Listing", message)];
    }
    let message = if services == 0 {
        "no service of a name in the policy has an EndpointSlice in the namespaces that it selects"
            .to_owned()
    } else if ready >= services {
        match services {
            1 => "the only service is ready".to_owned(),
            _ => format!("all {services} services are ready"),
        }
    } else {
        format!(
            "{ready} of {services} services are ready; not ready: {}",
            named(&report.not_ready, services - ready)
        )
    };
    match report.policy.mode() {
        Mode::Enforce => vec![condition(READY, true, "Watching", message)],
        Mode::DryRun => {
            let message =
                format!("dry run, by spec.mode or by --dry-run: no pod is deleted; {message}");
            vec![condition(READY, true, "DryRun", message)]
        }
    }
}

fn weeding(report: &WeedReport) -> Condition {
    if report.windows == 0 {
        return match report.policy.suspend() {
            true => condition(WEEDING, false, "Suspended", "the policy is suspended"),
            false => condition(WEEDING, false, "NoRecovery", ""),
        };
    }
    let done = match report.policy.mode() {
        Mode::Enforce => "pods that need them are deleted while they are in CrashLoopBackOff",
        Mode::DryRun => "the mode is DryRun, so no pod that needs them is deleted",
    };
    let services = match report.windows {
        1 => "1 service".to_owned(),
        more => format!("{more} services"),
    };
    let message = format!(
        "{services} became ready, or turned out to be, less than watchDuration ago: {}; {done}",
        named(&report.open, report.windows)
    );
    condition(WEEDING, true, "Recovery", message)
}

/// Says all that is amiss; the reason is that of the gravest, which comes first.
fn degraded(report: &WeedReport) -> Condition {
    let troubles = TROUBLES.iter().filter_map(|(reason, what)| {
        let told: Vec<&str> = of(report, reason).map(|it| &*it.message).collect();
        let named = told.get(..EXAMPLES).unwrap_or(&told).join(", ");
        // Only some of them are reported, if they are many.
        let more = if told.len() > EXAMPLES {
            " and more"
        } else {
            ""
        };
        (!told.is_empty()).then(|| (*reason, format!("{what}: {named}{more}")))
    });
    conditions::degraded(&troubles.collect::<Vec<_>>())
}

/// The first of these, and how many more of all there are.
fn named(known: &[String], all: usize) -> String {
    let first: Vec<&str> = known.iter().take(EXAMPLES).map(String::as_str).collect();
    let text = first.join(", ");
    match all.saturating_sub(first.len()) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn count(all: usize) -> i32 {
    i32::try_from(all).unwrap_or(i32::MAX)
}

fn first<T: Clone>(all: &[T], most: usize) -> Vec<T> {
    all.iter().take(most).cloned().collect()
}

#[cfg(test)]
mod tests;
