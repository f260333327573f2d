//! The ways in which an API server that lives answers otherwise than it should.

use super::clock::Micros;
use serde_json::Value;
use std::collections::BTreeMap;

/// The reads of a shoot that an operator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// A list of leases from the server's cache.
    Cached,
    /// A consistent list of leases.
    Consistent,
    /// A list of Nodes.
    Nodes,
    /// A request for `/version`.
    Version,
    /// A request for `/readyz`.
    Ready,
}

/// What is answered instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection ends in the middle of the answer.
    Truncated,
    /// A page that a proxy might show, with the code 200.
    Html,
    /// A refusal with this code, and after how many seconds to come again.
    Refused(u16, Option<u32>),
    /// Nothing, for ever.
    Nothing,
}

/// How a server answers.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What is answered instead, by what is read.
    pub answers: BTreeMap<Read, Answer>,
    /// How old what the cache of each instance shows is. Connections get to the instances in turn.
    pub cache_ages: Vec<Micros>,
    /// How old what a consistent list of leases shows is.
    pub lag: Micros,
    /// Whether leases tell in managedFields when they were written.
    pub is_stamping: bool,
    /// Nodes by their numbers that are changed by a merge patch, or are not there.
    pub nodes: BTreeMap<usize, Option<Value>>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            answers: BTreeMap::new(),
            cache_ages: vec![0],
            lag: 0,
            is_stamping: true,
            nodes: BTreeMap::new(),
        }
    }
}

impl Behaviour {
    /// The age of what an instance shows of the leases.
    pub(super) fn age(&self, read: Read, instance: usize) -> Micros {
        if read == Read::Consistent {
            return self.lag;
        }
        let place = instance.checked_rem(self.cache_ages.len());
        let age = place.and_then(|place| self.cache_ages.get(place));
        age.copied().unwrap_or_default()
    }
}
