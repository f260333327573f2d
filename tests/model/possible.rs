//! What may happen next.

use super::{
    action::{Action, Fate, Life, Policy, Shoot},
    environment::{State, World},
    flow::Need,
    operator::{LETS_GO, Operator, moment},
};

/// All but the present one.
fn others<T: Copy + PartialEq>(all: &[T], present: T) -> impl Iterator<Item = T> {
    all.iter().copied().filter(move |it| *it != present)
}

impl World {
    /// What may happen next, as far as the budget goes.
    pub(crate) fn actions(&self, state: &State) -> Vec<Action> {
        let mut actions = self.happenings(state);
        if let Some(operator) = &state.operator {
            self.workings(state, operator, &mut actions);
        }
        let mut budget = state.budget;
        actions.retain(|action| budget.of(action).is_none_or(|left| *left > 0));
        actions
    }

    /// What people, the shoot and the machinery may do.
    fn happenings(&self, state: &State) -> Vec<Action> {
        // The last two are of checks.
        let shoots = if self.bounds.checks { 5 } else { 3 };
        let shoots = others(&Shoot::ALL[..shoots], state.shoot).map(Action::Turn);
        let policies = others(&Policy::ALL, state.policy).map(Action::SetPolicy);
        let lives = others(&Life::ALL, state.life).map(Action::SetCluster);
        let mut actions: Vec<Action> = shoots.chain(policies).chain(lives).collect();
        for (index, object) in state.stored.objects.iter().enumerate() {
            let Some(object) = object else {
                actions.push(Action::Create(index));
                continue;
            };
            if state.decided.is_none() {
                actions.push(Action::Decide(index));
            }
            if object.present != object.replicas {
                actions.push(Action::Follow(index));
            }
            let counts = others(&[0, 1, 3], object.replicas);
            actions.extend(counts.map(|replicas| Action::Scale(index, replicas)));
            actions.extend([Action::Ignore(index), Action::Delete(index)]);
            if object.marked {
                actions.push(Action::Unmark(index));
            }
        }
        if state.backup.is_some() && !state.away {
            actions.push(Action::RollBack);
        } else if state.budget.rollbacks > 0 && !state.away {
            actions.push(Action::Save);
        }
        actions.push(Action::Away(!state.away));
        if state.decided.is_some() {
            actions.push(Action::Deploy);
        }
        for place in 0..state.late.len() {
            actions.extend([Action::Arrive(place), Action::Vanish(place)]);
        }
        if state.operator.is_none() && !state.away && !state.is_forgotten() {
            actions.push(Action::Start);
        }
        actions
    }

    /// What the operator may do, and what may become of it.
    fn workings(&self, state: &State, operator: &Operator, actions: &mut Vec<Action>) {
        if !operator.deposed {
            actions.extend([Action::Crash, Action::Depose]);
        }
        if operator.flow.is_some() {
            actions.push(Action::Freeze);
        }
        if !operator.ending && !operator.deposed {
            actions.push(Action::End);
            if operator.seen != state.seen() {
                actions.push(Action::See);
            }
            if operator.is_probing() {
                actions.push(Action::Probe(false));
            }
            if operator.is_probing() && state.decided.is_none() {
                actions.push(Action::Probe(true));
            }
            if operator.may_check(state.shoot) {
                actions.push(Action::Check);
            }
            // What is due so late comes when whatever was given up has arrived, or never will.
            let is_due = |due| due <= moment(false) + LETS_GO || state.late.is_empty();
            if operator.due().is_some_and(is_due) && state.decided.is_none() {
                actions.push(Action::Resume);
            }
            if operator.asks {
                actions.push(Action::Confirm);
            }
            if operator.machine.awaits_turn().is_some() {
                actions.push(Action::TakeTurn);
            }
            // What goes with its Cluster is not written anew.
            if !state.away && state.life != Life::Gone {
                actions.push(Action::Report);
            }
        }
        for index in 0..self.bounds.parts.len() {
            let fates: &[Fate] = match (operator.need(index), state.away) {
                (None, _) => continue,
                (Some(Need::Answer(_)), _) | (_, true) => &[Fate::Answered],
                (Some(Need::Read(_)), _) if self.bounds.slow => {
                    &[Fate::Answered, Fate::AnsweredLate, Fate::Fails]
                }
                (Some(Need::Read(_)), _) => &[Fate::Answered, Fate::Fails],
                (Some(Need::Write), _) => &[
                    Fate::Answered,
                    Fate::Fails,
                    Fate::Unanswered,
                    Fate::Forbidden,
                    Fate::Conflict,
                    Fate::Late,
                    Fate::Crash,
                ],
            };
            actions.extend(fates.iter().map(|fate| Action::Request(index, *fate)));
        }
    }
}
