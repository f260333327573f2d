//! Dependents of one cluster: what was last seen of each, what it is owed, and which request is next.
//!
//! The marks are the truth, and each write has a precondition. So nothing is planned: one [`Order`] says what is wanted
//! of all, and after every input each dependent is decided about anew, by what was last seen of it. A changed order
//! needs no withdrawal, and a lost answer no memory: the dependent is read again.

mod part;
mod request;

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    mem,
    time::Duration,
};

use tokio::time::Instant;

use self::part::{Part, Sure, Way};
pub use self::request::{Answer, Event, Problem, Request, What, Written};
use super::step::{Aim, Memory, PROBATION};
use crate::{
    api::{ClusterHealthStatus, DependentRef, DependentStatus, Protection},
    cluster::{Dependent, Scale},
};

/// Order for all dependents of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// State that is wanted.
    pub aim: Aim,
    /// Restored dependents keep their marks for a minute: a client that read the zero just before, and writes it
    /// later, does so under the mark, and is undone.
    pub keeps_marks: bool,
    /// Marks may fall that are due.
    pub may_unmark: bool,
    /// Longest wait for a level that is not the last; `None` if only each dependent's own timeout limits it.
    pub patience: Option<Duration>,
    /// Nodes are waited for, and some that count are not ready.
    pub awaits_nodes: bool,
}

/// The dependents of a cluster: those of its policy, and those that are owed something, or may be, although the policy
/// does not name them any more.
#[derive(Clone, Debug, Default)]
pub struct Dependents {
    parts: BTreeMap<DependentRef, Part>,
    way: Way,
    protection: Protection,
}

impl Dependents {
    /// Resumes from the ClusterHealth of an earlier run.
    pub(super) fn recall(known: &ClusterHealthStatus, now: Instant) -> Self {
        let parts = known.dependents.iter().map(|known| {
            let (dependent, mut memory) = recalled(known);
            memory.unmark_at = known.keeps_mark.then_some(now + PROBATION);
            let mut part = Part::default();
            (part.dependent, part.memory) = (dependent, memory);
            (known.r#ref.clone(), part)
        });
        let mut recalled = Self {
            parts: parts.collect(),
            ..Self::default()
        };
        if recalled.owes() {
            recalled.protection = known.protection;
        }
        recalled
    }

    /// Adopts the dependents of a policy. Those that it does not name stay as long as they are owed something, or may
    /// be.
    pub(super) fn adopt(&mut self, dependents: &[Dependent]) {
        self.reset_delays();
        for part in self.parts.values_mut() {
            part.adopt(None);
        }
        for dependent in dependents {
            let part = self.parts.entry(dependent.reference.clone());
            part.or_default().adopt(Some(dependent));
        }
        self.way.is_complete &= !self.any(|part| part.asked && !part.memory.owed);
        self.forget();
    }

    /// Marks all dependents as unread: unknown or abandoned writes may have taken effect, or still may. Reads count
    /// when none may.
    pub(super) fn distrust(&mut self) {
        for part in self.parts.values_mut() {
            part.sure = Sure::No;
            part.begin();
        }
    }

    /// Notes that a dependent was marked when the process began: replicas may be owed although no status says so.
    pub(super) fn expect_marks(&mut self) {
        self.way.expects_marks = true;
    }

    /// Takes up what is wanted from now on.
    pub(super) fn follow(&mut self, order: Order, now: Instant) {
        let before = mem::replace(&mut self.way.order, order);
        if before.aim != order.aim {
            self.way.is_complete &= order.aim == Aim::Down;
            // Before a scale-down the outage has to last for all of the delay.
            if before.aim == Aim::Down || matches!(order.aim, Aim::Down | Aim::Release) {
                self.reset_delays();
            }
            let owes = self.owes();
            for part in self.parts.values_mut() {
                part.turn_to(order.aim, owes);
            }
        }
        if before.awaits_nodes && !order.awaits_nodes {
            for part in self.parts.values_mut().filter(|part| part.memory.owed) {
                part.begin();
            }
        }
        if order.aim == Aim::Up && order.awaits_nodes && self.owes() {
            self.way.awaits.get_or_insert(now);
        }
    }

    /// Delays begin anew: later ones have another reason.
    pub(super) fn reset_delays(&mut self) {
        self.way.awaits = None;
        for part in self.parts.values_mut() {
            part.begun = None;
        }
    }

    /// Takes in what came of a request.
    pub(super) fn answer(&mut self, of: &DependentRef, answer: Answer, now: Instant) {
        if let Some(part) = self.parts.get_mut(of) {
            part.answered(answer, &mut self.way, now);
        }
    }

    /// Requests that are next.
    #[must_use]
    pub(super) fn requests(&mut self, now: Instant) -> Vec<(DependentRef, Request)> {
        let mut requests = Vec::new();
        loop {
            let (aim, open) = (self.aim(), self.open_level());
            let handled = self.parts.values().filter(|part| part.is_handled(aim));
            self.way.last = handled.map(|part| part.level(aim)).max();
            (self.way.open, self.way.owes) = (open, self.owes());
            for (reference, part) in &mut self.parts {
                let request = part.go_on(&mut self.way, now);
                requests.extend(request.map(|request| (reference.clone(), request)));
            }
            self.forget();
            if self.open_level() == open {
                break;
            }
        }
        if self.aim() == Aim::Down && self.open_level().is_none() {
            self.way.is_complete = self.owes();
        }
        // What is owed without being known as protected may still be on its way down.
        if self.aim() != Aim::Leave || !self.owes() {
            self.protection = self.protection();
        }
        requests
    }

    /// Acts and things met since this was last asked.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        mem::take(&mut self.way.events)
    }

