//! The flow of an instance of the operator: the machine of production, driven one request at a time.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    mem,
    time::Duration,
};

use dependency_watchdog::{
    cluster::Dependent,
    prober::{
        flow::{Ending, FlowEffect, FlowEvent, FlowInput, FlowMachine, FlowPlan, What, Written},
        machine::Input,
        plan::{Aim, Family, Observed, Write},
        scale::ScaleError,
    },
};
use tokio::time::Instant;

use super::{
    bounds::Bounds,
    flaws::Flaw,
    operator::{Operator, moment},
};

/// Until when a flow may go on that is not frozen.
pub(crate) const EVER: Duration = Duration::from_secs(1_000 * 24 * 3600);

/// A flow, and what its requests and the rules need to know of it.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Run {
    machine: FlowMachine,
    /// By dependent, what the first of two reads has shown.
    halves: Vec<Option<Observed>>,
    /// By dependent, whether its write is queued.
    writes: Vec<bool>,
    /// By dependent, what became of the write that was sent, of which it has not learnt yet.
    answers: Vec<Option<Answer>>,
    /// Which dependents have been where they belong since it began, or were given up.
    pub(crate) reached: Vec<bool>,
    /// Which have to be really back before the next level.
    pub(crate) owed: Vec<bool>,
    ended: bool,
}

/// What a flow has told and is not taken down yet, and whether it is being taken down: nothing, between
/// two events of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(VecDeque<Told>, bool);

#[derive(Clone, Debug)]
enum Told {
    Event(Box<FlowEvent>),
    End(Ending),
}

impl Hash for Outbox {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What a dependent needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To be read, in one or two requests.
    Read,
    /// Its turn to be written.
    Write,
    /// The answer to its write.
    Answer,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// It was carried out, and the object has this resourceVersion by it.
    Done(String),
    Overtaken,
    Unanswered,
    Failed,
}

fn index_of(dependent: &Dependent) -> usize {
    let name = &dependent.reference.name;
    name[1..].parse().expect("a name ends with a number")
}

impl Run {
    pub(crate) fn aim(&self) -> Aim {
        self.machine.aim()
    }

    fn index(&self, place: usize) -> usize {
        let dependent = self.machine.level().nth(place);
        index_of(dependent.expect("it is in its place").0)
    }

    fn place(&self, index: usize) -> Option<usize> {
        let mut level = self.machine.level();
        level.position(|(dependent, waits)| waits && index_of(dependent) == index)
    }
}

impl Operator {
    pub(super) fn begin(&mut self, mut plan: Box<FlowPlan>, bounds: &Bounds) {
        let count = bounds.parts.len();
        let mut owed = vec![false; count];
        for task in &plan.tasks {
            owed[index_of(&task.dependent)] = task.memory.owed;
        }
        plan.valid_until = moment(true) + EVER;
        if bounds.flaw == Flaw::NoOrder {
            for task in &mut plan.tasks {
                (task.dependent.up.level, task.dependent.down.level) = (0, 0);
            }
        }
        self.flow = Some(Run {
            machine: FlowMachine::new(&plan, false),
            halves: vec![None; count],
            writes: vec![false; count],
            answers: vec![None; count],
            reached: vec![false; count],
            owed,
            ended: false,
        });
        self.flow_learns(FlowInput::Time, moment(false), bounds);
    }

    /// What a dependent needs next, if it is being worked on.
    pub(crate) fn need(&self, index: usize) -> Option<Need> {
        let flow = self.flow.as_ref()?;
        flow.place(index)?;
        Some(match (flow.writes[index], &flow.answers[index]) {
            (_, Some(_)) => Need::Answer,
            (true, None) => Need::Write,
            (false, None) => Need::Read,
        })
    }

    /// It is the turn of the write that a dependent needs.
    pub(crate) fn send(&mut self, index: usize, bounds: &Bounds) -> Write {
        let write = self.tell(index, FlowInput::Turn, false, bounds);
        write.expect("what is queued may be sent")
    }

    /// The answer to a read has come.
    pub(crate) fn read(
        &mut self,
        index: usize,
        seen: Option<Observed>,
        late: bool,
        bounds: &Bounds,
    ) {
        let seen = seen.map(|seen| bounds.flaw.blur(seen));
        let flow = self.flow.as_mut().expect("a flow is under way");
        match (&seen, mem::take(&mut flow.halves[index])) {
            (Some(now), None) if now.family == Family::Scalable => {
                flow.halves[index] = seen;
                return;
            }
            // The first of two has told the annotations, the second tells the replicas. If there was a
            // change in between, both are read again.
            (Some(now), Some(half)) if half.resource_version != now.resource_version => return,
            _ => {}
        }
        self.tell(
            index,
            |place| FlowInput::Read(place, Ok(seen)),
            late,
            bounds,
        );
    }

