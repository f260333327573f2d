//! Restores by hand what the operator has scaled to zero, also without the operator and without a policy.
//!
//! [`look`] reads where replicas may be owed: ClusterHealths, policies, and the dependents that either names.
//! [`run`] asks the prober's step function what is next for each dependent, writes that, and reads again.

pub mod look;
pub mod run;

use std::sync::Arc;

use crate::{
    cluster::Dependent,
    prober::{
        scale::{ScaleError, Scaler},
        step::Memory,
    },
    runtime::seed::{CallError, Seed, told},
};

/// Restores clusters on one seed.
pub struct Restorer {
    /// Reads policies, ClusterHealths and the Lease.
    pub seed: Seed,
    /// Reads and writes dependents.
    pub scaler: Scaler,
    /// Namespace of the Lease by which the operator elects its leader.
    pub lease_namespace: String,
    /// Whether the operator is to ignore from then on what is restored.
    pub overrule: bool,
}

/// A dependent of a cluster, and how far its restore is.
#[derive(Debug)]
pub struct Part {
    /// Name of the cluster, and of its namespace.
    pub cluster: Arc<str>,
    /// Resource, level, delay and timeout.
    pub dependent: Dependent,
    /// State of the restore.
    pub state: State,
    /// Next step, or the reason why there is none, for people.
    pub says: String,
    /// Whether the operator ignores it from now on.
    pub ignored: bool,
    memory: Memory,
}

/// State of the restore of one dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Something is to be written, or waited for.
    Due,
    /// Nothing is owed, and nothing is to be done.
    Settled,
    /// It is not restored, and this command does not do it.
    Left,
    /// The same, and later levels wait for it.
    Stuck,
}

impl Part {
    /// Line for people.
    pub fn line(&self) -> String {
        let (cluster, level) = (&self.cluster, self.dependent.up.level);
        let name = self.dependent.reference.kubectl_name();
        format!("{cluster}  level {level}  {name}: {}", self.says)
    }

    fn set(&mut self, state: State, says: impl Into<String>) {
        (self.state, self.says) = (state, says.into());
    }

    /// Notes why it is not restored. What is owed nothing, as far as is known, keeps no other at zero.
    fn fail(&mut self, error: &ScaleError) {
        let state = match self.memory.owed {
            false if error.is_about_the_kind() => State::Settled,
            false if !error.is_about_the_attempt() => State::Left,
            _ => State::Stuck,
        };
        let says = match error {
            // Its own message names the operator's rights; here those of the user are missing.
            ScaleError::Forbidden { verb, message } => format!("you may not {verb} it: {message}"),
            error => error.to_string(),
        };
        self.set(state, says);
    }
}

/// Describes a failed request to the person who runs the command; `tried` is a verb with its object.
fn failure(tried: &str, error: &CallError) -> String {
    match error {
        CallError::Refused(status) => format!("cannot {tried}: {} ({})", told(status), status.code),
        error => format!("cannot {tried}: {error}"),
    }
}