    /// When the next request is due that waits for a time.
    pub(super) fn due(&self) -> Option<Instant> {
        self.parts.values().filter_map(Part::due).min()
    }

    /// The lowest level that is not done.
    fn open_level(&self) -> Option<u32> {
        let (aim, parts) = (self.aim(), self.parts.values());
        let open = parts.filter(|part| part.is_handled(aim) && !part.passed);
        open.map(|part| part.level(aim)).min()
    }

    fn forget(&mut self) {
        self.parts.retain(|_, part| !part.is_forgettable());
    }

    /// Tells whether the dependents are scaled down.
    pub(super) fn protection(&self) -> Protection {
        let (owes, before) = (self.owes(), self.protection);
        match self.aim() {
            Aim::Down if !owes && self.open_level().is_none() => Protection::None,
            Aim::Down if self.way.is_complete || before == Protection::Active => Protection::Active,
            Aim::Down if self.any(|part| part.asked) => Protection::ScalingDown,
            _ if !owes => Protection::None,
            Aim::Up => Protection::Restoring,
            _ if before != Protection::None => before,
            // Somebody has undone a restore.
            _ if self.owes_again() => Protection::Restoring,
            // An earlier leader has ended in the middle. Where nothing may be written, it stays so.
            _ if self.way.order.may_unmark && self.any(Part::is_up) => Protection::ScalingDown,
            _ => Protection::Active,
        }
    }

    /// Aim for them.
    pub fn aim(&self) -> Aim {
        self.way.order.aim
    }

    /// Tells whether every dependent has been seen, so that no mark can be unknown.
    pub fn is_looked_at(&self) -> bool {
        !self.any(|part| part.sure != Sure::Yes)
    }

    /// Tells whether any dependent is owed its replicas.
    pub fn owes(&self) -> bool {
        self.any(|part| part.memory.owed)
    }

    /// Tells whether something is owed or keeps its mark, or is being written.
    pub fn is_engaged(&self) -> bool {
        self.any(|part| part.is_marked() || part.is_writing())
    }

    /// Tells whether something is being written.
    pub fn is_writing(&self) -> bool {
        self.any(Part::is_writing)
    }

    /// Tells whether a dependent that a policy asks for is owed its replicas although it was restored: somebody else
    /// has scaled it to zero since.
    pub(super) fn owes_again(&self) -> bool {
        self.any(|part| part.asked && part.memory.owed && part.again > 0)
    }

    fn any(&self, is: impl Fn(&Part) -> bool) -> bool {
        self.parts.values().any(is)
    }

    /// Since when a restore has been allowed, if a dependent still waits for nodes.
    pub fn awaits(&self, now: Instant) -> Option<Instant> {
        let since = self.way.awaits?;
        let waits =
            self.any(|part| part.is_at_zero() && now < since + part.dependent.up.await_nodes);
        waits.then_some(since)
    }

    /// Why dependents are not where they should be.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.parts.values().filter_map(|part| part.problem.as_ref())
    }

    /// List for ClusterHealth: enough to restore everything when the policy is gone.
    pub fn status(&self) -> Vec<DependentStatus> {
        let parts = self.parts.values();
        parts
            .map(|part| DependentStatus {
                r#ref: part.dependent.reference.clone(),
                recorded_replicas: part.memory.replicas,
                owed: part.memory.owed,
                keeps_mark: part.memory.unmark_at.is_some(),
                level: i32::try_from(part.dependent.up.level).unwrap_or(i32::MAX),
                initial_delay: part.dependent.up.initial_delay.into(),
                timeout: part.dependent.up.timeout.into(),
            })
            .collect()
    }

    /// Hashes what decides, by its distance from `now`.
    pub(super) fn digest(&self, now: Instant, state: &mut impl Hasher) {
        let aim = self.aim();
        (self.way.order, self.protection, self.way.is_complete).hash(state);
        self.protection().hash(state);
        for part in self.parts.values() {
            part.digest(aim, now, state);
        }
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
        replicas: known.recorded_replicas,
        unmark_at: None,
    };
    (dependent, memory)
}

#[cfg(test)]
mod tests;
