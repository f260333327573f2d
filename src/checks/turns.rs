//! Whose turn it is when more runs are due than may be under way at once.
//!
//! A run that hangs keeps its place until its timeout, and those of one policy hang together: what
//! they ask may be away in all of its clusters. So a policy takes a place only while it has fewer than
//! are free. One alone gets half of them, two get a third each, and there are always some for another.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Gives out places. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Those that have places, or wait for one.
    policies: BTreeMap<Arc<str>, Claim>,
}

#[derive(Debug, Default)]
struct Claim {
    held: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A place, for as long as this lives.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    policy: Arc<str>,
}

impl Turns {
    /// So many places.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: places,
            policies: BTreeMap::new(),
        })))
    }

    /// Waits for a place for a run of this policy. Whoever drops this waits no more.
    pub(super) async fn take(&self, policy: &Arc<str>) -> Turn {
        loop {
            // The sender is kept until there is a place to send.
            if let Ok(turn) = self.ask(policy).await {
                return turn;
            }
        }
    }

    fn ask(&self, policy: &Arc<str>) -> oneshot::Receiver<Turn> {
        let (sender, turn) = oneshot::channel();
        let mut state = self.lock();
        let claim = state.policies.entry(policy.clone()).or_default();
        claim.waiting.push_back(sender);
        let given = state.give_out(self);
        drop(state);
        hand_over(given);
        turn
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Given = Vec<(oneshot::Sender<Turn>, Turn)>;

impl State {
    /// Gives out what may be given, to whoever has the fewest first.
    fn give_out(&mut self, turns: &Turns) -> Given {
        let mut given = Vec::new();
        self.policies.retain(|_, claim| {
            while claim
                .waiting
                .front()
                .is_some_and(oneshot::Sender::is_closed)
            {
                claim.waiting.pop_front();
            }
            claim.held > 0 || !claim.waiting.is_empty()
        });
        loop {
            let waiting = self.policies.iter_mut();
            let waiting = waiting.filter(|(_, claim)| !claim.waiting.is_empty());
            let next = waiting.min_by_key(|(_, claim)| claim.held);
            let Some((policy, claim)) = next.filter(|(_, claim)| claim.held < self.free) else {
                return given;
            };
            if let Some(sender) = claim.waiting.pop_front() {
                claim.held += 1;
                self.free -= 1;
                let (turns, policy) = (turns.clone(), policy.clone());
                given.push((sender, Turn { turns, policy }));
            }
        }
    }
}

/// Not while the places are locked: what nobody waits for any more is given back at once.
fn hand_over(given: Given) {
    for (sender, turn) in given {
        drop(sender.send(turn));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.free += 1;
        if let Some(claim) = state.policies.get_mut(&self.policy) {
            claim.held -= 1;
        }
        let given = state.give_out(&self.turns);
        drop(state);
        hand_over(given);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    fn policy(name: &str) -> Arc<str> {
        name.into()
    }

    /// As many as there are at once.
    fn take(turns: &Turns, name: &str) -> Vec<Turn> {
        let policy = policy(name);
        std::iter::from_fn(|| turns.take(&policy).now_or_never()).collect()
    }

    #[test]
    fn one_policy_leaves_as_many_as_it_has() {
        let turns = Turns::new(8);
        let first = take(&turns, "a");
        assert_eq!(first.len(), 4);
        let second = take(&turns, "b");
        assert_eq!(second.len(), 2);
        let third = take(&turns, "c");
        assert_eq!(third.len(), 1);
        drop((first, second, third));
        let state = turns.lock();
        assert_eq!((state.free, state.policies.len()), (8, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Ask(usize),
        GiveUp(usize),
        GiveBack(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0_usize..4).prop_map(Step::Ask),
            1 => any::<usize>().prop_map(Step::GiveUp),
            2 => any::<usize>().prop_map(Step::GiveBack),
        ];
        prop::collection::vec(step, 0..80)
    }

    proptest! {
        /// No more are given out than there are, none is lost, and nobody waits who may have one.
        #[test]
        fn places_are_neither_lost_nor_kept_back(places in 1_usize..12, steps in steps()) {
            let turns = Turns::new(places);
            let names = ["a", "b", "c", "d"].map(policy);
            let mut waiting = Vec::new();
            let mut held: Vec<(usize, Turn)> = Vec::new();
            for step in steps {
                match step {
                    Step::Ask(who) => waiting.push((who, Box::pin(turns.take(&names[who])))),
                    Step::GiveUp(which) if !waiting.is_empty() => {
                        drop(waiting.swap_remove(which % waiting.len()));
                    }
                    Step::GiveBack(which) if !held.is_empty() => {
                        drop(held.swap_remove(which % held.len()));
                    }
                    Step::GiveUp(_) | Step::GiveBack(_) => {}
                }
                let mut still = Vec::new();
                for (who, mut one) in waiting {
                    match one.as_mut().now_or_never() {
                        Some(turn) => held.push((who, turn)),
                        None => still.push((who, one)),
                    }
                }
                waiting = still;
                prop_assert_eq!(turns.lock().free + held.len(), places);
                let free = places - held.len();
                for (who, _) in &waiting {
                    let has = held.iter().filter(|(holder, _)| holder == who).count();
                    prop_assert!(has >= free, "{} has {} of {}, {} free", who, has, places, free);
                }
            }
            drop((waiting, held));
            prop_assert_eq!(turns.lock().free, places);
        }
    }
}
