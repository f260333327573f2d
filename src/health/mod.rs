//! What is reported, and the only place that writes it.
//!
//! The prober's loops hand in a [`ClusterReport`] whenever they know more; the fleet hands in
//! [`PolicyReport`]s. [`news`] tells which of them say something new, [`cluster`] and [`policy`]
//! turn those into statuses, and [`widespread`] sees what many clusters have in common: plain
//! functions all. [`writer`] writes, and puts the finalizer on policies that protect something.
//! What has just become otherwise is also told as events. The weeder's writer shares the loop of
//! `scribe`.

mod allowance;
mod book;
mod changes;
pub mod cluster;
mod clusters;
pub mod conditions;
pub(crate) mod events;
mod finalizer;
#[cfg(test)]
mod fixtures;
pub(crate) mod kept;
mod metrics;
pub mod news;
pub mod policy;
mod recall;
mod record;
pub mod report;
mod reporter;
pub(crate) mod request;
pub(crate) mod rights;
mod schedule;
pub(crate) mod scribe;
pub mod summary;
pub mod widespread;
mod wording;
pub mod writer;

pub use events::{
    EventCounts,
    dependent::{Deed, DependentNews},
};
pub use metrics::{HealthMetrics, WriterMetrics};
pub use report::{ClusterReport, Finding, HELD_BACK, HeldBack, PolicyReport, WIDESPREAD};
pub use reporter::{Known, Reporter};
pub use request::{WriteError, set_finalizer};
pub use schedule::REFRESH;
pub use wording::evidence;
pub use writer::Writer;
