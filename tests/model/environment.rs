//! The seed, the shoot and whoever acts on them: all that may happen, and what comes of it.

use dependency_watchdog::prober::plan::{Aim, Family, Write};

use super::{
    action::{Action, Fate, Policy, Shoot, text, write},
    bounds::{Bounds, Budget},
    explorer::{Model, fingerprint},
    flaws::Flaw,
    object::Object,
    operator::{Need, Operator, Saved},
    rules::{self, Sender, Wanted},
};
use std::{collections::HashSet, rc::Rc};

/// A write that was given up by its sender.
#[derive(Clone, Debug, Hash)]
struct Late {
    index: usize,
    write: String,
}

/// What etcd holds, and what people wanted by then.
#[derive(Clone, Debug, Hash)]
struct Stored {
    objects: Vec<Option<Object>>,
    saved: Option<Rc<Saved>>,
    wanted: Vec<Wanted>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct State {
    stored: Stored,
    backup: Option<Box<Stored>>,
    late: Vec<Late>,
    operators: Vec<Rc<Operator>>,
    shoot: Shoot,
    policy: Policy,
    away: bool,
    budget: Budget,
}

/// A model, and which of its states are known to end well.
pub(crate) struct World {
    bounds: Bounds,
    well: HashSet<u64>,
}

/// So many rounds in which nothing goes wrong bring all back ...
const ROUNDS: usize = 8;
/// ... each of so many requests at the most.
const STEPS: usize = 60;

impl World {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            well: HashSet::new(),
        }
    }

    fn family(&self, index: usize) -> Family {
        self.bounds.parts[index].family
    }

    /// Carries a write out, and holds it against the rules. Tells the resourceVersion that it makes;
    /// none if it is refused.
    fn write(
        &self,
        state: &mut State,
        index: usize,
        write: &Write,
        sender: Option<&Sender>,
    ) -> Result<Option<String>, String> {
        let Some(before) = state.stored.objects[index].clone() else {
            return Ok(None);
        };
        let Ok(mut after) = before.after(write) else {
            return Ok(None);
        };
        if !self.bounds.slow {
            after.present = after.replicas;
        }
        let wanted = &mut state.stored.wanted[index];
        rules::written(index, &before, &after, wanted, sender)?;
        let version = after.version();
        state.stored.objects[index] = Some(after);
        Ok(Some(version))
    }

    /// What the rules ask of whoever sends a write for a dependent now.
    fn sender(&self, operator: &Operator, index: usize) -> Option<Sender> {
        let flow = operator.flow.as_ref()?;
        let level = |of: usize| {
            let (up, down) = self.bounds.parts[of].levels;
            if flow.aim == Aim::Protect { down } else { up }
        };
        let before = (0..self.bounds.parts.len()).filter(|of| level(*of) < level(index));
        Some(Sender {
            leads: !operator.deposed,
            saw: operator.saw,
            may_write: operator.may_write(flow.aim),
            waits_for: before.filter(|of| !flow.reached[*of]).collect(),
        })
    }

    fn request(
        &self,
        state: &mut State,
        at: usize,
        index: usize,
        fate: Fate,
        late: bool,
    ) -> Result<(), String> {
        let bounds = &self.bounds;
        match fate {
            Fate::Answered => {}
            Fate::Late => state.budget.late -= 1,
            Fate::Crash => state.budget.ends -= 1,
            _ => state.budget.faults -= 1,
        }
        let operator = Rc::make_mut(&mut state.operators[at]);
        match operator.need(index) {
            None => {}
            Some(Need::Stop) => operator.stop_way(index, bounds),
            Some(_) if state.away => operator.unanswered_or_unread(index, bounds),
            Some(Need::Read) if fate == Fate::Answered => {
                let family = self.family(index);
                let object = state.stored.objects[index].as_ref();
                let seen = object.map(|object| object.observed(family));
                operator.read(index, seen, late, bounds);
            }
            Some(Need::Read) => operator.refused(index, bounds),
            Some(Need::Write(write)) => {
                let sender = self.sender(&state.operators[at], index);
                let write = bounds.flaw.spoil(write);
                rules::sent(index, &write, sender.as_ref())?;
                match fate {
                    Fate::Answered => {
                        let done = self.write(state, index, &write, sender.as_ref())?;
                        match done {
                            Some(version) => Rc::make_mut(&mut state.operators[at])
                                .accepted(index, &version, bounds),
                            None => Rc::make_mut(&mut state.operators[at]).overtaken(index, bounds),
                        }
                    }
                    Fate::Unanswered => {
                        self.write(state, index, &write, sender.as_ref())?;
                        Rc::make_mut(&mut state.operators[at]).unanswered(index);
                    }
                    Fate::Crash => {
                        self.write(state, index, &write, sender.as_ref())?;
                        state.operators.remove(at);
                    }
                    Fate::Late => {
                        state.late.push(Late {
                            index,
                            write: text(&write),
                        });
                        Rc::make_mut(&mut state.operators[at]).unanswered(index);
                    }
                    Fate::Fails => Rc::make_mut(&mut state.operators[at]).unanswered(index),
                    Fate::Forbidden => {
                        Rc::make_mut(&mut state.operators[at]).refused(index, bounds)
                    }
                    Fate::Conflict => {
                        Rc::make_mut(&mut state.operators[at]).overtaken(index, bounds)
                    }
                }
            }
        }
        Ok(())
    }

    /// What each part of the model is after whatever has happened.
    fn settle(&self, state: &mut State) {
        for operator in &mut state.operators {
            for (index, object) in state.stored.objects.iter().enumerate() {
                let Some(flow) = &operator.flow else {
                    break;
                };
                let reached = rules::is_reached(flow.aim, object.as_ref(), flow.owed[index]);
                if reached && !flow.reached[index] {
                    Rc::make_mut(operator).reached(index);
                }
            }
        }
        let over = state.operators.iter().position(|it| it.is_over());
        if let Some(over) = over {
            let operator = state.operators.remove(over);
            // Its last report, or the removal of the ClusterHealth.
            if !state.away {
                state.stored.saved = operator.ending.then(|| Rc::new(operator.report()));
            }
        }
    }

    fn apply(&self, state: &mut State, action: &Action) -> Result<(), String> {
        let bounds = &self.bounds;
        let State {
            stored,
            operators,
            budget,
            policy: in_force,
            shoot: leases,
            ..
        } = &mut *state;
        match *action {
            Action::Turn(shoot) => {
                budget.turns -= 1;
                *leases = shoot;
            }
            Action::Scale(index, replicas) => {
                budget.people -= 1;
                let object = stored.objects[index].as_mut().expect("it is there");
                stored.wanted[index].scaled(object, replicas);
                object.replicas = replicas;
                if !bounds.slow {
                    object.present = replicas;
                }
            }
            Action::Unmark(index) => {
                budget.people -= 1;
                let object = stored.objects[index].as_mut().expect("it is there");
                object.marked = false;
                stored.wanted[index].unmarked(object);
            }
            Action::Ignore(index, ignore) => {
                budget.people -= 1;
                let object = stored.objects[index].as_mut().expect("it is there");
                object.ignored = ignore;
                stored.wanted[index].ignored(object);
            }
            Action::Delete(index) => {
                budget.people -= 1;
                stored.objects[index] = None;
                stored.wanted[index] = Wanted::new(bounds.parts[index].replicas);
            }
            Action::Create(index) => {
                let mut object = Object::new(bounds.parts[index].replicas);
                object.created = 1;
                stored.objects[index] = Some(object);
            }
            Action::Follow(index) => {
                let object = stored.objects[index].as_mut().expect("it is there");
                object.present = object.replicas;
            }
            Action::SetPolicy(policy) => {
                budget.policies -= 1;
                *in_force = policy;
            }
            Action::Save => state.backup = Some(Box::new(stored.clone())),
            Action::RollBack => {
                budget.rollbacks -= 1;
                if let Some(backup) = state.backup.take() {
                    state.stored = *backup;
                }
            }
            Action::Away(away) => {
                budget.outages -= u8::from(away);
                state.away = away;
            }
            Action::Arrive(place) => {
                let late = state.late.remove(place);
                let write = write(&late.write);
                self.write(state, late.index, &write, None)?;
            }
            Action::Vanish(place) => {
                state.late.remove(place);
            }
            Action::Start => {
                let operator = Operator::start(stored.saved.as_deref(), *in_force, bounds);
                operators.push(Rc::new(operator));
            }
            Action::Crash(at) => {
                budget.ends -= 1;
                operators.remove(at);
            }
            Action::End(at) => {
                budget.ends -= 1;
                Rc::make_mut(&mut operators[at]).end();
            }
            Action::Depose(at) => {
                budget.ends -= 1;
                Rc::make_mut(&mut operators[at]).deposed = true;
                // It sends nothing any more, and ends.
                if bounds.flaw != Flaw::OutlivesItsLease {
                    operators.remove(at);
                }
            }
            Action::Freeze(at) => {
                budget.freezes -= 1;
                if let Some(flow) = &mut Rc::make_mut(&mut operators[at]).flow {
                    flow.lapsed = true;
                }
            }
            Action::See(at) => Rc::make_mut(&mut operators[at]).see(*in_force, bounds),
            Action::Probe(at, late) => {
                Rc::make_mut(&mut operators[at]).probe(*leases, late, bounds)
            }
            Action::Resume(at) => Rc::make_mut(&mut operators[at]).resume(bounds),
            Action::Report(at) => stored.saved = Some(Rc::new(operators[at].report())),
            Action::Request(at, index, fate) => self.request(state, at, index, fate, false)?,
            Action::GiveUp(at, index) => {
                self.request(state, at, index, Fate::Answered, true)?;
            }
        }
        self.settle(state);
        rules::stored(&state.stored.objects, &state.stored.wanted)
    }

    /// What people, the shoot and the machinery may do.
    fn happenings(&self, state: &State) -> Vec<Action> {
        let budget = state.budget;
        let mut actions = Vec::new();
        if budget.turns > 0 {
            let mut shoots = vec![Shoot::Healthy, Shoot::Silent, Shoot::Unreadable];
            if self.bounds.checks {
                shoots.extend([Shoot::Triggered, Shoot::Gated]);
            }
            let others = shoots.into_iter().filter(|shoot| *shoot != state.shoot);
            actions.extend(others.map(Action::Turn));
        }
        for (index, object) in state.stored.objects.iter().enumerate() {
            let Some(object) = object else {
                actions.push(Action::Create(index));
                continue;
            };
            if object.present != object.replicas {
                actions.push(Action::Follow(index));
            }
            if budget.people > 0 {
                let others = [0, 1, 3].into_iter().filter(|it| *it != object.replicas);
                actions.extend(others.map(|replicas| Action::Scale(index, replicas)));
                actions.push(Action::Ignore(index, !object.ignored));
                actions.push(Action::Delete(index));
                if object.marked {
                    actions.push(Action::Unmark(index));
                }
            }
        }
        if budget.policies > 0 {
            let all = [
                Policy::Enforce,
                Policy::DryRun,
                Policy::Suspended,
                Policy::Deleted,
            ];
            let others = all.into_iter().filter(|policy| *policy != state.policy);
            actions.extend(others.map(Action::SetPolicy));
        }
        if budget.rollbacks > 0 && !state.away {
            actions.push(match state.backup {
                Some(_) => Action::RollBack,
                None => Action::Save,
            });
        }
        if state.away {
            actions.push(Action::Away(false));
        } else if budget.outages > 0 {
            actions.push(Action::Away(true));
        }
        for place in 0..state.late.len() {
            actions.extend([Action::Arrive(place), Action::Vanish(place)]);
        }
        if state.operators.iter().all(|it| it.deposed) && !state.away {
            actions.push(Action::Start);
        }
        actions
    }

    /// What one instance may do, and what may become of it.
    fn workings(&self, state: &State, at: usize) -> Vec<Action> {
        let budget = state.budget;
        let operator = &state.operators[at];
        let mut actions = Vec::new();
        if budget.ends > 0 && !operator.deposed {
            actions.extend([Action::Crash(at), Action::Depose(at)]);
            if !operator.ending {
                actions.push(Action::End(at));
            }
        }
        if budget.freezes > 0 && operator.flow.as_ref().is_some_and(|flow| !flow.lapsed) {
            actions.push(Action::Freeze(at));
        }
        if !operator.ending && !operator.deposed {
            if operator.seen != Some(state.policy) {
                actions.push(Action::See(at));
            }
            if operator.is_probing() {
                actions.extend([Action::Probe(at, false), Action::Probe(at, true)]);
            }
            if operator.agenda.due().is_some() {
                actions.push(Action::Resume(at));
            }
            if !state.away {
                actions.push(Action::Report(at));
            }
        }
        for index in 0..self.bounds.parts.len() {
            let Some(need) = operator.need(index) else {
                continue;
            };
            let fates: &[Fate] = match (&need, state.away) {
                (Need::Stop, _) | (_, true) => &[],
                (Need::Read, _) => &[Fate::Fails],
                (Need::Write(_), _) => &[
                    Fate::Fails,
                    Fate::Unanswered,
                    Fate::Forbidden,
                    Fate::Conflict,
                    Fate::Late,
                    Fate::Crash,
                ],
            };
            let affordable = fates.iter().filter(|fate| match fate {
                Fate::Late => budget.late > 0,
                Fate::Crash => budget.ends > 0,
                _ => budget.faults > 0,
            });
            actions.push(Action::Request(at, index, Fate::Answered));
            actions.extend(affordable.map(|fate| Action::Request(at, index, *fate)));
            if self.bounds.slow && matches!(need, Need::Read) && !state.away {
                actions.push(Action::GiveUp(at, index));
            }
        }
        actions
    }

    /// Nothing goes wrong any more, and a policy asks for the cluster.
    fn calm(&self, state: &State) -> State {
        let mut calm = state.clone();
        calm.budget = Budget::default();
        calm.backup = None;
        calm.late.clear();
        calm.away = false;
        calm.shoot = Shoot::Healthy;
        calm.policy = Policy::Enforce;
        calm.operators.retain(|operator| !operator.deposed);
        for (index, object) in calm.stored.objects.iter_mut().enumerate() {
            let replicas = self.bounds.parts[index].replicas;
            object.get_or_insert_with(|| Object::new(replicas));
        }
        calm
    }

    /// Everybody does what there is to do, until nothing is under way; then the leases are read.
    fn round(&self, state: &mut State) -> Result<(), String> {
        for _ in 0..STEPS {
            for index in 0..self.bounds.parts.len() {
                self.apply(state, &Action::Follow(index))?;
            }
            let Some(operator) = state.operators.first() else {
                self.apply(state, &Action::Start)?;
                continue;
            };
            if operator.seen != Some(state.policy) && !operator.ending {
                self.apply(state, &Action::See(0))?;
                continue;
            }
            let mut parts = 0..self.bounds.parts.len();
            match parts.find(|index| operator.need(*index).is_some()) {
                Some(index) => self.apply(state, &Action::Request(0, index, Fate::Answered))?,
                None => return Ok(()),
            }
        }
        Err(format!("all-restored: {STEPS} requests do not end a flow"))
    }

    /// What is waited for comes about.
    fn go_on(&self, state: &mut State) -> Result<(), String> {
        let due = |operator: &Rc<Operator>| operator.agenda.due().is_some();
        if state.operators.first().is_some_and(due) {
            self.apply(state, &Action::Resume(0))?;
        }
        if state.operators.first().is_some_and(|it| it.is_probing()) {
            self.apply(state, &Action::Probe(0, true))?;
        }
        Ok(())
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        let parts = &self.bounds.parts;
        State {
            stored: Stored {
                objects: parts
                    .iter()
                    .map(|part| Some(Object::new(part.replicas)))
                    .collect(),
                saved: None,
                wanted: parts
                    .iter()
                    .map(|part| Wanted::new(part.replicas))
                    .collect(),
            },
            backup: None,
            late: vec![],
            operators: vec![Rc::new(Operator::start(
                None,
                Policy::Enforce,
                &self.bounds,
            ))],
            shoot: Shoot::Silent,
            policy: Policy::Enforce,
            away: false,
            budget: self.bounds.budget,
        }
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = self.happenings(state);
        for at in 0..state.operators.len() {
            actions.extend(self.workings(state, at));
        }
        actions
    }

    fn next(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        self.apply(&mut next, action)?;
        Ok(next)
    }

    fn describe(&self, state: &State, action: &Action) -> String {
        match action {
            Action::Request(at, index, fate) => match state.operators[*at].need(*index) {
                Some(Need::Write(write)) => {
                    format!("operator: writes d{index}, {}: {fate:?}", text(&write))
                }
                Some(Need::Read) => format!("operator: reads d{index}: {fate:?}"),
                _ => format!("operator: leaves d{index}, since its flow is to end"),
            },
            Action::Probe(_, late) => {
                let later = if *late { ", a day later" } else { "" };
                format!(
                    "operator: probes the shoot, which is {:?}{later}",
                    state.shoot
                )
            }
            Action::Crash(_)
            | Action::End(_)
            | Action::Depose(_)
            | Action::Freeze(_)
            | Action::See(_)
            | Action::Resume(_)
            | Action::Report(_)
            | Action::GiveUp(..) => format!("operator: {action:?}"),
            _ => format!("{action:?}"),
        }
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        let flaw = self.bounds.flaw;
        if flaw != Flaw::None && !flaw.shows_in_the_end() {
            return Ok(());
        }
        let mut calm = self.calm(state);
        self.round(&mut calm)?;
        let mut way = Vec::new();
        for _ in 0..ROUNDS {
            let print = fingerprint(&calm);
            if self.well.contains(&print) {
                self.well.extend(way);
                return Ok(());
            }
            // Where another round changes nothing, it has come to rest.
            if way.last() == Some(&print) {
                rules::at_rest(
                    &calm.stored.objects,
                    &calm.stored.wanted,
                    calm.operators.first().map(|it| &**it),
                )?;
                self.well.extend(way);
                return Ok(());
            }
            way.push(print);
            self.go_on(&mut calm)?;
            self.round(&mut calm)?;
        }
        Err(format!(
            "all-restored: in {ROUNDS} rounds without a fault it has not come to rest: {:?}",
            calm.stored.objects
        ))
    }
}
