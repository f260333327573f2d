//! What of a dependent decides, for a model that explores states.

use std::{
    hash::{Hash, Hasher},
    mem,
};

use tokio::time::Instant;

use super::{Doing, Part, Sure};
use crate::prober::step::Aim;

impl Part {
    /// Hashes what decides, by its distance from `now`.
    pub(in crate::prober::act::dependents) fn digest(
        &self,
        aim: Aim,
        now: Instant,
        state: &mut impl Hasher,
    ) {
        let Self {
            dependent: _,
            asked,
            memory,
            sure,
            doing,
            passed,
            problem,
            left: _,
            begun,
            again,
            found,
            look_at: _,
            pause: _,
            waits,
            conflicts,
            is_held: _,
            lost,
            told: _,
        } = self;
        let found = found
            .as_ref()
            .filter(|_| *doing == Doing::Queued || self.is_writing());
        (asked, passed, begun.is_some(), *again > 0).hash(state);
        (
            memory.owed,
            memory.replicas,
            has_come(memory.unmark_at, now),
        )
            .hash(state);
        mem::discriminant(sure).hash(state);
        if let Sure::From(at) = sure {
            has_come(Some(*at), now).hash(state);
        }
        mem::discriminant(doing).hash(state);
        if let Doing::Writing { step, aim } = doing {
            (step, aim).hash(state);
        }
        problem.as_ref().map(|problem| problem.reason).hash(state);
        found.hash(state);
        waits.filter(|(of, _)| *of == aim).is_some().hash(state);
        (conflicts, lost.as_ref().map(|(step, ..)| step)).hash(state);
    }
}

/// Tells whether a moment has come.
fn has_come(to: Option<Instant>, now: Instant) -> Option<bool> {
    to.map(|to| to <= now)
}
