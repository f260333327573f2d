//! Dependents that no policy asks for and the seed cannot scale: when they are skipped, and given up.

use std::time::Duration;

use tokio::time::Instant;

use super::{Entry, Problem};
use crate::{
    api::DependentRef,
    prober::{
        plan::Memory,
        scale_error::{REFUSED, ScaleError},
    },
};

/// Hopeless after this many equal refusals by the seed in a row ...
const TIMES: u32 = 3;
/// ... over this long. A server that starts, or a replica that lags, may refuse for seconds; a deleted
/// definition takes its objects with it. Later levels, and the policy, wait for the dependent.
const LONG: Duration = Duration::from_secs(2 * 60);
/// How long a give-up is reported: as long as an event.
const TOLD: Duration = Duration::from_secs(3600);
const REASON: &str = "GivenUp";

/// The seed's refusals to scale a dependent. Lost in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub(super) enum Unscalable {
    /// For the same reason.
    Said {
        reason: &'static str,
        /// So often in a row.
        times: u32,
        since: Instant,
        /// When it was counted last.
        until: Instant,
    },
    /// It was given up then.
    GivenUp(Instant),
}

impl Unscalable {
    fn is_hopeless(self) -> bool {
        match self {
            Self::GivenUp(_) => true,
            Self::Said {
                times,
                since,
                until,
                ..
            } => times >= TIMES && until.duration_since(since) >= LONG,
        }
    }
}

impl Entry {
    /// Whether it was given up. It may still be read again.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.unscalable, Some(Unscalable::GivenUp(_)))
    }

    /// Whether no other waits for it any more.
    pub(super) fn is_passed_by(&self) -> bool {
        self.unscalable.is_some_and(Unscalable::is_hopeless)
    }

    /// Sets whether the policy names it. A change voids earlier refusals; a dependent that was given up
    /// before is still reported.
    pub(super) fn set_named(&mut self, named: bool) {
        if named != self.named && !self.is_given_up() {
            self.unscalable = None;
        }
        self.named = named;
    }

    /// Once it is no longer given up, clears the GivenUp problem and requires a new read.
    pub(super) fn set_unscalable(&mut self, now: Option<Unscalable>) {
        if self.is_given_up() && now.is_none() {
            self.problem = None;
            self.looked_at = false;
        }
        self.unscalable = now;
    }

    /// The state after a failure of a dependent that no policy asks for.
    pub(super) fn after_failure(
        &self,
        error: &ScaleError,
        held: bool,
        now: Instant,
    ) -> Option<Unscalable> {
        let reason = error.reason();
        let (times, since) = match self.unscalable {
            // Reads go on; neither error says more about it.
            Some(Unscalable::GivenUp(_))
                if error.is_about_the_kind() || error.is_about_the_attempt() =>
            {
                return self.unscalable;
            }
            // Nothing that is held is given up.
            _ if held || !error.is_about_the_kind() => return None,
            Some(Unscalable::Said {
                reason: before,
                times,
                since,
                until,
            }) if before == reason => match now.duration_since(until) < REFUSED {
                // It may be the same cached answer.
                true => return self.unscalable,
                false => (times.saturating_add(1), since),
            },
            _ => (1, now),
        };
        let said = Unscalable::Said {
            reason,
            times,
            since,
            until: now,
        };
        Some(match said.is_hopeless() && !self.stays_owed(error) {
            true => Unscalable::GivenUp(now),
            false => said,
        })
    }

    /// Whether a hopeless dependent stays owed: it is known to be owed, and a policy still names it or the
    /// seed serves its kind, so that it may exist; or it may carry an unseen mark.
    fn stays_owed(&self, error: &ScaleError) -> bool {
        let nowhere = matches!(error, ScaleError::UnknownKind(_));
        let known = self.memory.owed && (self.named || !nowhere);
        known || !self.looked_at && error.may_hide_a_mark()
    }

    /// Drops what it is owed, and reports that for a while.
    pub(super) fn give_up(&mut self, now: Instant) {
        let memory = std::mem::take(&mut self.memory);
        let told = self.problem.take();
        self.problem = match self.unscalable {
            Some(Unscalable::GivenUp(_)) if memory.owed => Some(Problem {
                dependent: self.dependent.reference.clone(),
                reason: REASON,
                message: message(&self.dependent.reference, memory),
            }),
            Some(Unscalable::GivenUp(at)) if now.duration_since(at) < TOLD => {
                told.filter(|told| told.reason == REASON)
            }
            _ => None,
        };
        self.looked_at = true;
    }
}

/// What is done by hand instead. "May be at 0", since it is owed as soon as it may have been scaled down.
fn message(dependent: &DependentRef, memory: Memory) -> String {
    let (minutes, replicas) = (LONG.as_secs() / 60, memory.replicas.unwrap_or(1));
    format!(
        "{dependent} may be at 0 replicas and was given up, since no policy named it and for {minutes} \
         minutes the seed served its kind in no version; if it is there all the same, set its replicas \
         to {replicas}"
    )
}
