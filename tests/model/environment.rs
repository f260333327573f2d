//! The seed, the shoot and whoever acts on them: all that may happen, and what comes of it.

use dependency_watchdog::prober::plan::{Aim, Family, Write};

use super::{
    action::{Action, Fate, Life, Policy, Shoot, text, write},
    bounds::{Bounds, Budget},
    explorer::Model,
    flaws::Flaw,
    flow::{Answer, Need},
    object::Object,
    operator::{LETS_GO, Operator, Saved, moment},
    rules::{self, Sender, Wanted},
};
use std::{collections::HashSet, rc::Rc};

/// A write that was given up by its sender.
#[derive(Clone, Debug, Hash)]
pub(super) struct Late {
    index: usize,
    write: String,
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
    pub(super) operators: Vec<Rc<Operator>>,
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
}

/// A model, and which of its states are known to end well.
pub(crate) struct World {
    pub(super) bounds: Bounds,
    pub(super) well: HashSet<u64>,
}

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
            if flow.aim() == Aim::Protect { down } else { up }
        };
        let before = (0..self.bounds.parts.len()).filter(|of| level(*of) < level(index));
        Some(Sender {
            leads: !operator.deposed,
            saw: operator.saw,
            may_write: operator.may_write(flow.aim()),
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
            Some(Need::Read) if fate == Fate::Answered && !state.away => {
                let family = self.family(index);
                let object = state.stored.objects[index].as_ref();
                let seen = object.map(|object| object.observed(family));
                operator.read(index, seen, late, bounds);
            }
            Some(Need::Read) => operator.unread(index, bounds),
            Some(Need::Write) => {
                let write = bounds.flaw.spoil(operator.send(index, bounds));
                let sender = self.sender(&state.operators[at], index);
                rules::sent(index, &write, sender.as_ref())?;
                let fate = if state.away { Fate::Fails } else { fate };
                let answer = match fate {
                    Fate::Answered => {
                        let done = self.write(state, index, &write, sender.as_ref())?;
                        done.map_or(Answer::Overtaken, Answer::Done)
                    }
                    Fate::Unanswered => {
                        self.write(state, index, &write, sender.as_ref())?;
                        Answer::Unanswered
                    }
                    Fate::Crash => {
                        self.write(state, index, &write, sender.as_ref())?;
                        state.operators.remove(at);
                        return Ok(());
                    }
                    Fate::Late => {
                        state.late.push(Late {
                            index,
                            write: text(&write),
                        });
                        Answer::Unanswered
                    }
                    Fate::Fails => Answer::Unanswered,
                    Fate::Forbidden => Answer::Failed,
                    Fate::Conflict => Answer::Overtaken,
                };
                Rc::make_mut(&mut state.operators[at]).sent(index, answer, bounds);
            }
            Some(Need::Answer) => operator.answered(index, bounds),
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
                let reached = rules::is_reached(flow.aim(), object.as_ref(), flow.owed[index]);
                if reached && !flow.reached[index] {
                    Rc::make_mut(operator).reached(index);
                }
            }
        }
        let over = state.operators.iter().position(|it| it.is_over());
        if let Some(over) = over {
            let operator = state.operators.remove(over);
            state.let_go = !operator.ending && operator.machine().debts().is_looked_at();
            // Its last report, or the removal of the ClusterHealth.
            if !state.away {
                let kept = operator.ending && state.life != Life::Gone;
                state.stored.saved = kept.then(|| Rc::new(operator.report()));
            }
        }
    }

    pub(super) fn apply(&self, state: &mut State, action: &Action) -> Result<(), String> {
        let bounds = &self.bounds;
        let seen = state.seen();
        let State {
            stored,
            operators,
            budget,
            policy: in_force,
            life: lived,
            shoot: leases,
            late: given_up,
            decided,
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
            Action::Decide(index) => {
                budget.deploys -= 1;
                let object = stored.objects[index].as_ref();
                let replicas = match object {
                    Some(object) if object.marked => object.replicas,
                    _ => bounds.parts[index].replicas,
                };
                *decided = Some((index, replicas));
            }
            Action::Deploy => {
                if let Some((index, replicas)) = decided.take()
                    && let Some(object) = &mut stored.objects[index]
                {
                    object.replicas = replicas;
                    if !bounds.slow {
                        object.present = replicas;
                    }
                    stored.wanted[index].deployed(replicas);
                }
            }
            Action::Follow(index) => {
                let object = stored.objects[index].as_mut().expect("it is there");
                object.present = object.replicas;
            }
            Action::SetPolicy(policy) => {
                budget.policies -= 1;
                *in_force = policy;
            }
            Action::SetCluster(life) => {
                budget.lives -= 1;
                *lived = life;
                // It goes with the Cluster that owns it.
                if life == Life::Gone {
                    stored.saved = None;
                }
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
                let operator = Operator::start(Some(stored.saved.as_deref()), seen, bounds);
                operators.push(Rc::new(operator));
                state.let_go = false;
            }
            Action::Crash(at) => {
                budget.ends -= 1;
                operators.remove(at);
            }
            Action::End(at) => {
                budget.ends -= 1;
                Rc::make_mut(&mut operators[at]).end(bounds);
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
                Rc::make_mut(&mut operators[at]).freeze(bounds);
            }
            Action::See(at) => Rc::make_mut(&mut operators[at]).see(seen, bounds),
            Action::Probe(at, later) => {
                let operator = Rc::make_mut(&mut operators[at]);
                operator.aged |= later && given_up.is_empty();
                let now = match later {
                    false => operator.now(),
                    true if given_up.is_empty() => moment(true) + operator.damping(),
                    true => operator.now() + LETS_GO,
                };
                operator.probe(*leases, now, bounds);
            }
            Action::Check(at) => Rc::make_mut(&mut operators[at]).check(*leases, bounds),
            Action::Resume(at) => Rc::make_mut(&mut operators[at]).resume(bounds),
            Action::Confirm(at) => {
                let is_probed = *lived == Life::Probed;
                Rc::make_mut(&mut operators[at]).confirm(is_probed, bounds);
            }
            Action::Report(at) => stored.saved = Some(Rc::new(operators[at].report())),
            Action::Request(at, index, fate) => self.request(state, at, index, fate, false)?,
            Action::GiveUp(at, index) => {
                self.request(state, at, index, Fate::Answered, true)?;
            }
        }
        self.settle(state);
        rules::stored(&state.stored.objects, &state.stored.wanted)
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
            decided: None,
            operators: vec![Rc::new(Operator::start(
                None,
                (Policy::Enforce, Life::Probed),
                &self.bounds,
            ))],
            shoot: Shoot::Silent,
            policy: Policy::Enforce,
            life: Life::Probed,
            away: false,
            let_go: false,
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
                Some(Need::Write) => {
                    let mut operator = (*state.operators[*at]).clone();
                    let write = operator.send(*index, &self.bounds);
                    format!("operator: writes d{index}, {}: {fate:?}", text(&write))
                }
                Some(Need::Answer) => format!("operator: learns of its write of d{index}"),
                _ => format!("operator: reads d{index}: {fate:?}"),
            },
            Action::Probe(_, late) => {
                let later = if *late { ", much later" } else { "" };
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
            | Action::Check(_)
            | Action::Resume(_)
            | Action::Confirm(_)
            | Action::Report(_)
            | Action::GiveUp(..) => format!("operator: {action:?}"),
            _ => format!("{action:?}"),
        }
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        self.ends_well(state)
    }
}
