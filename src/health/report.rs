//! What the parts of the operator know of a cluster and of a policy.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::jiff::Timestamp;

use crate::{
    api::{CheckRole, CheckStatus, DependentStatus, LastAction, Mode, Protection},
    cluster::Brake,
    observer::View,
    prober::{
        ledger::Problem,
        verdict::{Assessment, Verdict},
    },
};

/// Something is deliberately not done.
pub const HELD_BACK: &str = "HeldBack";
/// The same, since a Trigger fails in many clusters.
pub const WIDESPREAD: &str = "Widespread";

/// Everything that is known of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterReport {
    /// The Cluster's UID: it owns its ClusterHealth.
    pub uid: Arc<str>,
    /// The policy that applies; of a cluster that none selects, the one that did last and that has
    /// yet to let go of it.
    pub policy: Option<Arc<str>>,
    /// Whether dependents are written to.
    pub mode: Mode,
    /// What was found.
    pub finding: Finding,
    /// Its state, as it is observed; `None` while it is not probed.
    pub observed: Option<View>,
    /// What the checks of its policy, and the looks at its providers of metrics, have come to.
    pub checks: Vec<CheckStatus>,
    /// Whether the dependents are scaled down.
    pub protection: Protection,
    /// Since when they are.
    pub protected_since: Option<Timestamp>,
    /// Whether they are for so long that somebody must look.
    pub overdue: bool,
    /// Whether each dependent has been looked at, so that no mark can be unknown.
    pub looked_at: bool,
    /// What was last done to them.
    pub last_action: Option<LastAction>,
    /// Set while what was found is not acted on yet.
    pub held_back: Option<HeldBack>,
    /// Why it would not be probed, while it is only until it is restored.
    pub let_go: Option<Finding>,
    /// The dependents and what they are owed.
    pub dependents: Vec<DependentStatus>,
    /// Why dependents are not where they should be.
    pub problems: Vec<Problem>,
    /// When the cluster was last probed.
    pub probed: Option<Timestamp>,
}

/// What was found of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It has not been probed yet.
    Pending,
    /// Its leases were read and judged.
    Judged(Verdict, Box<Assessment>),
    /// A check with the role Trigger fails, which is an outage.
    Triggered {
        /// Which, and why.
        why: String,
        /// What was found of its leases, which are no outage.
        leases: Box<Self>,
    },
    /// There is no evidence.
    Unread {
        /// CamelCase.
        reason: &'static str,
        /// Names the object and the remedy.
        message: String,
    },
    /// It is not probed.
    Skipped {
        /// CamelCase.
        reason: &'static str,
        /// What was seen.
        message: String,
    },
}

impl Finding {
    /// What was found of its leases, whatever the checks say.
    pub fn leases(&self) -> &Self {
        match self {
            Self::Triggered { leases, .. } => leases,
            Self::Pending | Self::Judged(..) | Self::Unread { .. } | Self::Skipped { .. } => self,
        }
    }
}

/// Why what was found is not acted on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// For this reason.
    By(&'static str),
    /// A check with this role does not pass, so that nothing is restored.
    Check {
        /// Gate or Trigger.
        role: CheckRole,
        /// Which, and why.
        why: String,
    },
    /// A Trigger fails, and is not acted on.
    Trigger {
        /// Why not.
        why: String,
        /// Because its check fails in many clusters.
        widespread: bool,
    },
}

impl HeldBack {
    /// In one word, as the condition Protecting says it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Trigger {
                widespread: true, ..
            } => WIDESPREAD,
            Self::Trigger { .. } | Self::By(_) | Self::Check { .. } => HELD_BACK,
        }
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(why) => f.write_str(why),
            Self::Trigger { why, .. } => f.write_str(why),
            Self::Check { role, why } => {
                write!(
                    f,
                    "nothing is restored before each {role:?} passes, and {why}"
                )
            }
        }
    }
}

/// What is known of one policy, beside its clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its `metadata.uid`.
    pub uid: Arc<str>,
    /// Whether its deletion has been asked for.
    pub deleting: bool,
    /// What it holds back, so that nothing is restored.
    pub brake: Brake,
    /// Whether it carries [`FINALIZER`](crate::api::FINALIZER).
    pub held: bool,
    /// The generation that this is about.
    pub generation: i64,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// The clusters to which it applies.
    pub selected: Vec<Arc<str>>,
    /// The clusters that no policy selects any more, this one having been the last, and that are
    /// not let go of yet.
    pub kept: Vec<Arc<str>>,
    /// The clusters that it selects in vain, by the policy that applies to them.
    pub lost: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}
