//! A campaign of faults: the operator protects and restores a cluster while a proxy between it and
//! the seed, and one between it and the shoot, have something go wrong at every write it makes.
//!
//! An undisturbed run is recorded first: what the operator writes, and how everything stands when the
//! cluster is healthy, protected, restored, and let go. A [`Point`] is a write at which a
//! [`Fault`] happens. A run with a point must come to the same states in the end, and must have
//! broken no rule of `rules` on the way. See docs/faults.md.

mod call;
mod campaign;
mod identity;
mod point;
mod proxy;
mod run;
mod script;
mod snapshot;
mod stage;
mod tally;
mod watching;

pub use campaign::{Campaign, Settings};
pub use fake::chaos::Fault;
pub use point::Point;
pub use tally::Tally;
