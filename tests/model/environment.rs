//! The seed, the shoot and whoever acts on them, and what comes of all that may happen.

use dependency_watchdog::prober::{
    flow::Written,
    plan::{Aim, Write},
    scale_error::ScaleError,
};

use super::{
    action::{Action, Fate, Life, Policy, Shoot},
    bounds::{Bounds, Budget},
    flaws::Flaw,
    flow::{Need, failure},
    object::{Object, patch},
    operator::{LETS_GO, Operator, Saved, moment},
    rules::{self, Sender, Wanted},
};
use std::{collections::HashSet, rc::Rc};

/// A write that was given up by its sender.
#[derive(Clone, Debug, Hash)]
pub(super) struct Late {
    index: usize,
    write: Write,
}

/// What etcd holds, and what people wanted by then.
#[derive(Clone, Debug, Hash)]
pub(super) struct Stored {
    pub(super) objects: Vec<Option<Object>>,
    pub(super) saved: Option<Rc<Saved>>,
    pub(super) wanted: Vec<Wanted>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct State {
    pub(super) stored: Stored,
    pub(super) backup: Option<Box<Stored>>,
    pub(super) late: Vec<Late>,
    /// The replicas that gardenlet is about to write, and to which dependent. It does so within the minute.
    pub(super) decided: Option<(usize, i32)>,
    pub(super) operator: Option<Rc<Operator>>,
    pub(super) shoot: Shoot,
    pub(super) policy: Policy,
    pub(super) life: Life,
    pub(super) away: bool,
    /// An instance saw that nobody had any use for the cluster any more, and that nothing was left
    /// marked; and none has started since.
    pub(super) let_go: bool,
    pub(super) budget: Budget,
}

impl State {
    /// What an operator that looks now sees.
    pub(super) fn seen(&self) -> (Policy, Life) {
        (self.policy, self.life)
    }

    /// There is nothing to look after.
    pub(super) fn is_unwanted(&self) -> bool {
        self.life == Life::Gone || self.policy == Policy::Deleted
    }

    /// Nobody would know that there was such a cluster. A policy that is deleted is there until the
    /// cluster is let go.
    pub(super) fn is_forgotten(&self) -> bool {
        let unknown = self.life == Life::Gone || self.policy == Policy::Deleted && self.let_go;
        unknown && self.stored.saved.is_none()
    }

    /// The operator, which is there, and a dependent that somebody else changes.
    fn operator(&mut self) -> &mut Operator {
        Rc::make_mut(self.operator.as_mut().expect("it is there"))
    }

