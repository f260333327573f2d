//! The ways in which an API server that lives answers otherwise than it should.

use super::clock::Micros;
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

/// What is special about a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// There is none.
    Gone,
    /// It is being deleted, and a finalizer keeps it.
    Deleted,
    /// It has the taint `node.kubernetes.io/out-of-service`.
    OutOfService,
    /// This condition is True.
    Condition(&'static str),
    /// It does not say of which worker pool it is.
    NoPool,
}

/// How a server answers.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// What is answered instead, by what is read.
    pub answers: BTreeMap<Read, Answer>,
    /// The Nodes about which something is special, by their numbers.
    pub nodes: BTreeMap<usize, Special>,
    /// How old what its cache shows is.
    pub cache_age: Micros,
    /// How old what a consistent list of leases shows is.
    pub lag: Micros,
}
