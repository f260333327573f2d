//! One page about one cluster: who decides, what was seen, done and is owed, and what it waits for.
//!
//! [`ask()`] reads, and is the only part with a client. [`page()`] prints what came: what the operator wrote
//! into the ClusterHealth in its own words, and in addition only what no record can say. That is whether an
//! operator is alive, which policy applies and why the others do not, and how the dependents are now.

mod ask;
mod page;
mod policies;
mod remedy;
mod text;
mod weeding;

pub use ask::{Answers, ask};
pub use page::page;
pub use remedy::remedy;
