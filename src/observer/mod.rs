//! The state of one cluster, as whoever asks for it first wants to know it: does it answer, are its
//! nodes well, do its metrics come?
//!
//! Nothing is scaled for it, and no probe waits for it. [`view`] is what is reported.

pub mod view;

pub use view::{NodeCounts, View};
