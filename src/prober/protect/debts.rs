//! What one cluster's dependents are owed, and what is known of them.

mod entry;
mod owed;
mod problem;
mod tasks;
mod waits;

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

pub use self::problem::Problem;
use self::{
    entry::Entry,
    owed::{after, begin, settle},
    problem::left_behind,
};
use crate::{
    api::{ClusterHealthStatus, DependentRef, DependentStatus},
    cluster::{Dependent, Scale},
    prober::{
        flow::What,
        plan::{Aim, Memory, Settled, Step},
    },
    runtime::seed::REQUEST_LIMIT,
};

/// A write that was given up, by this process or an earlier one, may still take effect for this long after
/// the seed answers again. An API server drops it within [`REQUEST_LIMIT`]; an etcd that hung, and answers
/// again, has executed it long before.
const DOUBT: Duration = Duration::from_secs(2 * REQUEST_LIMIT.as_secs());
/// How long a restored dependent keeps its mark. gardenlet decides about replicas in one step of a
/// reconciliation, and writes them in another without a precondition.
pub(super) const MARKS_STAY: Duration = Duration::from_secs(60);

/// The dependents of a cluster: those of its policy, and those that are owed something, or may be,
/// although the policy does not name them any more.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Debts {
    entries: BTreeMap<DependentRef, Entry>,
    /// A given-up write may still take effect.
    doubt: Option<Doubt>,
    /// Since when a restore that waits for nodes has been allowed.
    awaits: Option<Instant>,
}

/// Until when a given-up write may change what is seen.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Doubt {
    /// The seed has not answered since.
    Unanswered,
    /// Until then; reads of flows that began before do not count.
    Until(Instant),
}

