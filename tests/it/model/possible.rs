//! What may happen next.

use super::{
    Fate::{Answered, AnsweredLate, Conflict, Crash, Fails, Forbidden, Late, Unanswered},
    *,
};

/// All but the present one.
fn others<T: Copy + PartialEq>(all: &[T], present: T) -> impl Iterator<Item = T> {
    all.iter().copied().filter(move |it| *it != present)
}

/// Those that can be.
fn those<const N: usize>(actions: [(bool, Action); N]) -> impl Iterator<Item = Action> {
    let possible = actions.into_iter().filter(|(can_be, _)| *can_be);
    possible.map(|(_, action)| action)
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
        let shoots = others(&[Healthy, Silent, Unreadable], state.shoot);
        let checked = others(&[Gated], state.shoot).filter(|_| self.bounds.checks);
        let policies = others(&[Enforce, DryRun, Suspended, Deleted], state.policy);
        let lives = [Probed, NoWorkers, FallingAsleep, Deleting, Gone];
        let mut actions: Vec<Action> = shoots.chain(checked).map(Turn).collect();
        actions.extend(policies.map(SetPolicy));
        actions.extend(others(&lives, state.life).map(SetCluster));
        for (index, (object, _)) in state.stored.parts.iter().enumerate() {
            let Some(object) = object else {
                actions.push(Create(index));
                continue;
            };
            let counts = others(&[0, 1, 3], object.replicas);
            actions.extend(counts.map(|replicas| Scale(index, replicas)));
            actions.extend(those([
                (true, Ignore(index)),
                (true, Delete(index)),
                (object.marked, Unmark(index)),
                (state.decided.is_none(), Decide(index)),
                (object.present != object.replicas, Follow(index)),
            ]));
        }
        let starts = state.operator.is_none() && !state.away && !state.is_forgotten();
        let saves = state.backup.is_none() && state.budget.rollbacks > 0;
        actions.extend(those([
            (!state.away && state.backup.is_some(), RollBack),
            (!state.away && saves, Save),
            (true, Away(!state.away)),
            (state.decided.is_some(), Deploy),
            (starts, Start),
        ]));
        for place in 0..state.late.len() {
            actions.extend([Arrive(place, true), Arrive(place, false)]);
        }
        actions
    }

    /// What the operator may do, and what may become of it.
    fn workings(&self, state: &State, operator: &Operator, actions: &mut Vec<Action>) {
        let lives_on = !operator.ending && !operator.deposed;
        // What is due so late comes when whatever was given up has arrived, or never will.
        let may_wait = |due| state.late.iter().all(|(_, _, until)| due <= *until);
        let is_due = operator.decider.due().is_some_and(may_wait);
        let is_taking = operator.saw == Some(Aim::Down);
        let probes = lives_on && operator.is_probing();
        actions.extend(those([
            (!operator.deposed, Action::Crash),
            (!operator.deposed, Depose),
            (lives_on && probes && is_taking, Freeze),
            (lives_on, End),
            (lives_on && operator.seen != state.seen(), See),
            (probes, Probe(false)),
            (probes && state.decided.is_none(), Probe(true)),
            (lives_on && operator.may_check(state.shoot), Check),
            (lives_on && is_due && state.decided.is_none(), Resume),
            (lives_on && operator.asks, Confirm),
            // What goes with its Cluster is not written anew.
            (lives_on && !state.away && state.life != Gone, Report),
        ]));
        for index in 0..self.bounds.parts.len() {
            let fates: &[Fate] = match (operator.need(index), state.away) {
                (None, _) => continue,
                (Some(Need::Answer(_)), _) | (_, true) => &[Answered],
                (Some(Need::Read(_)), _) if self.bounds.slow => &[Answered, Fails, AnsweredLate],
                (Some(Need::Read(_)), _) => &[Answered, Fails],
                (Some(Need::Write), _) => &[
                    Answered, Fails, Unanswered, Forbidden, Conflict, Late, Crash,
                ],
            };
            actions.extend(fates.iter().map(|fate| Request(index, *fate)));
        }
    }
}
