//! What follows from the leases and the checks together.

use tokio::time::Instant;

use crate::{
    api::CheckRole,
    checks::{CheckResults, Trigger},
    prober::{finding::HeldBack, verdict::Verdict},
};

/// What follows from the leases and the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The leases are an outage.
    Protect,
    /// A Trigger fails, for this reason. It counts until then, or is not acted on.
    Triggered(String, Result<Instant, HeldBack>),
    /// The evidence allows it.
    Restore,
    /// The leases allow a restore, but a check does not.
    Wait(HeldBack),
    /// There is not enough evidence.
    Nothing,
}

/// By the verdict on the leases, if it may be acted on.
pub(super) fn course(leases: Option<Verdict>, checks: CheckResults) -> Course {
    let wait = |role, why| Course::Wait(HeldBack::Check { role, why });
    match (leases, checks.trigger, checks.gate) {
        (Some(Verdict::Outage), _, _) => Course::Protect,
        (_, Trigger::Failing { why, until }, _) => Course::Triggered(why, Ok(until)),
        (
            _,
            Trigger::Held {
                why,
                hold,
                widespread,
            },
            _,
        ) => {
            let held = HeldBack::Trigger {
                why: hold,
                widespread,
            };
            Course::Triggered(why, Err(held))
        }
        (Some(Verdict::Healthy), Trigger::Unknown { why }, _) => wait(CheckRole::Trigger, why),
        (Some(Verdict::Healthy), Trigger::None, Some(why)) => wait(CheckRole::Gate, why),
        (Some(Verdict::Healthy), Trigger::None, None) => Course::Restore,
        (None | Some(Verdict::Undetermined(_)), _, _) => Course::Nothing,
    }
}

#[cfg(test)]
mod tests;
