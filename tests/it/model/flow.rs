//! The flow of the operator: the machine of production, driven one request at a time.

use super::*;

/// Until when a flow may go on that is not frozen.
pub(crate) fn ever() -> Instant {
    moment(true) + Duration::from_secs(1_000 * 24 * 3600)
}

/// A flow, and what its requests and the rules need to know of it.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Run {
    pub(crate) machine: FlowMachine,
    /// By dependent, what it needs next if it is being worked on.
    needs: Vec<Need>,
    /// Which dependents have been where they belong since it began, or were given up.
    pub(crate) reached: Vec<bool>,
    /// All was down already when it began, so that it only looks whether it still is.
    pub(crate) again: bool,
    /// Which have to be really back before the next level.
    pub(crate) owed: Vec<bool>,
}

/// What a dependent needs next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// To be read, in one or two requests, of which the first has shown this.
    Read(Option<Observed>),
    /// Its turn to be written.
    Write,
    /// The answer to its write.
    Answer(Written),
}

fn index_of(dependent: &DependentRef) -> usize {
    dependent.name[1..].parse().expect("a number")
}

impl Run {
    /// What the dependent in this place of the level needs next.
    fn need(&mut self, place: usize) -> &mut Need {
        let dependent = self.machine.level().nth(place);
        let index = index_of(&dependent.expect("it is in its place").0.reference);
        &mut self.needs[index]
    }

    fn place(&self, index: usize) -> Option<usize> {
        let mut level = self.machine.level();
        level.position(|(dependent, waits)| waits && index_of(&dependent.reference) == index)
    }
}

impl Operator {
    pub(super) fn begin(&mut self, mut plan: Box<FlowPlan>) -> Vec<FlowEffect> {
        let completes = matches!(self.machine.treatment(), Treatment::Complete(..));
        match self.bounds.flaw {
            Flaw::KeepsMarks if completes => return vec![],
            Flaw::DropsMarksAtOnce => plan.purpose.keep_marks = false,
            _ => {}
        }
        plan.valid_until = ever();
        let count = self.bounds.parts.len();
        let mut owed = vec![false; count];
        for dependent in self.machine.debts().status() {
            owed[index_of(&dependent.r#ref)] = dependent.owed;
        }
        self.flow = Some(Run {
            machine: FlowMachine::new(&plan),
            needs: vec![Need::Read(None); count],
            reached: vec![false; count],
            owed,
            again: self.machine.protection() == Protection::Active,
        });
        self.flow_learns(FlowInput::Time, false)
    }

    /// What a dependent needs next, if it is being worked on.
    pub(crate) fn need(&self, index: usize) -> Option<&Need> {
        let flow = self.flow.as_ref()?;
        flow.place(index).map(|_| &flow.needs[index])
    }

    pub(crate) fn run(&mut self) -> &mut Run {
        self.flow.as_mut().expect("a flow is under way")
    }

    /// It is the turn of the write that a dependent needs.
    pub(crate) fn send(&mut self, index: usize) -> Write {
        let write = self.tell(index, FlowInput::Turn, false);
        write.expect("what is queued may be sent")
    }

    /// The answer to a read has come.
    pub(crate) fn read(&mut self, index: usize, seen: Option<Observed>, late: bool) {
        let seen = seen.map(|seen| self.bounds.flaw.blur(seen));
        let need = &mut self.run().needs[index];
        match (&seen, std::mem::replace(need, Need::Read(None))) {
            (Some(now), Need::Read(None)) if now.family == Family::Scalable => {
                *need = Need::Read(seen);
            }
            // The first of two has told the annotations, the second tells the replicas. If there was a
            // change in between, both are read again.
            (Some(now), Need::Read(Some(half)))
                if half.resource_version != now.resource_version => {}
            _ => {
                self.tell(index, |place| FlowInput::Read(place, Ok(seen)), late);
            }
        }
    }

    /// The write was sent, and this became of it. It learns of that later where answers take their time.
    pub(crate) fn sent(&mut self, index: usize, written: Written) {
        let may_be_done = matches!(written, Written::Done(_) | Written::Unanswered(_));
        let flow = self.run();
        flow.owed[index] |= may_be_done && flow.machine.aim() == Aim::Restore;
        flow.needs[index] = Need::Answer(written);
        if !self.bounds.slow_answers {
            self.answered(index);
        }
    }

    /// The answer to the write has come.
    pub(crate) fn answered(&mut self, index: usize) {
        let need = &mut self.run().needs[index];
        if let Need::Answer(written) = std::mem::replace(need, Need::Read(None)) {
            self.tell(index, |place| FlowInput::Written(place, written), false);
        }
    }

    /// Tells the flow something of a dependent. Returns the write that it sends.
    pub(crate) fn tell(
        &mut self,
        index: usize,
        input: impl FnOnce(usize) -> FlowInput,
        late: bool,
    ) -> Option<Write> {
        let place = self.run().place(index)?;
        self.tell_flow(input(place), late)
    }

    /// Tells the flow something. Returns the write that it sends.
    pub(crate) fn tell_flow(&mut self, input: FlowInput, late: bool) -> Option<Write> {
        let told = self.flow_learns(input, late);
        self.take_down(told)
    }

    /// Tells the flow something. Returns what it does, and tells.
    pub(super) fn flow_learns(&mut self, input: FlowInput, late: bool) -> Vec<FlowEffect> {
        let Some(flow) = &mut self.flow else {
            return vec![];
        };
        let mut effects = flow.machine.step(input, moment(late));
        // Time is not counted: what is to be read later may be read at any moment.
        effects.extend(flow.machine.step(FlowInput::Time, ever()));
        for effect in &effects {
            match effect {
                FlowEffect::Queue(place) => *flow.need(*place) = Need::Write,
                FlowEffect::Read(place) | FlowEffect::Drop(place) => {
                    let need = flow.need(*place);
                    if !matches!(need, Need::Answer(_)) {
                        *need = Need::Read(None);
                    }
                }
                _ => {}
            }
        }
        let is_end = |effect: &FlowEffect| matches!(effect, FlowEffect::End(_));
        if let Some(end) = effects.iter().position(is_end) {
            effects.truncate(end + 1);
            self.flow = None;
        }
        effects
    }

    /// Takes down what the flow has told, in that order. Returns the write that it sends.
    pub(super) fn take_down(&mut self, mut told: Vec<FlowEffect>) -> Option<Write> {
        let mut sent = None;
        while !told.is_empty() {
            let follows = match told.remove(0) {
                FlowEffect::Tell(mut event) => {
                    if let (What::Late(_), Some(flow)) = (&event.what, &mut self.flow) {
                        flow.reached[index_of(&event.dependent.reference)] = true;
                    }
                    if self.bounds.flaw == Flaw::WaitsForNothing
                        && let What::Failed(_, Some(begun)) | What::Interrupted(begun) =
                            &mut event.what
                    {
                        begun.in_flight = false;
                    }
                    self.aged &= !event.what.has_given_up();
                    self.decide(Input::Flow(&event), self.now())
                }
                FlowEffect::End(ending) => self.decide(Input::FlowEnded(ending), self.now()),
                FlowEffect::Write(_, write) => {
                    sent = Some(write);
                    continue;
                }
                _ => continue,
            };
            told.extend(follows);
        }
        sent
    }
}

/// A request that failed.
pub(crate) fn failure() -> ScaleError {
    ScaleError::Request {
        verb: "patch",
        message: String::new(),
    }
}
