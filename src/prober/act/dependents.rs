//! Dependents of one cluster: what was last seen of each, what it is owed, and which request is next.
//!
//! The marks are the truth, and each write has a precondition. So nothing is planned: one [`Order`] says what is wanted
//! of all, and after every input each dependent is decided about anew, by what was last seen of it. A changed order
//! needs no withdrawal, and a lost answer no memory: the dependent is read again.

mod part;
mod problem;
mod request;

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    time::Duration,
};

use tokio::time::Instant;

use self::part::{Doing, Part, Sure, Way};
pub use self::{
    problem::Problem,
    request::{Answer, Event, Request, What, Written},
};
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
    /// Interval at which the cluster is probed.
    pub interval: Duration,
}

/// The dependents of a cluster: those of its policy, and those that are owed something, or may be, although the policy
/// does not name them any more.
#[derive(Clone, Debug, Default)]
pub struct Dependents {
    parts: BTreeMap<DependentRef, Part>,
    order: Order,
    protection: Protection,
    /// Each was seen at zero in this protection.
    is_complete: bool,
    /// Since when a restore that waits for nodes has been allowed.
    awaits: Option<Instant>,
    /// A mark was there when the process began. It counts until all dependents have been read.
    expects_marks: bool,
    events: Vec<Event>,
}

