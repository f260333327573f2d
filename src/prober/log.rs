//! What the logs say of a cluster: one line for each transition, with the evidence, and none for
//! what is as before.

use std::time::Duration;

use super::{
    dependents::{Event, What},
    verdict::{Doubt, Verdict},
};
use crate::{
    api::Protection,
    cluster::Settings,
    prober::report::{self, Finding, HeldBack},
};

/// Says what was found of a cluster, with the evidence.
pub(super) fn found(cluster: &str, finding: &Finding, settings: Option<&Settings>) {
    let reason = report::reason(finding);
    let (verdict, seen) = match finding {
        Finding::Pending => return,
        Finding::Skipped { message, .. } => {
            return tracing::info!(cluster, reason, "the cluster is not probed: {message}");
        }
        Finding::Unread { message, .. } => {
            return tracing::warn!(cluster, reason, "there is no evidence: {message}");
        }
        Finding::Judged(verdict, seen) => (verdict, seen),
    };
    macro_rules! say {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                cluster,
                reason,
                candidates = seen.candidates,
                expired = seen.expired,
                unknown = seen.unknown,
                needed = seen.needed,
                oldest_age_seconds = seen.longest_silence.map(|it| it.as_secs_f64()),
                fraction = settings.map(|it| it.rules.fraction),
                grace_seconds = settings.map(|it| it.rules.grace.as_secs_f64()),
                $message
            )
        };
    }
    match verdict {
        Verdict::Outage => say!(warn, "its node leases are expired: an outage"),
        Verdict::Healthy => say!(info, "its node leases are fresh"),
        Verdict::Undetermined(Doubt::Unproven(_) | Doubt::FactsOutdated) => {
            say!(info, "its node leases are silent, which is being watched");
        }
        Verdict::Undetermined(_) => say!(warn, "its node leases tell nothing certain"),
    }
}

/// Says why an outage is not acted on.
pub(super) fn held(cluster: &str, held: &HeldBack) {
    let reason = held.reason();
    tracing::warn!(cluster, reason, "it is not acted on: {held}");
}

/// Says what was done to a dependent, or met there.
pub(super) fn did(cluster: &str, event: &Event, why: &str) {
    let dependent = &event.dependent;
    match &event.what {
        What::Did(step, found) => {
            let replicas = found.replicas;
            tracing::info!(cluster, %dependent, %step, replicas, why, "wrote");
        }
        What::Unready(after) => {
            tracing::warn!(cluster, %dependent, ?after, "not all nodes that count are ready; going on");
        }
        What::Troubled(problem) => {
            let (reason, message) = (problem.reason, &problem.message);
            tracing::warn!(cluster, %dependent, reason, why, "not as it should be: {message}");
        }
        What::Failed(_) | What::Late | What::FoundDown | What::FoundUp => {
            tracing::debug!(cluster, %dependent, what = ?event.what, "not written");
        }
    }
}

/// Says that a protection is ended since it has lasted for too long.
pub(super) fn max_protection(cluster: &str) {
    tracing::warn!(
        cluster,
        "protected for as long as the policy's maxProtection lets it be; giving back"
    );
}

/// Says that the protection is another, and how long there has been one.
pub(super) fn protection(
    cluster: &str,
    (from, to): (Protection, Protection),
    lasted: Option<Duration>,
) {
    let protected_seconds = lasted.map(|lasted| lasted.as_secs_f64());
    tracing::info!(cluster, ?from, ?to, protected_seconds, "protection");
}
