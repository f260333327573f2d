//! Every state that can be reached, breadth first: so the first counterexample found is a shortest one.

use std::{
    collections::HashSet,
    fmt::{self, Display},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{action::Action, environment::World};

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

/// Explores the whole of a world.
pub(crate) fn explore(world: &mut World) -> Result<Explored, Counterexample> {
    let initial = world.initial();
    let mut known = HashSet::from([fingerprint(&initial)]);
    // By which action each state was reached first, and from which.
    let mut ways: Vec<Option<(usize, Action)>> = vec![None];
    let mut layer = vec![(0, initial)];
    let mut explored = Explored {
        states: 1,
        transitions: 0,
        depth: 0,
    };
    loop {
        let mut next_layer = Vec::new();
        for (place, state) in layer {
            if let Err(broken) = world.ends_well(&state) {
                let mut trace = trace(world, &ways, place, None);
                trace.push("nothing goes wrong any more".to_owned());
                return Err(Counterexample { broken, trace });
            }
            for action in world.actions(&state) {
                explored.transitions += 1;
                let next = world
                    .next(&state, &action)
                    .map_err(|broken| Counterexample {
                        broken,
                        trace: trace(world, &ways, place, Some(&action)),
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

fn trace(
    world: &World,
    ways: &[Option<(usize, Action)>],
    mut place: usize,
    last: Option<&Action>,
) -> Vec<String> {
    let mut actions: Vec<&Action> = last.into_iter().collect();
    while let Some((from, action)) = &ways[place] {
        actions.push(action);
        place = *from;
    }
    let mut state = world.initial();
    let mut trace = Vec::new();
    for action in actions.into_iter().rev() {
        trace.push(world.describe(&state, action));
        if let Ok(next) = world.next(&state, action) {
            state = next;
        }
    }
    trace
}