impl Dependents {
    /// Resumes from the ClusterHealth of an earlier run.
    pub(super) fn recall(known: &ClusterHealthStatus, now: Instant) -> Self {
        let parts = known.dependents.iter().map(|known| {
            let (dependent, mut memory) = recalled(known);
            memory.unmark_at = known.keeps_mark.then_some(now + PROBATION);
            let mut part = Part::new(dependent);
            part.memory = memory;
            (known.r#ref.clone(), part)
        });
        let mut recalled = Self {
            parts: parts.collect(),
            ..Self::default()
        };
        recalled.protection = match known.protection {
            protection if recalled.owes() => protection,
            _ => Protection::None,
        };
        recalled
    }

    /// Adopts the dependents of a policy. Those that it does not name stay as long as they are owed something, or may
    /// be.
    pub(super) fn adopt(&mut self, dependents: &[Dependent]) {
        self.reset_delays();
        for dependent in dependents {
            let part = self.parts.entry(dependent.reference.clone());
            part.or_insert_with(|| Part::new(dependent.clone()));
        }
        for (reference, part) in &mut self.parts {
            part.adopt(dependents.iter().find(|it| it.reference == *reference));
        }
        let mut asked = self.parts.values().filter(|part| part.asked);
        self.is_complete &= asked.all(|part| part.memory.owed);
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
        self.expects_marks = true;
    }

    /// Takes up what is wanted from now on.
    pub(super) fn follow(&mut self, order: Order, now: Instant) {
        let before = std::mem::replace(&mut self.order, order);
        if before.aim != order.aim {
            self.is_complete &= order.aim == Aim::Down;
            if let Aim::Down | Aim::Release = order.aim {
                self.reset_delays();
            }
            let owes = self.owes();
            for part in self.parts.values_mut() {
                // Before a scale-down the outage has to last for all of the delay.
                part.begun.take_if(|(of, _)| *of == Aim::Down);
                part.turn_to(order.aim, owes);
            }
        }
        if before.awaits_nodes && !order.awaits_nodes {
            for part in self.parts.values_mut().filter(|part| part.memory.owed) {
                part.begin();
            }
        }
        let mut parts = self.parts.values();
        let waits = order.aim == Aim::Up
            && order.awaits_nodes
            && parts.any(|part| part.memory.owed && !part.dependent.up.await_nodes.is_zero());
        if waits {
            self.awaits.get_or_insert(now);
        }
    }

    /// Delays of restores begin anew: later ones have another reason.
    pub(super) fn reset_delays(&mut self) {
        self.awaits = None;
        for part in self.parts.values_mut() {
            part.begun.take_if(|(of, _)| *of == Aim::Up);
        }
    }

    /// Takes in what came of a request.
    pub(super) fn answer(&mut self, of: &DependentRef, answer: Answer, now: Instant) {
        let way = self.way(None);
        if let Some(part) = self.parts.get_mut(of) {
            part.answered(answer, &way, now, &mut self.events);
        }
    }

    /// Requests that are next.
    #[must_use]
    pub(super) fn requests(&mut self, now: Instant) -> Vec<(DependentRef, Request)> {
        let mut requests = Vec::new();
        loop {
            let open = self.open_level();
            let way = self.way(open);
            for (reference, part) in &mut self.parts {
                if let Some(request) = part.go_on(&way, now, &mut self.events) {
                    requests.push((reference.clone(), request));
                }
            }
            self.forget();
            if self.open_level() == open {
                break;
            }
        }
        for part in self.parts.values_mut() {
            part.tell_trouble(self.order.aim, &mut self.events);
        }
        if self.order.aim == Aim::Down && self.open_level().is_none() {
            self.is_complete = self.owes();
        }
        let protection = self.protection();
        // What is owed without being known as protected may still be on its way down.
        if self.order.aim != Aim::Leave || !self.owes() {
            self.protection = protection;
        }
        requests
    }

    /// Begins nothing more. Returns the dependents that wait for their turn.
    pub(super) fn stop(&mut self) -> Vec<DependentRef> {
        let parts = self.parts.iter_mut();
        let queued = parts.filter(|(_, part)| part.doing == Doing::Queued);
        let stopped = queued.map(|(reference, part)| {
            part.doing = Doing::Idle;
            reference.clone()
        });
        stopped.collect()
    }

    /// Acts and things met since this was last asked.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// When the next request is due that waits for a time.
    pub(super) fn due(&self) -> Option<Instant> {
        let way = self.way(self.open_level());
        let parts = self.parts.values();
        parts.filter_map(|part| part.due(&way)).min()
    }

    /// What all dependents go by; those of this level are worked on, and of those before.
    fn way(&self, open: Option<u32>) -> Way {
        let (aim, expects) = (self.order.aim, self.expects_marks && !self.is_looked_at());
        let handled = self.parts.values().filter(|part| part.is_handled(aim));
        Way {
            order: self.order,
            open,
            last: handled.map(|part| part.level(aim)).max(),
            awaits: self.awaits,
            is_complete: self.is_complete,
            owes: self.owes(),
            expects_marks: expects,
        }
    }

    /// The lowest level that is not done.
    fn open_level(&self) -> Option<u32> {
        let aim = self.order.aim;
        let parts = self.parts.values();
        let open = parts.filter(|part| part.is_handled(aim) && !part.passed);
        open.map(|part| part.level(aim)).min()
    }

    fn forget(&mut self) {
        self.parts.retain(|_, part| !part.is_forgettable());
    }

    /// Tells whether the dependents are scaled down.
    pub(super) fn protection(&self) -> Protection {
        let (owes, before) = (self.owes(), self.protection);
        match self.order.aim {
            Aim::Down if !owes && self.open_level().is_none() => Protection::None,
            Aim::Down if self.is_complete || before == Protection::Active => Protection::Active,
            Aim::Down if self.parts.values().any(|part| part.asked) => Protection::ScalingDown,
            _ if !owes => Protection::None,
            Aim::Up => Protection::Restoring,
            // Somebody has undone a restore.
            _ if before == Protection::None && self.owes_again() => Protection::Restoring,
            _ if before == Protection::None => Protection::Active,
            _ => before,
        }
    }

    /// Aim for them.
    pub fn aim(&self) -> Aim {
        self.order.aim
    }

    /// Tells whether each is at zero, so that a scale-down takes nothing.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Tells whether every dependent has been seen, so that no mark can be unknown.
    pub fn is_looked_at(&self) -> bool {
        self.parts.values().all(|part| part.sure == Sure::Yes)
    }

    /// Tells whether any dependent is owed its replicas.
    pub fn owes(&self) -> bool {
        self.parts.values().any(|part| part.memory.owed)
    }

    /// Tells whether something is owed or keeps its mark, or is being written.
    pub fn is_engaged(&self) -> bool {
        let mut parts = self.parts.values();
        parts.any(|part| part.is_marked() || part.is_writing())
    }

    /// Tells whether something is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.parts.values().any(Part::is_writing)
    }

    /// Tells whether a dependent that a policy asks for is owed its replicas although it was restored: somebody else
    /// has scaled it to zero since.
    pub(super) fn owes_again(&self) -> bool {
        let mut parts = self.parts.values();
        parts.any(|part| part.asked && part.memory.owed && part.again > 0)
    }

    /// Tells whether the dependents are urgent to read and write for a scale-down.
    pub(super) fn is_takeable(&self) -> bool {
        let mut parts = self.parts.values();
        !self.is_complete && !parts.any(|part| part.asked && part.is_refused())
    }

    /// Since when a restore has been allowed, if a dependent still waits for nodes.
    pub fn awaits(&self, now: Instant) -> Option<Instant> {
        let since = self.awaits?;
        let mut parts = self.parts.values();
        let waits = parts.any(|part| {
            let is_down = part.memory.owed && part.memory.unmark_at.is_none();
            is_down && now < since + part.dependent.up.await_nodes
        });
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
        let aim = self.order.aim;
        (self.order, self.protection, self.is_complete).hash(state);
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
