//! Protecting one cluster: observe its leases, judge, act on its dependents.
//!
//! Pure, with time as an argument: [`heartbeat`] (when was a lease renewed), [`candidates`] (which
//! nodes count), [`verdict`] (what the leases say), [`proof`] (whether silence is proven),
//! [`schedule`] (when to read next), [`watch`] (these together), [`machine`] (all that is decided about a
//! cluster), [`flow`] (one run over its dependents), [`plan`] (what is done to each), [`attempt`] (by which
//! requests), [`ledger`] (what is owed). At the ends: [`evidence`] and [`facts`] read, with the kubeconfigs of
//! [`secrets`], [`scale`] and [`perform`] write, [`rights`] asks ahead whether they may, [`probe`] is
//! one cluster's loop and [`fleet`] runs them all.

mod account;
pub mod attempt;
pub mod candidates;
pub mod evidence;
pub mod facts;
#[cfg(test)]
mod fixtures;
pub mod fleet;
pub mod flow;
pub mod guard;
pub mod heartbeat;
pub mod instruments;
pub mod ledger;
mod log;
pub mod machine;
pub mod metrics;
pub mod moment;
pub mod observe;
pub mod perform;
pub mod plan;
pub mod probe;
pub mod proof;
mod recall;
pub mod report;
pub mod rights;
pub mod scale;
pub mod schedule;
pub mod secrets;
pub mod since;
pub mod stance;
pub mod verdict;
pub mod watch;

/// The Lease for which probers stand, those of Gardener's dependency-watchdog among them: old and
/// new never act at once.
pub const LEASE: &str = "dwd-prober-leader-election";
