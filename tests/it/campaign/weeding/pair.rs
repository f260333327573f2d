//! Two weeders, of which one leads.

use dependency_watchdog::weeder::LEASE;
use fake::{
    oracle::leading::{Sent, terms, usurped},
    store::Key,
};

use crate::world::{Election, Operator, Role, World};

/// Both of them.
pub struct Pair {
    both: [Operator; 2],
    /// What those that have ended had sent.
    sent: Vec<Sent>,
}

/// How one of them ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Killed,
    Terminated,
}

impl Pair {
    /// Starts both.
    pub fn start(world: &World) -> Self {
        Self {
            both: [(); 2].map(|()| start(world)),
            sent: Vec::new(),
        }
    }

    /// The one that leads, or the other; any while none does.
    pub fn one(&self, world: &World, leads: bool) -> usize {
        let lease = world.get("leases", "garden", LEASE);
        let holder = lease["spec"]["holderIdentity"].as_str();
        let holds = |it: &Operator| Some(&*it.identity()) == holder;
        usize::from(holds(&self.both[1]) == leads)
    }

    /// Freezes one of them.
    pub fn freeze(&self, one: usize) {
        self.both[one].gate.shut();
    }

    /// Has both go on.
    pub fn thaw(&self) {
        self.both.iter().for_each(|it| it.gate.open());
    }

    /// Ends one, and starts another in its place.
    pub async fn replace(&mut self, world: &World, one: usize, end: End) {
        let old = std::mem::replace(&mut self.both[one], start(world));
        match end {
            End::Terminated => self.sent.extend(old.end().await),
            End::Killed => {
                self.sent.extend(old.sent());
                old.kill();
            }
        }
    }

    /// Those that lost the Lease since this was asked last, and those that have ended by themselves.
    pub fn failed(&self) -> (Vec<String>, Vec<String>) {
        let lost = self.both.iter().filter(|it| !it.losses().is_empty());
        let ended = self.both.iter().filter(|it| it.has_ended());
        let told = |it: &Operator, what: &str| format!("{} {what}", it.identity());
        (
            lost.map(|it| told(it, "lost the Lease")).collect(),
            ended.map(|it| told(it, "has ended")).collect(),
        )
    }

    /// What was sent by who did not lead.
    pub fn usurped(&self, world: &World) -> Vec<String> {
        let mut sent = self.sent.clone();
        sent.extend(self.both.iter().flat_map(Operator::sent));
        let lease = Key::new("leases", "garden", LEASE);
        world.seed.store(|store, _| {
            let versions = store.versions("leases").filter(|it| it.key == lease);
            let mut terms = terms(versions);
            for term in &mut terms {
                // What is done at the same time is noted with some nanoseconds between.
                (term.from, term.until) = (term.from - 1_000, term.until + 1_000);
            }
            usurped(&sent, &terms)
        })
    }
}

fn start(world: &World) -> Operator {
    world.start(Role::Weeder, Election::Stands)
}