    /// The write was sent, and this became of it. It learns of that later where answers take their time.
    pub(crate) fn sent(&mut self, index: usize, answer: Answer, bounds: &Bounds) {
        let flow = self.flow.as_mut().expect("a flow is under way");
        let may_be_done = matches!(answer, Answer::Done(_) | Answer::Unanswered);
        flow.owed[index] |= may_be_done && flow.aim() == Aim::Restore;
        flow.answers[index] = Some(answer);
        if !bounds.slow_answers {
            self.answered(index, bounds);
        }
    }

    /// The answer to the write has come.
    pub(crate) fn answered(&mut self, index: usize, bounds: &Bounds) {
        let flow = self.flow.as_mut().expect("a flow is under way");
        let written = match flow.answers[index].take().expect("a write was sent") {
            Answer::Done(version) => Written::Done(Some(version)),
            Answer::Overtaken => Written::Overtaken(ScaleError::Conflicts),
            Answer::Unanswered => Written::Unanswered(failure()),
            Answer::Failed => Written::Failed(failure()),
        };
        let written = |place| FlowInput::Written(place, written);
        self.tell(index, written, false, bounds);
    }

    /// A dependent is where the flow wants it.
    pub(crate) fn reached(&mut self, index: usize) {
        if let Some(flow) = &mut self.flow {
            flow.reached[index] = true;
        }
    }

    /// It could not be read.
    pub(crate) fn unread(&mut self, index: usize, bounds: &Bounds) {
        let unread = |place| FlowInput::Read(place, Err(failure()));
        self.tell(index, unread, false, bounds);
    }

    fn tell(
        &mut self,
        index: usize,
        input: impl FnOnce(usize) -> FlowInput,
        late: bool,
        bounds: &Bounds,
    ) -> Option<Write> {
        let place = self.flow.as_ref()?.place(index)?;
        self.flow_learns(input(place), moment(late), bounds)
    }

    /// Tells the flow, and takes down what it has done; tells the write that it sends.
    pub(super) fn flow_learns(
        &mut self,
        input: FlowInput,
        now: Instant,
        bounds: &Bounds,
    ) -> Option<Write> {
        let flow = self.flow.as_mut().filter(|flow| !flow.ended)?;
        let mut effects = flow.machine.step(input, now);
        // Time is not counted: what is to be read later may be read at any moment.
        effects.extend(flow.machine.step(FlowInput::Time, moment(true) + EVER));
        let mut sent = None;
        for effect in effects {
            match effect {
                FlowEffect::Read { place, .. } | FlowEffect::Drop(place) => {
                    let index = flow.index(place);
                    flow.halves[index] = None;
                    flow.writes[index] = false;
                }
                FlowEffect::Queue(place) => {
                    let index = flow.index(place);
                    flow.writes[index] = true;
                }
                FlowEffect::Write(place, write) => {
                    let index = flow.index(place);
                    flow.writes[index] = false;
                    sent = Some(write);
                }
                FlowEffect::Tell(event) => self.told.0.push_back(Told::Event(event)),
                FlowEffect::End(ending) => {
                    if !mem::replace(&mut flow.ended, true) {
                        self.told.0.push_back(Told::End(ending));
                    }
                }
            }
        }
        self.take_down(bounds);
        sent
    }

    /// Takes down what the flow has told, in that order.
    fn take_down(&mut self, bounds: &Bounds) {
        if mem::replace(&mut self.told.1, true) {
            return;
        }
        while let Some(told) = self.told.0.pop_front() {
            let Told::Event(mut event) = told else {
                self.flow = None;
                if let Told::End(ending) = told {
                    self.learn(Input::FlowEnded(ending), bounds);
                }
                continue;
            };
            if let (What::Late(_), Some(flow)) = (&event.what, &mut self.flow) {
                flow.reached[index_of(&event.dependent)] = true;
            }
            if bounds.flaw == Flaw::WaitsForNothing
                && let What::Failed(_, Some(begun)) | What::Interrupted(begun) = &mut event.what
            {
                begun.in_flight = false;
            }
            self.aged &= !event.what.has_given_up();
            self.learn(Input::Flow(&event), bounds);
        }
        self.told.1 = false;
    }

    /// The process is frozen until the evidence for its flow counts no more.
    pub(crate) fn freeze(&mut self, bounds: &Bounds) {
        self.flow_learns(FlowInput::Extend(moment(false)), moment(true), bounds);
    }
}

/// A request that failed.
fn failure() -> ScaleError {
    ScaleError::Request {
        verb: "patch",
        message: String::new(),
    }
}
