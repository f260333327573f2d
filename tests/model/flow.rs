//! The flow of an instance of the operator: what production does to a dependent, one request at a time.

use std::hash::{Hash, Hasher};

use dependency_watchdog::{
    cluster::Dependent,
    prober::{
        attempt::{Attempt, Turn},
        flow::{Ending, FlowEvent, FlowPlan, Onward, Settling, What},
        machine::Input,
        plan::{Aim, Family, Observed, Step, Write, levels},
        scale::ScaleError,
    },
};

use super::{
    bounds::Bounds,
    flaws::Flaw,
    operator::{Operator, moment},
};

/// A flow.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Run {
    plan: Plan,
    level: usize,
    pub(crate) ways: Vec<Way>,
    pub(crate) withdrawn: bool,
    /// The evidence is too old.
    pub(crate) lapsed: bool,
    /// Which dependents have been where they belong since it began, or were given up.
    pub(crate) reached: Vec<bool>,
    /// Which have to be really back before the next level.
    pub(crate) owed: Vec<bool>,
}

/// A plan. What it says beside is as the machine has it.
#[derive(Clone, Debug)]
pub(crate) struct Plan(Box<FlowPlan>);

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let plan = &self.0;
        (plan.aim, plan.restore, &plan.dependents).hash(state);
        (&plan.memory, &plan.waited, &plan.delayed).hash(state);
    }
}

/// A dependent in a flow.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Way {
    pub(crate) index: usize,
    settling: Settling,
    attempt: Attempt,
    /// What the first of two reads has shown.
    half: Option<Observed>,
    ended: Option<Ending>,
}

/// What a dependent needs next.
pub(crate) enum Need {
    /// To be read, in one or two requests.
    Read,
    Write(Write),
    /// Nothing: its flow is to stop.
    Stop,
}

fn index_of(dependent: &Dependent) -> usize {
    let name = &dependent.reference.name;
    name[1..].parse().expect("a name ends with a number")
}

impl Operator {
    /// What a dependent needs next, if it is being worked on.
    pub(crate) fn need(&self, index: usize) -> Option<Need> {
        let flow = self.flow.as_ref()?;
        let way = flow.ways.iter().find(|way| way.index == index)?;
        if way.ended.is_some() {
            return None;
        }
        Some(match way.attempt.turn() {
            // As `Warrant::turn` tells.
            Turn::Write(write) => {
                let ends = self.ending && !way.attempt.is_half_written();
                match flow.lapsed || flow.withdrawn || ends {
                    true => Need::Stop,
                    false => Need::Write(write),
                }
            }
            _ if flow.lapsed || flow.withdrawn || self.ending => Need::Stop,
            _ => Need::Read,
        })
    }

    fn way(&mut self, index: usize) -> &mut Way {
        let flow = self.flow.as_mut().expect("a flow is under way");
        let way = flow.ways.iter_mut().find(|way| way.index == index);
        way.expect("it is being worked on")
    }

    /// The flow is to stop: this dependent is not worked on any more.
    pub(crate) fn stop_way(&mut self, index: usize, bounds: &Bounds) {
        let way = self.way(index);
        way.ended = Some(Ending::Stopped);
        if let Some(begun) = way.attempt.begun() {
            self.note(index, What::Interrupted(begun), bounds);
        }
        self.after_level(bounds);
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
        let way = self.way(index);
        let seen = match (seen, way.half.take()) {
            (None, _) => None,
            (Some(seen), None) if seen.family == Family::Scalable => {
                way.half = Some(seen);
                return;
            }
            (Some(seen), None) => Some(seen),
            // The first of two has told the annotations, the second tells the replicas. If there was a
            // change in between, both are read again.
            (Some(seen), Some(half)) if half.resource_version != seen.resource_version => return,
            (Some(seen), Some(_)) => Some(seen),
        };
        if way.attempt.is_in_doubt() {
            return match way.attempt.looked_again(seen.as_ref()) {
                true => self.went_on(index, late, bounds),
                false => self.refused(index, bounds),
            };
        }
        match way.settling.decide(seen.as_ref()) {
            Ok(step) if way.settling.only_looks() => self.onward(index, step, seen, late, bounds),
            Ok(step) => {
                way.attempt.decide(step, seen);
                self.turned(index, late, bounds);
            }
            Err(refusal) => self.fail(index, refusal.into(), bounds),
        }
    }

    /// The write was carried out.
    pub(crate) fn accepted(&mut self, index: usize, version: &str, bounds: &Bounds) {
        self.way(index).attempt.accepted(Some(version));
        self.went_on(index, false, bounds);
    }

    fn went_on(&mut self, index: usize, late: bool, bounds: &Bounds) {
        if let Some(flow) = &mut self.flow
            && flow.aim() == Aim::Restore
        {
            flow.owed[index] = true;
        }
        self.turned(index, late, bounds);
    }

    /// What the write was decided from is not so any more.
    pub(crate) fn overtaken(&mut self, index: usize, bounds: &Bounds) {
        if !self.way(index).attempt.overtaken() {
            self.fail(index, ScaleError::Conflicts, bounds);
        }
    }

    /// The write failed, and may have been carried out all the same: it is read what has become of it.
    pub(crate) fn unanswered(&mut self, index: usize) {
        self.way(index).attempt.unanswered();
    }

