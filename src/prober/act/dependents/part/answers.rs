//! What an answer about a dependent changes.

use std::time::Duration;

use tokio::time::Instant;

use super::{Doing, Part, Sure, Way};
use crate::{
    prober::{
        dependents::{Answer, Event, Problem, What, Written},
        scale_error::CONFLICTS,
        step::{Aim, Memory, Observed, PROBATION, Record, Step},
    },
    runtime::seed::REQUEST_LIMIT,
};

/// Time for which a write that was given up, by this process or an earlier one, may still take effect after the seed
/// answers again. An API server drops it within [`REQUEST_LIMIT`]; an etcd that hung, and answers again, has executed
/// it long before.
pub(super) const DOUBT: Duration = Duration::from_secs(2 * REQUEST_LIMIT.as_secs());

impl Part {
    /// Takes in what came of its request.
    pub(in crate::prober::act::dependents) fn answered(
        &mut self,
        answer: Answer,
        way: &Way,
        now: Instant,
        events: &mut Vec<Event>,
    ) {
        match (answer, self.doing) {
            (Answer::Read(Ok(found)), Doing::Reading { since, .. }) => {
                self.seen(found, since, way, now, events);
            }
            (Answer::Read(Err(error)), Doing::Reading { .. }) => {
                self.doing = Doing::Idle;
                let lost = self.lost.as_ref().map(|(_, _, lost)| lost.clone());
                self.fail(&lost.unwrap_or(error), way, now, events);
            }
            (Answer::Turn, Doing::Queued) => self.doing = Doing::Turn,
            (Answer::Written(written), Doing::Writing { step, aim }) => {
                self.doing = Doing::Idle;
                self.look_at = None;
                self.written((step, aim), written, way, now, events);
            }
            _ => {}
        }
    }

    fn written(
        &mut self,
        (step, aim): (Step, Aim),
        written: Written,
        way: &Way,
        now: Instant,
        events: &mut Vec<Event>,
    ) {
        match written {
            Written::Done => {
                self.did(step, aim, way, now, events);
                // What is only marked is scaled next.
                if !matches!(step, Step::Mark { .. }) {
                    self.look_at = Some(self.look(now));
                }
            }
            Written::Overtaken(error) if self.conflicts >= CONFLICTS => {
                self.fail(&error, way, now, events);
            }
            Written::Overtaken(_) => self.conflicts += 1,
            Written::Unanswered(error) => {
                self.sure = Sure::No;
                // It is owed before it is known whether it was taken; what may be back is, until that is seen.
                if let Step::ScaleDown { from: replicas } | Step::ScaleUp { to: replicas } = step {
                    (self.memory.owed, self.passed) = (true, false);
                    self.memory.replicas = Some(replicas);
                }
                self.lost = Some((step, aim, error));
            }
            Written::Failed(error) => self.fail(&error, way, now, events),
        }
    }

    /// A step was carried out.
    fn did(&mut self, step: Step, aim: Aim, way: &Way, now: Instant, events: &mut Vec<Event>) {
        let (memory, falls_at) = (&mut self.memory, now + PROBATION);
        match step {
            Step::Mark { from } => {
                memory.replicas = Some(from);
                memory.unmark_at.get_or_insert(falls_at);
            }
            Step::ScaleDown { from } => {
                *memory = Memory {
                    owed: true,
                    replicas: Some(from),
                    unmark_at: None,
                };
                self.waits = Some((Aim::Down, now));
                // From here on the zero is ours.
                self.again = 0;
            }
            Step::ScaleUp { to } => {
                *memory = Memory {
                    owed: true,
                    replicas: Some(to),
                    unmark_at: Some(falls_at),
                };
                self.waits = Some((Aim::Up, now));
                self.begun = None;
                if self.nodes_by(way).is_some_and(|by| by <= now) {
                    let waited = self.dependent.up.await_nodes;
                    events.push(self.event(aim, What::Unready(waited)));
                }
            }
            Step::Record { replicas } => memory.replicas = Some(replicas),
            Step::Unmark { with_record: true } => memory.unmark_at = None,
            Step::Unmark { with_record: false } => *memory = Memory::default(),
        }
        (self.problem, self.conflicts) = (None, 0);
        self.passed &= !self.memory.owed;
        if let Some(found) = self.found.clone() {
            events.push(self.event(aim, What::Did(step, found)));
        }
    }

    /// It was read.
    fn seen(
        &mut self,
        found: Option<Observed>,
        since: Instant,
        way: &Way,
        now: Instant,
        events: &mut Vec<Event>,
    ) {
        self.doing = Doing::Seen;
        self.sure = match self.sure {
            Sure::No => Sure::From(now + DOUBT),
            Sure::From(at) if since < at => Sure::From(at),
            _ => Sure::Yes,
        };
        let lost = self.lost.take();
        let written = lost.as_ref().map(|(step, aim, _)| (*step, *aim));
        let written = written.filter(|(step, _)| is_written(*step, found.as_ref()));
        if let Some((step, aim)) = written {
            self.did(step, aim, way, now, events);
        }
        let (before, aim) = (self.memory, way.order.aim);
        self.left = Problem::left_behind(found.as_ref(), before, &self.dependent);
        self.memory = remembered(found.as_ref(), before, aim, now);
        self.found = found;
        let is_at_zero = self.memory.owed && self.memory.unmark_at.is_none();
        if is_at_zero && before.unmark_at.is_some() {
            self.again += 1;
        }
        if !self.is_marked() {
            self.again = 0;
        }
        if let Some((.., error)) = lost.filter(|_| written.is_none()) {
            self.doing = Doing::Idle;
            self.fail(&error, way, now, events);
        }
    }
}

/// Tells whether a write whose answer was lost has taken effect, as far as this shows.
fn is_written(step: Step, found: Option<&Observed>) -> bool {
    found.is_some_and(|found| match step {
        Step::Mark { from } => found.marked && found.record == Record::Replicas(from),
        Step::ScaleDown { .. } => found.marked && found.replicas == 0,
        Step::ScaleUp { to } => found.marked && found.replicas == to,
        Step::Record { replicas } => found.record == Record::Replicas(replicas),
        Step::Unmark { .. } => !found.marked,
    })
}

/// Memory of a dependent that was found so.
fn remembered(found: Option<&Observed>, before: Memory, aim: Aim, now: Instant) -> Memory {
    let Some(found) = found else {
        return before;
    };
    let replicas = found.record.replicas().or(before.replicas);
    let comes_up = before.owed && found.replicas > 0 && !found.running;
    match (found.replicas, found.marked) {
        (0, true) => Memory {
            owed: true,
            replicas,
            unmark_at: None,
        },
        // Unless it is still on its way, whoever has scaled it up.
        (_, true) => Memory {
            owed: comes_up,
            replicas,
            unmark_at: before.unmark_at.or(Some(now + PROBATION)),
        },
        (_, false) if comes_up && aim == Aim::Up && !found.ignored => before,
        // Ignored, or without a mark.
        (_, false) => Memory::default(),
    }
}
