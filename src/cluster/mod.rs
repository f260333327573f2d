//! Who is probed, by which policy, with which settings.
//!
//! All of it is a function of the Cluster and ProbePolicy objects alone: no client, no clock, no
//! memory of what was before.

mod assignment;
mod eligibility;
mod index;
mod selection;
mod settings;

pub use assignment::{Assignment, Selected};
pub use eligibility::{Skip, Then, skip};
pub use index::{Changed, Index, PolicyView};
pub use selection::{Policy, PolicyHold, Rules};
pub use settings::{
    DEFAULT_NODE_CONDITIONS, Dependent, LeaseRules, Scale, Settings, SettingsError,
};
