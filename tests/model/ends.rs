//! What comes of a state when nothing goes wrong any more.

use std::rc::Rc;

use super::{
    action::{Action, Fate, Life, Policy, Shoot},
    bounds::Budget,
    environment::{State, World},
    explorer::fingerprint,
    flaws::Flaw,
    object::Object,
    operator::Operator,
    rules,
};

/// So many rounds in which nothing goes wrong bring all to rest ...
const ROUNDS: usize = 12;
/// ... each of so many requests at the most.
const STEPS: usize = 60;

impl World {
    /// Whether it comes to a good end, be the cluster one that is probed again or what it has become, by
    /// a policy that selects it or by none.
    pub(super) fn ends_well(&mut self, state: &State) -> Result<(), String> {
        let flaw = self.bounds.flaw;
        if flaw != Flaw::None && !flaw.shows_in_the_end() {
            return Ok(());
        }
        self.comes_to_rest(state, Policy::Enforce, (Life::Probed, Shoot::Healthy))?;
        let alive = |it: &Rc<Operator>| !it.deposed && !it.ending;
        let learns = state.operator.as_ref().is_some_and(alive);
        let likes: &[(Life, Shoot)] = match state.life {
            // Whoever starts then does not learn of it.
            Life::Gone if !learns && !state.let_go => &[],
            Life::FallingAsleep => &[
                (Life::FallingAsleep, Shoot::Unreadable),
                (Life::FallingAsleep, Shoot::Healthy),
            ],
            life => &[(life, Shoot::Healthy)],
        };
        for like in likes {
            self.comes_to_rest(state, Policy::Enforce, *like)?;
            if state.policy == Policy::Deleted {
                self.comes_to_rest(state, Policy::Deleted, *like)?;
            }
        }
        Ok(())
    }

    fn comes_to_rest(
        &mut self,
        state: &State,
        policy: Policy,
        like: (Life, Shoot),
    ) -> Result<(), String> {
        let mut calm = self.calm(state, policy, like);
        self.apply(&mut calm, &Action::Deploy)?;
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
                let operator = calm.operator.as_deref();
                rules::at_rest(
                    &calm.stored.objects,
                    &calm.stored.wanted,
                    (operator, calm.is_unwanted()),
                    (like.0, like.1 == Shoot::Healthy),
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

    /// Nothing goes wrong any more, and the policy and the cluster are like this.
    fn calm(&self, state: &State, policy: Policy, (life, shoot): (Life, Shoot)) -> State {
        let mut calm = state.clone();
        calm.budget = Budget::default();
        calm.backup = None;
        calm.late.clear();
        calm.away = false;
        calm.shoot = shoot;
        calm.life = life;
        calm.policy = policy;
        calm.operator.take_if(|operator| operator.deposed);
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
            let Some(operator) = &state.operator else {
                if state.is_forgotten() {
                    return Ok(());
                }
                self.apply(state, &Action::Start)?;
                continue;
            };
            if operator.seen != state.seen() && !operator.ending {
                self.apply(state, &Action::See)?;
                continue;
            }
            let mut parts = 0..self.bounds.parts.len();
            match parts.find(|index| operator.need(*index).is_some()) {
                Some(index) => self.apply(state, &Action::Request(index, Fate::Answered))?,
                None => return Ok(()),
            }
        }
        Err(format!("all-restored: {STEPS} requests do not end a flow"))
    }

    /// What is waited for comes about.
    fn go_on(&self, state: &mut State) -> Result<(), String> {
        let is =
            |state: &State, is: fn(&Operator) -> bool| state.operator.as_deref().is_some_and(is);
        if is(state, |operator| operator.due().is_some()) {
            self.apply(state, &Action::Resume)?;
        }
        let asks = is(state, |operator| operator.asks);
        if asks {
            self.apply(state, &Action::Confirm)?;
        }
        if is(state, Operator::is_probing) {
            self.apply(state, &Action::Probe(!asks))?;
        }
        if is(state, |operator| operator.machine.awaits_turn().is_some()) {
            self.apply(state, &Action::TakeTurn)?;
        }
        Ok(())
    }
}
