//! Protecting clusters: observe their leases, judge, act on their dependents, report.
//!
//! - [`judge`]: [`leases`] (when was each renewed), [`nodes`] (which of them count), [`verdict`] (what
//!   they say), [`proof`] (whether silence was watched), [`finding`] (what is told of it), [`schedule`] (when to read next), [`watch`] (these
//!   together).
//! - [`protect`]: [`treatment`] (what is done about a cluster by its objects), [`machine`] (all that is decided
//!   about it), [`flow`] (one run over its dependents), [`plan`] (what is done to each), [`debts`]
//!   (what is owed), [`pace`] (when each of many clusters is restored).
//! - [`io`]: [`reader`] reads each cluster from its [`sources`], with the kubeconfigs of [`secrets`]; [`perform`] and [`scale`] write;
//!   [`rights`] asks ahead whether they may.
//! - [`report`]: from what was found to statuses and events.
//!
//! [`cluster`] is one cluster's loop, [`protector`] its acting half, and [`fleet`] runs them all. [`standby`] is what a
//! replica does that does not lead.

mod action_log;
pub mod cluster;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod instruments;
pub mod io;
pub mod judge;
mod log;
pub mod protect;
pub mod protector;
pub(crate) mod recall;
pub mod report;
pub mod standby;

pub use self::{
    io::{metrics, perform, reader, rights, scale, secrets, sources},
    judge::{finding, leases, nodes, proof, schedule, verdict, watch},
    protect::{debts, flow, machine, pace, plan, scale_error, treatment},
};

/// The Lease for which probers stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
pub const LEASE: &str = "dwd-prober-leader-election";
