//! What is reported of the weeder: the statuses of WeedPolicies, and events on these, on pods and
//! on what controls them.
//!
//! The weeder hands in [`WeedReport`]s and [`PodNews`].

pub mod report;
mod reporter;

pub use report::{PodDeed, PodNews, PodOwner, WeedReport, WeedTrouble};
pub use reporter::WeedReporter;
