//! What no policy names any more, and the seed says cannot be scaled: when it is given up.

use std::time::Duration;

use tokio::time::Instant;

use super::Problem;
use crate::{
    api::DependentRef,
    prober::{plan::Memory, scale::ScaleError},
};

/// It is given up when the seed has said so this often in a row ...
const TIMES: u32 = 3;
/// ... and for this long. A server that starts, or one of several that lags behind, says so for seconds; if
/// a definition is deleted, so are its objects. Levels that come later, and the policy, wait for it.
const LONG: Duration = Duration::from_secs(2 * 60);
/// That it was given up is told for this long, as an event is.
const TOLD: Duration = Duration::from_secs(3600);
const REASON: &str = "GivenUp";

/// The seed says of a dependent that it cannot be scaled. It is not recalled after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub(super) enum Unscalable {
    /// So often in a row, since then.
    Said(u32, Instant),
    /// It was given up then.
    GivenUp(Instant),
}

impl Unscalable {
    /// After this failure of one that no policy names.
    pub(super) fn after(before: Option<Self>, error: &ScaleError, now: Instant) -> Option<Self> {
        let (times, since) = match before {
            // It is looked at on and on, and nothing else that is met says more of it.
            Some(Self::GivenUp(_)) => return before,
            _ if !error.is_about_the_kind() => return None,
            Some(Self::Said(times, since)) => (times.saturating_add(1), since),
            None => (1, now),
        };
        let hopeless = times >= TIMES && now.duration_since(since) >= LONG;
        Some(match hopeless {
            true => Self::GivenUp(now),
            false => Self::Said(times, since),
        })
    }

    pub(super) fn is_given_up(self) -> bool {
        matches!(self, Self::GivenUp(_))
    }

    /// What there is to tell of one that is given up: that it was owed its replicas, for a while.
    pub(super) fn problem(
        self,
        dependent: &DependentRef,
        memory: Memory,
        told: Option<Problem>,
        error: &ScaleError,
        now: Instant,
    ) -> Option<Problem> {
        match self {
            Self::GivenUp(_) if memory.owed => Some(Problem {
                reason: REASON,
                message: message(dependent, memory, error),
            }),
            Self::GivenUp(at) if now.duration_since(at) < TOLD => {
                told.filter(|told| told.reason == REASON)
            }
            _ => None,
        }
    }
}

fn message(dependent: &DependentRef, memory: Memory, error: &ScaleError) -> String {
    let why = match error {
        ScaleError::UnknownKind(_) => "the seed has served its kind in no version".to_owned(),
        error => format!("it could not be scaled back ({error})"),
    };
    let (minutes, replicas) = (LONG.as_secs() / 60, memory.replicas.unwrap_or(1));
    format!(
        "{dependent} was scaled to 0 replicas and is given up, since no policy names it and for \
         {minutes} minutes {why}; if it is there all the same, set its replicas to {replicas}"
    )
}
