//! The only place that writes statuses, the finalizer of policies, and events. It knows no verdicts: who
//! reports something also decides what its status says and how urgent that is.
//!
//! `writer` is the loop. `policies` keeps what is there and what is to be there, `schedule` and
//! `allowance` say when it is written, `request` writes it. Events come with their words, and wait in
//! `events` for their turn.

pub(crate) mod allowance;
pub mod conditions;
pub(crate) mod events;
pub(crate) mod finalizer;
mod metrics;
pub(crate) mod policies;
pub(crate) mod request;
pub(crate) mod rights;
pub(crate) mod schedule;
mod undeclared;
pub(crate) mod writer;

pub use events::EventCounts;
pub use metrics::WriterMetrics;
pub(crate) use metrics::set;
pub use request::{WriteError, set_finalizer};
pub use schedule::REFRESH;
pub use writer::Writer;
