//! Weeding: when a service that a WeedPolicy names becomes ready, the pods that need it and are
//! stuck in CrashLoopBackOff are deleted, for a limited time, so that they restart at once.
//!
//! Pure, with time as an argument: `policy` (what a policy asks for), `service` (since when a service is ready),
//! `pod` (whether it crashes, and who replaces it), `namespace` (the rules: windows, and what becomes of each pod),
//! `case` (what is told), `account` (what a policy has to show), `state` (all namespaces: what is watched, and who is next).
//!
//! At the ends: `watches` and `run` (the loop: changes in, requests out).

mod account;
mod case;
mod delete;
pub mod instruments;
mod log;
pub mod metrics;
mod namespace;
mod pod;
pub(crate) mod policy;
mod report;
pub mod run;
pub mod service;
mod state;
mod watches;

/// The Lease for which weeders stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
pub const LEASE: &str = "dwd-weeder-leader-election";