    /// A dependent is where the flow wants it.
    pub(crate) fn reached(&mut self, index: usize) {
        if let Some(flow) = &mut self.flow {
            flow.reached[index] = true;
        }
    }

    /// No answer comes, whatever the request was.
    pub(crate) fn unanswered_or_unread(&mut self, index: usize, bounds: &Bounds) {
        match self.need(index) {
            Some(Need::Write(_)) => self.unanswered(index),
            _ => self.refused(index, bounds),
        }
    }

    /// A request failed, and nothing was written by it.
    pub(crate) fn refused(&mut self, index: usize, bounds: &Bounds) {
        let error = ScaleError::Request {
            verb: "patch",
            message: String::new(),
        };
        self.fail(index, error, bounds);
    }

    fn fail(&mut self, index: usize, error: ScaleError, bounds: &Bounds) {
        let way = self.way(index);
        let begun = way.attempt.begun();
        way.ended = Some(way.settling.failed(&error, begun));
        self.note(index, What::Failed(error, begun), bounds);
        self.after_level(bounds);
    }

    fn turned(&mut self, index: usize, late: bool, bounds: &Bounds) {
        if let Turn::Done(step, found) = self.way(index).attempt.turn() {
            self.onward(index, step, found, late, bounds);
        }
    }

    fn onward(
        &mut self,
        index: usize,
        step: Step,
        found: Option<Observed>,
        late: bool,
        bounds: &Bounds,
    ) {
        let way = self.way(index);
        way.attempt = Attempt::new(false);
        let (whats, onward) = way.settling.carried_out(step, found, moment(late));
        if let Onward::Ended(ending) = onward {
            way.ended = Some(ending);
        }
        for what in whats {
            if let (What::Late(_), Some(flow)) = (&what, &mut self.flow) {
                flow.reached[index] = true;
            }
            self.note(index, what, bounds);
        }
        self.after_level(bounds);
    }

    fn note(&mut self, index: usize, mut what: What, bounds: &Bounds) {
        if bounds.flaw == Flaw::WaitsForNothing
            && let What::Failed(_, Some(begun)) | What::Interrupted(begun) = &mut what
        {
            begun.in_flight = false;
        }
        let flow = self.flow.as_ref().expect("a flow is under way");
        let of_it = |dependent: &&Dependent| index_of(dependent) == index;
        let dependent = flow.plan.0.dependents.iter().find(of_it);
        let event = FlowEvent {
            at: self.now(),
            dependent: dependent.expect("it is of the flow").clone(),
            uid: None,
            what,
        };
        self.report_event(&event, bounds);
    }

    /// As `Flow::run`.
    pub(super) fn after_level(&mut self, bounds: &Bounds) {
        while let Some(flow) = &mut self.flow {
            let endings: Option<Vec<Ending>> = flow.ways.iter().map(|way| way.ended).collect();
            let Some(endings) = endings else {
                return;
            };
            let stopped = flow.lapsed || flow.withdrawn || self.ending;
            let ending = match Ending::of_level(&endings) {
                _ if stopped => Ending::Stopped,
                Some(ending) => ending,
                None if flow.begin_level(bounds) => continue,
                None => Ending::Complete,
            };
            self.flow = None;
            self.learn(Input::FlowEnded(ending), bounds);
        }
    }
}

impl Run {
    pub(super) fn new(plan: Box<FlowPlan>, bounds: &Bounds) -> Self {
        let count = bounds.parts.len();
        let mut flow = Self {
            plan: Plan(plan),
            level: 0,
            ways: vec![],
            withdrawn: false,
            lapsed: false,
            reached: vec![false; count],
            owed: vec![false; count],
        };
        for (reference, memory) in &flow.plan.0.memory {
            let dependents = flow.plan.0.dependents.iter();
            for dependent in dependents.filter(|it| it.reference == *reference) {
                flow.owed[index_of(dependent)] = memory.owed;
            }
        }
        flow.begin_level(bounds);
        flow
    }

    pub(crate) fn aim(&self) -> Aim {
        self.plan.0.aim
    }

    /// Begins the next level, if there is one.
    fn begin_level(&mut self, bounds: &Bounds) -> bool {
        let plan = &self.plan.0;
        let levels = match bounds.flaw {
            Flaw::NoOrder => vec![(0, plan.dependents.iter().collect())],
            _ => levels(&plan.dependents, plan.aim),
        };
        let Some((_, members)) = levels.get(self.level) else {
            return false;
        };
        let ways = members.iter().map(|dependent| {
            let memory = plan.memory.get(&dependent.reference).copied();
            let memory = memory.unwrap_or_default();
            let waited = plan.waited.get(&dependent.reference).copied();
            let delayed = plan.delayed.get(&dependent.reference).copied();
            let dependent = (*dependent).clone();
            let (aim, restore) = (plan.aim, plan.restore);
            Way {
                index: index_of(&dependent),
                settling: Settling::new(dependent, aim, restore, memory, waited, delayed),
                attempt: Attempt::new(false),
                half: None,
                ended: None,
            }
        });
        self.ways = ways.collect();
        self.level += 1;
        true
    }
}
