//! Protecting clusters: observe their leases, judge, act on their dependents, report.
//!
//! - [`judge`]: [`leases`] (when was each renewed), [`nodes`] (which of them count), [`verdict`] (what they say),
//!   [`proof`] (whether silence was watched), [`finding`] (what is told of it), [`schedule`] (when to read next),
//!   [`lease_judge`] (these together).
//! - [`act`]: [`treatment`] (what is done about a cluster by its objects), [`decide`] (what is wanted of its
//!   dependents), [`dependents`] (what was seen of them, what is owed, which request is next), [`step`] (what is next
//!   for one), [`pace`] (when each of many clusters is restored).
//! - [`io`]: [`reader`] reads each cluster from its [`sources`], with the kubeconfigs of [`secrets`]; [`scale`] writes;
//!   [`rights`] asks ahead whether it may.
//! - [`report`]: from what was found to statuses and events.
//!
//! `cluster` is one cluster's loop, `acting` its acting half, and [`fleet`] runs them all, by what `selection` watches.
//! `recall` reads what an earlier run has left.

pub mod act;
mod acting;
mod cluster;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod instruments;
pub mod io;
pub mod judge;
pub(crate) mod recall;
pub mod report;
mod selection;

pub use self::{
    act::{decide, dependents, pace, scale_error, step, treatment},
    io::{metrics, reader, rights, scale, secrets, sources},
    judge::{finding, lease_judge, leases, nodes, proof, schedule, verdict},
};

/// The Lease for which probers stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
pub const LEASE: &str = "dwd-prober-leader-election";