    fn object(&mut self, index: usize) -> (&mut Object, &mut Wanted) {
        let object = self.stored.objects[index].as_mut().expect("it is there");
        (object, &mut self.stored.wanted[index])
    }
}

/// A model, and which of its states are known to end well.
pub(crate) struct World {
    pub(super) bounds: Rc<Bounds>,
    pub(super) well: HashSet<u64>,
}

impl World {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds: Rc::new(bounds),
            well: HashSet::new(),
        }
    }

    pub(crate) fn initial(&self) -> State {
        let parts = self.bounds.parts.iter();
        let objects = parts.clone().map(|part| Some(Object::new(part.replicas)));
        let seen = (Policy::Enforce, Life::Probed);
        State {
            stored: Stored {
                objects: objects.collect(),
                saved: None,
                wanted: parts.map(|part| Wanted::new(part.replicas)).collect(),
            },
            backup: None,
            late: vec![],
            decided: None,
            operator: Some(Rc::new(Operator::start(None, seen, &self.bounds))),
            shoot: Shoot::Silent,
            policy: seen.0,
            life: seen.1,
            away: false,
            let_go: false,
            budget: self.bounds.budget,
        }
    }

    /// What comes of it, or which rule it breaks.
    pub(crate) fn next(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        self.apply(&mut next, action)?;
        Ok(next)
    }

    /// What happens, in words.
    pub(crate) fn describe(&self, state: &State, action: &Action) -> String {
        let words = format!("{action:?}");
        match (action, &state.operator) {
            (Action::Probe(_), _) => format!("{words}, the shoot is {:?}", state.shoot),
            (Action::Request(index, _), Some(operator)) => match operator.need(*index) {
                Some(Need::Write) => {
                    let write = Operator::clone(operator).send(*index);
                    format!("{words}: writes {}", patch(&write))
                }
                Some(Need::Answer(written)) => format!("{words}: learns {written:?}"),
                _ => format!("{words}: reads"),
            },
            _ => words,
        }
    }

    /// Carries a write out, and holds it against the rules. Returns the resourceVersion that it makes;
    /// none if it is refused.
    fn write(
        &self,
        stored: &mut Stored,
        index: usize,
        write: &Write,
        sender: Option<&Sender>,
    ) -> Result<Option<String>, String> {
        let before = &stored.objects[index];
        let after = before
            .as_ref()
            .and_then(|it| it.after(write, self.bounds.slow));
        if let (Some(before), Some(after)) = (before, &after) {
            rules::written(index, before, after, &mut stored.wanted[index], sender)?;
            stored.objects[index] = Some(after.clone());
        }
        Ok(after.map(|after| after.version()))
    }

    /// What the rules ask of whoever sends a write for a dependent now.
    fn sender(&self, operator: &Operator, index: usize) -> Sender {
        let flow = operator.flow.as_ref().expect("a flow is under way");
        let level = |of: usize| {
            let (up, down) = self.bounds.parts[of].levels;
            if flow.aim() == Aim::Protect { down } else { up }
        };
        let before = (0..self.bounds.parts.len()).filter(|of| level(*of) < level(index));
        Sender {
            leads: !operator.deposed,
            saw: operator.saw,
            may_write: operator.may_write(flow.aim()),
            confirmed: operator.confirmed || flow.again,
            waits_for: before.filter(|of| !flow.reached[*of]).collect(),
        }
    }

    fn request(&self, state: &mut State, index: usize, fate: Fate) -> Result<(), String> {
        let fate = if state.away { Fate::Fails } else { fate };
        let Some(operator) = state.operator.as_mut().map(Rc::make_mut) else {
            return Ok(());
        };
        match operator.need(index) {
            None => {}
            Some(Need::Read(_)) if fate == Fate::Fails => operator.unread(index),
            Some(Need::Read(_)) => {
                let family = self.bounds.parts[index].family;
                let object = state.stored.objects[index].as_ref();
                let seen = object.map(|object| object.observed(family));
                operator.read(index, seen, fate == Fate::AnsweredLate);
            }
            Some(Need::Write) => {
                let write = self.bounds.flaw.spoil(operator.send(index));
                let sender = self.sender(operator, index);
                rules::sent(index, &write, &sender)?;
                let version = match fate {
                    Fate::Answered | Fate::Unanswered | Fate::Crash => {
                        self.write(&mut state.stored, index, &write, Some(&sender))?
                    }
                    _ => None,
                };
                let written = match (fate, version) {
                    (Fate::Crash, _) => {
                        state.operator = None;
                        return Ok(());
                    }
                    (Fate::Answered, Some(version)) => Written::Done(Some(version)),
                    (Fate::Answered | Fate::Conflict, _) => {
                        Written::Overtaken(ScaleError::Conflicts)
                    }
                    (Fate::Forbidden, _) => Written::Failed(failure()),
                    (Fate::Late, _) => {
                        state.late.push(Late { index, write });
                        Written::Unanswered(failure())
                    }
                    _ => Written::Unanswered(failure()),
                };
                operator.sent(index, written);
            }
            Some(Need::Answer(_)) => operator.answered(index),
        }
        Ok(())
    }

    /// What each part of the model is after whatever has happened.
    fn settle(&self, state: &mut State) {
        let Some(operator) = &mut state.operator else {
            return;
        };
        for (index, object) in state.stored.objects.iter().enumerate() {
            if let Some(flow) = &operator.flow
                && !flow.reached[index]
                && rules::is_reached(flow.aim(), object.as_ref(), flow.owed[index])
            {
                Rc::make_mut(operator).reached(index);
            }
        }
        if operator.is_over() {
            state.let_go = !operator.ending && operator.machine.debts().is_looked_at();
            // Its last report, or the removal of the ClusterHealth.
            if !state.away {
                let kept = operator.ending && state.life != Life::Gone;
                state.stored.saved = kept.then(|| Rc::new(operator.report()));
            }
            state.operator = None;
        }
    }

    pub(super) fn apply(&self, state: &mut State, action: &Action) -> Result<(), String> {
        let bounds = &self.bounds;
        let seen = state.seen();
        if let Some(left) = state.budget.of(action) {
            *left -= 1;
        }
        match *action {
            Action::Turn(shoot) => state.shoot = shoot,
            Action::Scale(index, replicas) => {
                let (object, wanted) = state.object(index);
                wanted.scaled(object, replicas);
                object.scale(replicas, bounds.slow);
            }
            Action::Unmark(index) => {
                let (object, wanted) = state.object(index);
                object.marked = false;
                wanted.unmarked(object);
            }
            Action::Ignore(index) => {
                let (object, wanted) = state.object(index);
                object.ignored = !object.ignored;
                wanted.ignored(object);
            }
            Action::Delete(index) => {
                state.stored.objects[index] = None;
                state.stored.wanted[index] = Wanted::new(bounds.parts[index].replicas);
            }
            Action::Create(index) => {
                let mut object = Object::new(bounds.parts[index].replicas);
                object.created = 1;
                state.stored.objects[index] = Some(object);
            }
            Action::Decide(index) => {
                let marked = state.stored.objects[index].as_ref().filter(|it| it.marked);
                let replicas = marked.map_or(bounds.parts[index].replicas, |it| it.replicas);
                state.decided = Some((index, replicas));
            }
            Action::Deploy => {
                if let Some((index, replicas)) = state.decided.take()
                    && state.stored.objects[index].is_some()
                {
                    let (object, wanted) = state.object(index);
                    object.scale(replicas, bounds.slow);
                    wanted.deployed(replicas);
                }
            }
            Action::Follow(index) => {
                let (object, _) = state.object(index);
                object.present = object.replicas;
            }
            Action::SetPolicy(policy) => state.policy = policy,
            Action::SetCluster(life) => {
                state.life = life;
                // It goes with the Cluster that owns it.
                if life == Life::Gone {
                    state.stored.saved = None;
                }
            }
            Action::Save => state.backup = Some(Box::new(state.stored.clone())),
            Action::RollBack => {
                let backup = state.backup.take();
                state.stored = *backup.expect("it was saved");
            }
            Action::Away(away) => state.away = away,
            Action::Arrive(place) => {
                let Late { index, write } = state.late.remove(place);
                self.write(&mut state.stored, index, &write, None)?;
            }
            Action::Vanish(place) => {
                state.late.remove(place);
            }
            Action::Start => {
                let before = Some(state.stored.saved.as_deref());
                state.operator = Some(Rc::new(Operator::start(before, seen, bounds)));
                state.let_go = false;
            }
            Action::Crash => state.operator = None,
            Action::End => state.operator().end(),
            // It sends nothing any more, and ends.
            Action::Depose if bounds.flaw != Flaw::OutlivesItsLease => state.operator = None,
            Action::Depose => state.operator().deposed = true,
            Action::Freeze => state.operator().freeze(),
            Action::See => state.operator().see(seen),
            Action::Probe(later) => {
                let (shoot, may_arrive) = (state.shoot, !state.late.is_empty());
                let operator = state.operator();
                let now = match later {
                    false => operator.now(),
                    true if may_arrive => operator.now() + LETS_GO,
                    true => moment(true) + operator.damping(),
                };
                operator.aged |= later && !may_arrive;
                operator.probe(shoot, now);
            }
            Action::Check => {
                let shoot = state.shoot;
                state.operator().check(shoot);
            }
            Action::Resume => state.operator().resume(),
            Action::Confirm => {
                let is_readable = !state.away;
                let operator = state.operator();
                operator.confirm(is_readable.then_some(operator.seen == seen));
            }
            Action::TakeTurn => state.operator().take_turn(),
            Action::Report => {
                let report = state.operator().report();
                state.stored.saved = Some(Rc::new(report));
            }
            Action::Request(index, fate) => self.request(state, index, fate)?,
        }
        self.settle(state);
        rules::stored(&state.stored.objects, &state.stored.wanted)
    }
}
