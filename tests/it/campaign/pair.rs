//! Two processes of the operator, of which one leads.

use dependency_watchdog::{prober, weeder};
use fake::{
    farm::Micros,
    oracle::leading::{Sent, terms, usurped},
    store::Key,
};

use crate::world::{Election, Operator, Role, World};

/// Both of them.
pub struct Pair {
    role: Role,
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
    pub fn start(world: &World, role: Role) -> Self {
        Self {
            role,
            both: [(); 2].map(|()| world.start(role, Election::Stands)),
            sent: Vec::new(),
        }
    }

    /// The one that leads, if one does.
    pub fn leader(&self, world: &World) -> Option<usize> {
        let lease = world.get("leases", "garden", self.lease());
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        self.both.iter().position(|it| it.identity() == holder)
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
        let new = world.start(self.role, Election::Stands);
        let old = std::mem::replace(&mut self.both[one], new);
        match end {
            End::Terminated => self.sent.extend(old.end().await),
            End::Killed => {
                self.sent.extend(old.sent());
                old.kill();
            }
        }
    }

    /// When one has lost the Lease since this was asked last, and what to say of it.
    pub fn losses(&self) -> Vec<(Micros, String)> {
        let lost = |it: &Operator| {
            let said = format!("{} lost the Lease", it.identity());
            it.losses().into_iter().map(move |at| (at, said.clone()))
        };
        self.both.iter().flat_map(lost).collect()
    }

    /// Those that have ended by themselves.
    pub fn ended(&self) -> impl Iterator<Item = String> {
        let ended = self.both.iter().filter(|it| it.has_ended());
        ended.map(|it| format!("{} has ended", it.identity()))
    }

    /// What was sent by who did not lead.
    pub fn usurped(&self, world: &World) -> Vec<String> {
        let mut sent = self.sent.clone();
        sent.extend(self.both.iter().flat_map(Operator::sent));
        let lease = Key::new("leases", "garden", self.lease());
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

    fn lease(&self) -> &'static str {
        match self.role {
            Role::Weeder => weeder::LEASE,
            Role::Prober | Role::Rehearsal => prober::LEASE,
        }
    }
}
