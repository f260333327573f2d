//! The state of one cluster, as whoever asks for it first wants to know it: does it answer, are its
//! nodes well, do its metrics come?
//!
//! Nothing is scaled for it, and no probe waits for it. Pure: [`state`] (what is known, what follows from it, and what
//! is to be looked at when), [`nodes`] (what the Nodes say) and `provider` (what serves the metrics). At the end:
//! [`looks`] reads.

pub mod looks;
pub mod nodes;
mod provider;
pub mod state;

pub use self::{nodes::NodeCounts, state::View};
