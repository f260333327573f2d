//! The state of one cluster, as whoever asks for it first wants to know it: does it answer, are its
//! nodes well, do its metrics come?
//!
//! Nothing is scaled for it, and no probe waits for it. Pure, with time as an argument: [`state`]
//! (the states and what leads from one to another), [`nodes`] (what the Nodes say), [`provider`] (what
//! serves the metrics), [`observation`] (these together, and what is to be looked at when). At the
//! ends: [`looks`] reads, [`view`] holds what is reported, and `told` makes events of it.

pub mod looks;
pub mod nodes;
pub mod observation;
pub mod provider;
pub mod state;
pub(crate) mod told;
pub mod view;

pub use view::{NodeCounts, View};