impl Debts {
    /// Resumes from what an earlier run of the operator left.
    pub fn recall(status: &ClusterHealthStatus) -> Self {
        let entries = status.dependents.iter().map(|known| {
            let (dependent, memory) = recalled(known);
            let entry = Entry {
                memory,
                ..Entry::new(dependent)
            };
            (known.r#ref.clone(), entry)
        });
        Self {
            entries: entries.collect(),
            doubt: None,
            awaits: None,
        }
    }

    /// Adopts the dependents of a policy. Those that it does not name stay as long as they are
    /// owed something, or may be.
    pub fn adopt(&mut self, dependents: &[Dependent]) {
        self.reset_delays();
        let mut before = std::mem::take(&mut self.entries);
        for dependent in dependents {
            let known = before.remove(&dependent.reference);
            let mut entry = known.unwrap_or_else(|| Entry::new(dependent.clone()));
            entry.dependent = dependent.clone();
            entry.asked = true;
            self.entries.insert(dependent.reference.clone(), entry);
        }
        for (reference, mut entry) in before {
            let marked = entry.memory.owed || entry.memory.keeps_mark;
            if marked || !entry.looked_at {
                entry.asked = false;
                // No policy requires it any more.
                entry.dependent.optional = true;
                if !entry.memory.owed {
                    entry.problem = None;
                }
                self.entries.insert(reference, entry);
            }
        }
    }

    /// Whether every dependent has been seen, so that no mark can be unknown.
    pub fn is_looked_at(&self) -> bool {
        self.entries.values().all(|entry| entry.looked_at)
    }

    /// Earliest start of a flow whose reads count, if a given-up write may still take effect before.
    pub fn doubt(&self) -> Option<Instant> {
        match self.doubt {
            Some(Doubt::Until(until)) => Some(until),
            Some(Doubt::Unanswered) | None => None,
        }
    }

    /// A flow begins.
    pub fn begin(&mut self, now: Instant) {
        if self.doubt().is_some_and(|until| now >= until) {
            self.doubt = None;
        }
    }

    /// Whether any dependent is owed its replicas.
    pub fn owes(&self) -> bool {
        self.entries.values().any(|entry| entry.memory.owed)
    }

    /// Whether any restored dependent keeps its mark for now.
    pub fn keeps_marks(&self) -> bool {
        self.entries.values().any(|entry| entry.memory.keeps_mark)
    }

    /// When the first mark falls of those that are kept for now.
    pub(super) fn unmarked_at(&self) -> Option<Instant> {
        self.entries.values().filter_map(|it| it.unmarked_at).min()
    }

    /// Keeps marks until then: those that were due at that moment, or are of an earlier process.
    pub(super) fn keep_marks(&mut self, due: Instant, until: Instant) {
        for entry in self.entries.values_mut() {
            if entry.memory.keeps_mark && entry.unmarked_at.is_none_or(|at| at <= due) {
                entry.unmarked_at = Some(until);
            }
        }
    }

    /// Whether a dependent that a policy asks for is owed its replicas although it was restored: somebody
    /// else has scaled it to zero since.
    pub(super) fn owes_again(&self) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.asked && entry.memory.owed && entry.again > 0)
    }

    /// How often it was found at zero since it was restored, and before its mark fell.
    pub fn again(&self, dependent: &DependentRef) -> u32 {
        self.entries.get(dependent).map_or(0, |entry| entry.again)
    }

    /// Whether it is owed replicas; how many, if known.
    pub fn owed(&self, dependent: &DependentRef) -> Option<Option<i32>> {
        let memory = self.entries.get(dependent)?.memory;
        memory.owed.then_some(memory.replicas)
    }

    /// What is remembered of a dependent, if it is known.
    pub fn memory(&self, dependent: &DependentRef) -> Option<Memory> {
        Some(self.entries.get(dependent)?.memory)
    }

    /// Marks all dependents as unread: unknown or abandoned writes may have taken effect, or still may.
    /// Reads count when none may.
    pub fn distrust(&mut self) {
        self.doubt = Some(Doubt::Unanswered);
        for entry in self.entries.values_mut() {
            entry.looked_at = false;
        }
    }

    /// Why this dependent is not where it should be.
    pub fn problem(&self, dependent: &DependentRef) -> Option<&Problem> {
        self.entries.get(dependent)?.problem.as_ref()
    }

    /// Why dependents are not where they should be.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let entries = self.entries.values();
        entries.filter_map(|entry| entry.problem.as_ref())
    }

    /// Records what a flow did to a dependent, or met there. A flow that is ending may have scaled one that
    /// the policy no longer names.
    pub fn note(&mut self, dependent: &Dependent, what: &What, now: Instant) {
        let reference = &dependent.reference;
        let gave_up = what.has_given_up();
        // A `Waiting` one may be marked, but not known to be owed.
        let seen = matches!(what, What::Did(..) | What::Settled(..) | What::Late(_));
        let counts = seen && self.doubt.is_none();
        match self.doubt {
            _ if gave_up => self.doubt = Some(Doubt::Unanswered),
            Some(Doubt::Unanswered) if seen => self.doubt = Some(Doubt::Until(now + DOUBT)),
            _ => {}
        }
        let entry = self
            .entries
            .entry(reference.clone())
            .or_insert_with(|| Entry::new(dependent.clone()));
        // Of a kind that is not served there is no mark to be found; one that is known to be owed stays so.
        let is_nowhere = matches!(what, What::Failed(error, _) if error.is_about_the_kind());
        let was_seen = entry.looked_at;
        entry.looked_at = counts || is_nowhere && !entry.asked || was_seen && !gave_up;
        match what {
            What::Did(Step::ScaleDown { .. }, _) => entry.waiting = Some((Aim::Protect, now)),
            What::Did(Step::ScaleUp { .. }, _) => entry.waiting = Some((Aim::Restore, now)),
            What::Waiting(aim, _) => entry.waiting = Some((*aim, now)),
            What::Settled(..) => entry.waiting = None,
            What::Did(..)
            | What::Delayed
            | What::Unready(_)
            | What::Late(_)
            | What::Failed(..)
            | What::Interrupted(_) => {}
        }
        entry.delayed = match what {
            What::Delayed => entry.delayed.or(Some(now)),
            // It is still to be scaled up.
            What::Settled(Settled::Seen { marked: true }, _)
            | What::Failed(..)
            | What::Interrupted(_) => entry.delayed,
            What::Did(..)
            | What::Settled(..)
            | What::Waiting(..)
            | What::Unready(_)
            | What::Late(_) => None,
        };
        let kept_mark = entry.memory.keeps_mark;
        match what {
            What::Did(step, found) => {
                entry.problem = None;
                entry.memory = after(*step, found.as_ref(), entry.memory);
            }
            What::Settled(settled, found) => {
                entry.problem = match settled {
                    Settled::Seen { marked: true } => entry.problem.take(),
                    _ => left_behind(*settled, found.as_ref(), entry.memory, &entry.dependent),
                };
                entry.memory = settle(*settled, found.as_ref(), entry.memory);
                // Whoever has scaled it up has mended it.
                entry.problem.take_if(|_| entry.memory.keeps_mark);
            }
            What::Late(timeout) => {
                entry.problem = Some(Problem {
                    dependent: reference.clone(),
                    reason: "ScalingLate",
                    message: format!("{reference} was not scaled within {timeout:?}"),
                });
            }
            What::Failed(error, begun) => {
                if let Some(begun) = begun {
                    entry.memory = begin(begun.step, entry.memory);
                }
                if is_nowhere && !entry.asked && !entry.memory.owed {
                    entry.memory = Memory::default();
                }
                entry.problem = Some(Problem {
                    dependent: reference.clone(),
                    reason: error.reason(),
                    message: format!("{reference}: {error}"),
                });
            }
            What::Interrupted(begun) => entry.memory = begin(begun.step, entry.memory),
            // What is going down already carries the mark.
            What::Waiting(Aim::Protect, found) => {
                entry.memory = settle(Settled::Down, found.as_ref(), entry.memory);
            }
            What::Waiting(..) | What::Delayed | What::Unready(_) => {}
        }
        let Memory {
            owed, keeps_mark, ..
        } = entry.memory;
        let marks_stay = entry.unmarked_at.unwrap_or(now + MARKS_STAY);
        entry.unmarked_at = keeps_mark.then_some(marks_stay);
        match what {
            // From here on the zero is ours.
            What::Did(Step::ScaleDown { .. }, _) => entry.again = 0,
            What::Settled(..) | What::Waiting(..) if owed && !keeps_mark && kept_mark => {
                entry.again += 1;
            }
            _ if !owed && !keeps_mark => entry.again = 0,
            _ => {}
        }
        if entry.is_forgettable() {
            self.entries.remove(reference);
        }
    }

    /// List for ClusterHealth: enough to restore everything when the policy is gone.
    pub fn status(&self) -> Vec<DependentStatus> {
        let entries = self.entries.values();
        entries
            .map(|entry| DependentStatus {
                r#ref: entry.dependent.reference.clone(),
                recorded_replicas: entry.memory.replicas,
                owed: entry.memory.owed,
                keeps_mark: entry.memory.keeps_mark,
                level: i32::try_from(entry.dependent.up.level).unwrap_or(i32::MAX),
                initial_delay: entry.dependent.up.initial_delay.into(),
                timeout: entry.dependent.up.timeout.into(),
            })
            .collect()
    }
}

/// Reads a dependent from the record of its cluster.
pub(crate) fn recalled(known: &DependentStatus) -> (Dependent, Memory) {
    let scale = Scale {
        level: u32::try_from(known.level).unwrap_or(0),
        initial_delay: known.initial_delay.get(),
        timeout: known.timeout.get(),
        // A cluster that is let go does not wait for its nodes.
        await_nodes: Duration::ZERO,
    };
    let dependent = Dependent {
        reference: known.r#ref.clone(),
        optional: true,
        up: scale,
        down: scale,
    };
    let memory = Memory {
        owed: known.owed,
        keeps_mark: known.keeps_mark,
        replicas: known.recorded_replicas,
    };
    (dependent, memory)
}

#[cfg(test)]
mod tests;
