//! What is reported, and the only place that writes it.
//!
//! Loops hand in a [`ClusterReport`] whenever they know more; the fleet hands in
//! [`PolicyReport`]s. [`cluster`] and [`policy`] turn them into statuses, as plain functions;
//! [`writer`] writes those that say something new.

pub mod cluster;
pub mod conditions;
#[cfg(test)]
mod fixtures;
pub mod policy;
pub mod report;
mod request;
mod wording;
pub mod writer;

pub use report::{ClusterReport, Finding, PolicyReport};
pub use writer::{Reporter, Writer};
