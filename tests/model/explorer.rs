//! Every state that can be reached, breadth first: so the first counterexample found is a shortest one.

use std::{
    collections::HashSet,
    fmt::{self, Display},
    hash::{DefaultHasher, Hash, Hasher},
};

/// What is explored.
pub(crate) trait Model {
    type State: Clone + Hash;
    type Action: Clone;

    fn initial(&self) -> Self::State;

    /// What may happen next.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;

    /// What comes of it, or which rule it breaks.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;

    /// What happens, in words.
    fn describe(&self, state: &Self::State, action: &Self::Action) -> String;

    /// Which rule is broken by what is sure to come of a state.
    fn check(&mut self, state: &Self::State) -> Result<(), String>;
}

/// How much was explored.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    /// The most actions that it takes to reach a state.
    pub(crate) depth: usize,
}

/// How a rule comes to be broken.
#[derive(Debug)]
pub(crate) struct Counterexample {
    pub(crate) broken: String,
    pub(crate) trace: Vec<String>,
}

impl Counterexample {
    /// The name of the rule that is broken.
    pub(crate) fn rule(&self) -> &str {
        self.broken.split(':').next().unwrap_or_default()
    }
}

impl Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            transitions,
            depth,
        } = self;
        write!(
            f,
            "{states} states by {transitions} transitions, up to {depth} deep"
        )
    }
}

impl Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.broken)?;
        for (place, action) in self.trace.iter().enumerate() {
            writeln!(f, "{:3}. {action}", place + 1)?;
        }
        Ok(())
    }
}

/// A state by 64 bits of its hash: among a hundred million states two would share one by chance in
/// one run of four thousand, and one of the two then goes unexplored.
pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Explores the whole of a model.
pub(crate) fn explore<M: Model>(model: &mut M) -> Result<Explored, Counterexample> {
    let initial = model.initial();
    let mut known = HashSet::from([fingerprint(&initial)]);
    // By which action each state was reached first, and from which.
    let mut ways: Vec<Option<(usize, M::Action)>> = vec![None];
    let mut layer = vec![(0, initial)];
    let mut explored = Explored {
        states: 1,
        transitions: 0,
        depth: 0,
    };
    loop {
        let mut next_layer = Vec::new();
        for (place, state) in layer {
            if let Err(broken) = model.check(&state) {
                let mut trace = trace(model, &ways, place, None);
                trace.push("nothing goes wrong any more".to_owned());
                return Err(Counterexample { broken, trace });
            }
            for action in model.actions(&state) {
                explored.transitions += 1;
                let next = model
                    .next(&state, &action)
                    .map_err(|broken| Counterexample {
                        broken,
                        trace: trace(model, &ways, place, Some(&action)),
                    })?;
                if known.insert(fingerprint(&next)) {
                    ways.push(Some((place, action)));
                    next_layer.push((ways.len() - 1, next));
                }
            }
        }
        if next_layer.is_empty() {
            explored.states = known.len();
            return Ok(explored);
        }
        explored.depth += 1;
        layer = next_layer;
    }
}

fn trace<M: Model>(
    model: &M,
    ways: &[Option<(usize, M::Action)>],
    mut place: usize,
    last: Option<&M::Action>,
) -> Vec<String> {
    let mut actions: Vec<&M::Action> = last.into_iter().collect();
    while let Some((from, action)) = &ways[place] {
        actions.push(action);
        place = *from;
    }
    let mut state = model.initial();
    let mut trace = Vec::new();
    for action in actions.into_iter().rev() {
        trace.push(model.describe(&state, action));
        if let Ok(next) = model.next(&state, action) {
            state = next;
        }
    }
    trace
}
