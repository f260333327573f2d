//! What comes of a state when nothing goes wrong any more.

use super::*;

/// So many rounds in which nothing goes wrong bring all to rest ...
const ROUNDS: usize = 24;
/// ... each of so many requests at the most.
const STEPS: usize = 60;
/// In so many pauses between two looks each mark falls, and a Cluster that is gone does not come back.
const RESUMES: usize = 5;

impl World {
    /// Whether it comes to a good end, be the cluster one that is probed again or what it has become, by
    /// a policy that selects it or by none.
    pub(super) fn ends_well(&mut self, state: &State) -> Checked {
        if !self.bounds.flaw.shows_in_the_end() {
            return Ok(());
        }
        self.comes_to_rest(state, Enforce, (Probed, Healthy))?;
        let learns = matches!(&state.operator, Some(it) if !it.deposed && !it.ending);
        // Whoever starts then does not learn of it.
        if state.life == Gone && !learns && !state.let_go {
            return Ok(());
        }
        let like = (state.life, Healthy);
        self.comes_to_rest(state, Enforce, like)?;
        if state.policy == Deleted {
            self.comes_to_rest(state, Deleted, like)?;
        }
        Ok(())
    }

    /// Whether it does once nothing goes wrong any more, and the policy and the cluster are like this.
    fn comes_to_rest(&mut self, state: &State, policy: Policy, like: (Life, Shoot)) -> Checked {
        let mut calm = State {
            budget: Budget::default(),
            backup: None,
            late: vec![],
            away: false,
            life: like.0,
            shoot: like.1,
            policy,
            ..state.clone()
        };
        calm.operator.take_if(|operator| operator.deposed);
        for (part, (object, _)) in self.bounds.parts.iter().zip(&mut calm.stored.parts) {
            object.get_or_insert_with(|| Object::new(part.replicas));
        }
        self.apply(&mut calm, &Deploy)?;
        self.round(&mut calm)?;
        let mut way = Vec::new();
        for _ in 0..ROUNDS {
            let print = fingerprint(&calm);
            // Where another round changes nothing, it has come to rest.
            let rests = way.last() == Some(&print);
            if rests {
                rules::at_rest(&calm)?;
            }
            if rests || self.well.contains(&print) {
                self.well.extend(way);
                return Ok(());
            }
            way.push(print);
            self.go_on(&mut calm)?;
            self.round(&mut calm)?;
        }
        let parts = &calm.stored.parts;
        Err(format!(
            "all-restored: {ROUNDS} rounds without a fault bring no rest: {parts:?}"
        ))
    }

    /// Everybody does what there is to do, until nothing is under way; then the leases are read.
    fn round(&self, state: &mut State) -> Checked {
        for _ in 0..STEPS {
            for index in 0..self.bounds.parts.len() {
                self.apply(state, &Follow(index))?;
            }
            let mut parts = 0..self.bounds.parts.len();
            let next = match &state.operator {
                None if state.is_forgotten() => return Ok(()),
                None => Start,
                Some(it) if it.seen != state.seen() && !it.ending => See,
                Some(it) => match parts.find(|index| it.need(*index).is_some()) {
                    Some(index) => Request(index, Fate::Answered),
                    None => return Ok(()),
                },
            };
            self.apply(state, &next)?;
        }
        Err(format!("all-restored: {STEPS} requests bring no rest"))
    }

    /// What is waited for comes about.
    fn go_on(&self, state: &mut State) -> Checked {
        let is = |of: &State, it: fn(&Operator) -> bool| of.operator.as_deref().is_some_and(it);
        for _ in 0..RESUMES {
            if is(state, |it| it.decider.due().is_some()) {
                self.apply(state, &Resume)?;
            }
        }
        let asks = is(state, |it| it.asks);
        if asks {
            self.apply(state, &Confirm)?;
        }
        if is(state, Operator::is_probing) {
            self.apply(state, &Probe(!asks))?;
        }
        Ok(())
    }
}
