//! The only place that writes statuses, the finalizer of policies, and events.
//!
//! `writer` is the loop, `desk` all objects, `slot` one of them: what is there, what is wanted, and when that is
//! written. `object` says what is new in a status and how much it matters, `request` writes it. A status that is wanted
//! yields `events`, which wait for their turn.

mod allowance;
pub mod conditions;
pub(crate) mod desk;
pub(crate) mod events;
mod metrics;
pub(crate) mod object;
mod request;
mod slot;
pub(crate) mod writer;

pub(crate) use metrics::set;
pub use metrics::{EventCounts, WriterMetrics};
pub use request::{WriteError, set_finalizer};
pub use slot::REFRESH;
pub use writer::Writer;
