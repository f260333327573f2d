//! The only place that writes statuses, the finalizer of policies and events.
//!
//! The loop of `scribe` writes what the prober and the weeder have to say, when it is due by the
//! `schedule` of each object, by the requests in `request`. Events are told in their turn.

pub(crate) mod allowance;
pub(crate) mod cluster_health;
pub mod conditions;
pub(crate) mod events;
pub(crate) mod finalizer;
mod metrics;
pub(crate) mod policies;
pub(crate) mod request;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod writer;

pub use events::EventCounts;
pub use metrics::WriterMetrics;
pub(crate) use metrics::set;
pub use request::{WriteError, set_finalizer};
pub use schedule::REFRESH;
