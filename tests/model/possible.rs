//! What may happen next.

use super::{
    action::{Action, Fate, Life, Policy, Shoot},
    environment::{State, World},
    flow::Need,
    operator::{LETS_GO, moment},
};

impl World {
    /// What people, the shoot and the machinery may do.
    pub(super) fn happenings(&self, state: &State) -> Vec<Action> {
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
            if budget.deploys > 0 && state.decided.is_none() {
                actions.push(Action::Decide(index));
            }
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
        if budget.lives > 0 {
            let all = [
                Life::Probed,
                Life::NoWorkers,
                Life::FallingAsleep,
                Life::Deleting,
                Life::Gone,
            ];
            let others = all.into_iter().filter(|life| *life != state.life);
            actions.extend(others.map(Action::SetCluster));
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
        if state.decided.is_some() {
            actions.push(Action::Deploy);
        }
        for place in 0..state.late.len() {
            actions.extend([Action::Arrive(place), Action::Vanish(place)]);
        }
        if state.operators.iter().all(|it| it.deposed) && !state.away && !state.is_forgotten() {
            actions.push(Action::Start);
        }
        actions
    }

    /// What one instance may do, and what may become of it.
    pub(super) fn workings(&self, state: &State, at: usize) -> Vec<Action> {
        let budget = state.budget;
        let operator = &state.operators[at];
        let mut actions = Vec::new();
        if budget.ends > 0 && !operator.deposed {
            actions.extend([Action::Crash(at), Action::Depose(at)]);
            if !operator.ending {
                actions.push(Action::End(at));
            }
        }
        if budget.freezes > 0 && operator.flow.is_some() {
            actions.push(Action::Freeze(at));
        }
        if !operator.ending && !operator.deposed {
            if operator.seen != state.seen() {
                actions.push(Action::See(at));
            }
            if operator.is_probing() {
                actions.push(Action::Probe(at, false));
                if state.decided.is_none() {
                    actions.push(Action::Probe(at, true));
                }
            }
            if operator.may_check(state.shoot) {
                actions.push(Action::Check(at));
            }
            // What is due so late comes when whatever was given up has arrived, or never will.
            let is_due = |due| due <= moment(false) + LETS_GO || state.late.is_empty();
            if operator.due().is_some_and(is_due) && state.decided.is_none() {
                actions.push(Action::Resume(at));
            }
            if operator.asks() && !state.away {
                actions.push(Action::Confirm(at));
            }
            // What goes with its Cluster is not written anew.
            if !state.away && state.life != Life::Gone {
                actions.push(Action::Report(at));
            }
        }
        for index in 0..self.bounds.parts.len() {
            let Some(need) = operator.need(index) else {
                continue;
            };
            let fates: &[Fate] = match (&need, state.away) {
                (_, true) | (Need::Answer, _) => &[],
                (Need::Read, _) => &[Fate::Fails],
                (Need::Write, _) => &[
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
}
