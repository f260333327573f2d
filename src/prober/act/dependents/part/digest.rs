//! What of a dependent decides, for a model that explores states.

use std::{
    hash::{Hash, Hasher},
    mem,
};

use tokio::time::Instant;

use super::{Doing, Part, Sure};
use crate::prober::step::{Aim, Memory};

impl Part {
    /// Hashes what decides, by its distance from `now`.
    pub(in crate::prober::act::dependents) fn digest(
        &self,
        aim: Aim,
        now: Instant,
        state: &mut impl Hasher,
    ) {
        let found = self.found.as_ref();
        let found = found.filter(|_| self.doing == Doing::Queued || self.is_writing());
        let Memory {
            owed,
            replicas,
            unmark_at,
        } = self.memory;
        let is_due = |at: Option<Instant>| at.map(|at| at <= now);
        (self.asked, self.passed, self.begun.is_some()).hash(state);
        (owed, replicas, is_due(unmark_at), self.again > 0).hash(state);
        mem::discriminant(&self.sure).hash(state);
        if let Sure::From(at) = self.sure {
            is_due(Some(at)).hash(state);
        }
        mem::discriminant(&self.doing).hash(state);
        if let Doing::Writing { step, aim } = self.doing {
            (step, aim).hash(state);
        }
        let problem = self.problem.as_ref().map(|problem| problem.reason);
        let lost = self.lost.as_ref().map(|(step, ..)| step);
        let waits = self.waits.is_some_and(|(of, _)| of == aim);
        (problem, lost, waits, self.conflicts, found).hash(state);
    }
}
