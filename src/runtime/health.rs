//! Health of the process: main loops beat to show that they move, and named checks say whether it is ready.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time without a beat after which a loop hangs.
const STALE: Duration = Duration::from_secs(60);

type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Loops and checks of the present candidacy. Clones share them.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    beats: BTreeMap<&'static str, Instant>,
    checks: BTreeMap<&'static str, Check>,
}

impl Health {
    /// Interval at which an idle loop beats.
    pub const BEAT: Duration = Duration::from_secs(5);

    /// Notes that the loop of this name moves, in each turn of it. A loop that ends before the others counts as
    /// one that hangs.
    pub fn beat(&self, name: &'static str) {
        self.0.lock().beats.insert(name, Instant::now());
    }

    /// Forgets all loops and checks: the next candidacy has its own.
    pub(super) fn clear(&self) {
        *self.0.lock() = State::default();
    }

    /// Returns the loops that hang, and for how long they have.
    pub fn stale(&self) -> Vec<(&'static str, Duration)> {
        let state = self.0.lock();
        let beats = state.beats.iter();
        let ages = beats.map(|(name, last)| (*name, last.elapsed()));
        ages.filter(|(_, age)| *age >= STALE).collect()
    }

    /// Adds a check, or replaces the one of that name. Everybody who can reach the endpoint reads its error, which
    /// gives a reason and a remedy, and nothing that was read. It must not wait.
    pub fn check(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.lock().checks.insert(name, Box::new(check));
    }

    /// Runs each check, and returns its result by name.
    pub fn results(&self) -> Vec<(&'static str, Result<(), String>)> {
        let state = self.0.lock();
        let checks = state.checks.iter();
        checks.map(|(name, check)| (*name, check())).collect()
    }
}
