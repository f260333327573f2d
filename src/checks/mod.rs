//! Checks of a cluster's health beyond its leases: a command in a pod, a request over HTTP, a
//! connection over TCP, each with a timeout that is a failure.
//!
//! [`Checks`] runs those of one cluster and says what they have come to; what hangs on that is for
//! others to decide. All clusters share one [`Runner`], which bounds how many run at once. Pure are
//! [`tally`] (how many in a row make a result), [`pods`] (which pod is taken), [`cuts`] (how often a
//! command that hangs is run) and [`gates`].
//!
//! A run has one of three ends. It passes, it fails, or it could not be made, which is no evidence
//! for either: no such pod, no right, a name that does not resolve, no sockets left. What is slow is
//! not one of these: a timeout is a failure.

pub mod cuts;
pub mod exec;
pub mod gates;
pub mod http;
pub mod metrics;
pub mod outcome;
pub mod pods;
pub mod resolve;
pub mod run;
pub mod runner;
pub(crate) mod running;
pub mod tally;
pub mod tcp;
mod tls;
mod turns;

pub use cuts::Cuts;
pub use gates::FeatureGates;
pub use metrics::CheckMetrics;
pub use outcome::Outcome;
pub use run::{Checks, Tolerated};
pub use runner::{Run, Runner};
pub use tally::{Tally, Thresholds};
