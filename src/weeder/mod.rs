//! Weeding: when a service that a WeedPolicy names becomes ready, the pods that need it and are
//! stuck in CrashLoopBackOff are deleted, for a limited time, so that they restart at once.
//!
//! Pure, with time as an argument: [`mod@slice`] and [`pod`] (what is read), [`policy`] (what a policy
//! asks for), [`coverage`] (of which services, in which namespaces), [`services`] (which of them are
//! ready, and which have just become so), [`windows`] (for which pods are deleted, and until when),
//! [`scopes`] (which pods are watched), [`looping`] (which of these crash), [`attempts`] (what was tried
//! on them), [`backoff`] (when the next of the same controller is), [`budget`] (which is next), [`account`]
//! (what a policy has to show), [`state`] (these together).
//!
//! At the ends: [`run`] (the loop: watches in, requests out) and [`rights`] (whether it may).

pub mod account;
pub mod attempts;
pub mod backoff;
pub mod budget;
pub mod coverage;
mod delete;
pub mod instruments;
mod log;
pub mod looping;
pub mod metrics;
pub mod news;
pub mod pod;
mod pods;
pub mod policy;
pub mod report;
pub mod rights;
pub mod run;
pub mod scopes;
pub mod services;
pub mod slice;
pub mod state;
mod watches;
pub mod windows;

/// The Lease for which weeders stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
pub const LEASE: &str = "dwd-weeder-leader-election";
