//! What is reported of the weeder: the statuses of WeedPolicies, and events on these, on pods and
//! on what controls them.
//!
//! The weeder hands in [`WeedReport`]s and [`PodNews`]. `status` turns the first into statuses; it
//! is a plain function. `book` knows what is to be written, and `writer` writes it.

mod book;
pub mod report;
mod reporter;
pub(super) mod status;
mod writer;

pub use report::{PodDeed, PodNews, PodOwner, WeedReport, WeedTrouble};
pub use reporter::WeedReporter;
pub use writer::WeedWriter;
