//! Every state that can be reached, breadth first: so the first counterexample found is a shortest one.

use super::*;

/// How much was explored.
#[derive(Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    /// The most actions that it takes to reach a state.
    pub(crate) depth: usize,
}

/// A state by 64 bits of its hash: among a hundred million states two would share one by chance in
/// one run of four thousand, and one of the two then goes unexplored.
pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// By which action each state was reached first, and from which; by none the first of all.
type Ways = Vec<(usize, Option<Action>)>;

/// Explores the whole of a world, or says which rule is broken, and by what in turn.
pub(crate) fn explore(bounds: Bounds) -> Result<Explored, Vec<String>> {
    let mut world = World {
        bounds: Rc::new(bounds),
        well: HashSet::new(),
    };
    let initial = world.initial();
    let mut known = HashSet::from([fingerprint(&initial)]);
    let mut ways: Ways = vec![(0, None)];
    let mut queue = VecDeque::from([(0, 0, initial)]);
    let mut explored = Explored::default();
    while let Some((place, depth, state)) = queue.pop_front() {
        explored.depth = depth;
        let ends = world.ends_well(&state);
        ends.map_err(|broken| counterexample(&world, &ways, (place, None), broken))?;
        for action in world.actions(&state) {
            explored.transitions += 1;
            let mut next = state.clone();
            let applied = world.apply(&mut next, &action);
            applied
                .map_err(|broken| counterexample(&world, &ways, (place, Some(&action)), broken))?;
            if known.insert(fingerprint(&next)) {
                queue.push_back((ways.len(), depth + 1, next));
                ways.push((place, Some(action)));
            }
        }
    }
    explored.states = known.len();
    Ok(explored)
}

/// How a rule comes to be broken by this action in that place; if by none, by what comes of it in the end.
fn counterexample(
    world: &World,
    ways: &Ways,
    (mut place, last): (usize, Option<&Action>),
    broken: String,
) -> Vec<String> {
    let mut actions: Vec<&Action> = last.into_iter().collect();
    while let (from, Some(action)) = &ways[place] {
        actions.push(action);
        place = *from;
    }
    let mut state = world.initial();
    let mut trace = vec![broken];
    for action in actions.into_iter().rev() {
        let step = world.describe(&state, action);
        trace.push(format!("{:3}. {step}", trace.len()));
        // The last one breaks a rule.
        let _ = world.apply(&mut state, action);
    }
    if last.is_none() {
        trace.push(format!("{:3}. nothing goes wrong any more", trace.len()));
    }
    trace
}
