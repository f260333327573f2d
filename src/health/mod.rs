//! What is reported, and the only place that writes it.
//!
//! The prober's loops hand in a [`ClusterReport`] whenever they know more; the fleet hands in
//! [`PolicyReport`]s. [`news`] tells which of them say something new, [`cluster`] and [`policy`]
//! turn those into statuses, and [`widespread`] sees what many clusters have in common: plain
//! functions all. [`writer`] writes, and puts the finalizer on policies that protect something.
//! What has just become otherwise is also told as events. [`weed`] is the same for the weeder; both
//! writers share the loop of `scribe`.

mod allowance;
mod book;
mod changes;
pub mod cluster;
mod clusters;
pub mod conditions;
mod events;
mod finalizer;
#[cfg(test)]
mod fixtures;
mod kept;
mod metrics;
pub mod news;
pub mod policy;
mod recall;
mod record;
pub mod report;
mod reporter;
mod request;
mod rights;
mod schedule;
mod scribe;
pub mod summary;
pub mod weed;
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
pub use weed::{PodDeed, PodNews, PodOwner, WeedReport, WeedReporter, WeedTrouble, WeedWriter};
pub use wording::evidence;
pub use writer::Writer;
