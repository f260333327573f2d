//! Putting back by hand what the operator has taken, also when the operator or the policy is gone.
//!
//! What is owed is told by the marks on the dependents, where to look by ClusterHealths and policies.
//! [`plan`] holds what is known of one cluster and what would be done there (pure); [`look`] reads it,
//! and [`operator`] sees whether somebody would take it back at once; [`run`] restores, by the
//! planner, the writes and the flow of the prober; [`policies`] lets go of policies that wait for it.

pub mod look;
mod messages;
pub mod operator;
pub mod plan;
pub mod policies;
pub mod run;

use crate::{prober::scale::Scaler, runtime::seed::Seed};

/// Restores clusters on one seed.
pub struct Restorer {
    /// By which policies, ClusterHealths and the Lease are read.
    pub seed: Seed,
    /// By which dependents, and what belongs to one cluster, are read and written.
    pub scaler: Scaler,
    /// The namespace of the Lease by which the operator elects its leader.
    pub lease_namespace: String,
    /// What is restored is taken out of the operator's hands.
    pub overrule: bool,
}
