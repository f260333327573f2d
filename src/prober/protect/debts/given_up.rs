//! What the seed says cannot be scaled, while it is not asked for: when it is passed by, and given up.

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

/// It is hopeless when the seed has said the same so often in a row ...
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
    /// Whether it was given up. It may be looked at again.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.unscalable, Some(Unscalable::GivenUp(_)))
    }

    /// Whether it keeps no other waiting any more.
    pub(super) fn is_passed_by(&self) -> bool {
        self.unscalable.is_some_and(Unscalable::is_hopeless)
    }

    /// A policy names it from now on, or none does. What was said before does not count any more; what
    /// was given up then is still to be told.
    pub(super) fn set_named(&mut self, named: bool) {
        if named != self.named && !self.is_given_up() {
            self.unscalable = None;
        }
        self.named = named;
    }

    /// That it is given up is not told any more once it is not; and by giving it up nobody has seen it.
    pub(super) fn set_unscalable(&mut self, now: Option<Unscalable>) {
        if self.is_given_up() && now.is_none() {
            self.problem = None;
            self.looked_at = false;
        }
        self.unscalable = now;
    }

    /// After this failure, while it is not asked for, and perhaps held as it is.
    pub(super) fn after_failure(
        &self,
        error: &ScaleError,
        held: bool,
        now: Instant,
    ) -> Option<Unscalable> {
        let reason = error.reason();
        let (times, since) = match self.unscalable {
            // It is looked at on and on, and neither says more of it.
            Some(Unscalable::GivenUp(_))
                if error.is_about_the_kind() || error.is_about_the_attempt() =>
            {
                return self.unscalable;
            }
            // Of what is held nothing is given up, however long.
            _ if held || !error.is_about_the_kind() => return None,
            Some(Unscalable::Said {
                reason: before,
                times,
                since,
                until,
            }) if before == reason => match now.duration_since(until) < REFUSED {
                // It may be the answer that was counted.
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

    /// Whether its replicas are owed even if that is hopeless: a policy still names it, or the seed serves
    /// its kind, so that it is there. If nothing is known to be owed, nothing is lost, unless nobody could
    /// look for a mark.
    fn stays_owed(&self, error: &ScaleError) -> bool {
        let nowhere = matches!(error, ScaleError::UnknownKind(_));
        let known = self.memory.owed && (self.named || !nowhere);
        known || !self.looked_at && error.may_hide_a_mark()
    }

    /// Nothing is owed to it any more. If something was, that is told, for a while.
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

/// It need not have been scaled down: it is owed as soon as it may have been.
fn message(dependent: &DependentRef, memory: Memory) -> String {
    let (minutes, replicas) = (LONG.as_secs() / 60, memory.replicas.unwrap_or(1));
    format!(
        "{dependent} may be at 0 replicas and was given up, since no policy named it and for {minutes} \
         minutes the seed served its kind in no version; if it is there all the same, set its replicas \
         to {replicas}"
    )
}
