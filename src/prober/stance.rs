//! What is to be done about a cluster, by what its objects say and what is owed to it.
//!
//! A protected cluster is never just dropped:
//!
//! - no policy selects it any more: it is probed by the settings of the one that did last, and
//!   restored when it is healthy; nothing more is taken from it;
//! - its workers are removed: restored, there is nothing left to protect;
//! - it is being hibernated: restored as long as its API server answers, else its marks are
//!   removed, as gardenlet then scales the control plane itself;
//! - it is hibernated, wakes up, is deleted or migrates: its marks are removed and the replicas left
//!   as they are, since gardenlet decides about them;
//! - the policy is suspended, or in DryRun: marks stay, and so they do while nothing is known (its
//!   Shoot or its own settings cannot be read, it is being created or restored).

use std::sync::Arc;

use super::plan::Aim;
use crate::{
    api::Mode,
    cluster::{Assignment, Decision, Eligibility, Settings, Skip},
    health::Finding,
};

/// What is to be done about a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Stance {
    /// Probe it, and act on what is found.
    Probe(Arc<Settings>),
    /// Probe it by the settings of the policy that applied last, and restore it when it is healthy.
    LetGo(Arc<Settings>),
    /// It is being hibernated: restore it if its API server answers, else remove the marks.
    Hibernate(Arc<Settings>, Finding),
    /// Do this to its dependents, unasked, until it is complete.
    Settle(Aim, Finding),
    /// Neither read nor write; marks stay. Why nothing is scaled, if something is owed.
    Rest(Finding, Option<&'static str>),
    /// Nobody has any use for it, and nothing is owed to it.
    Forget,
}

/// What is known of a cluster beside its objects.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The settings by which it was probed last in this run.
    pub last: Option<&'a Arc<Settings>>,
    /// Something is owed to its dependents, or being done to them.
    pub engaged: bool,
    /// Each dependent has been seen, so that no mark can be unknown.
    pub looked_at: bool,
}

impl Stance {
    /// Decides; the rules are those of this module.
    pub fn new(assignment: &Assignment, known: Known<'_>) -> Self {
        match assignment.decision() {
            Decision::Probed(settings) if settings.suspend => Self::Rest(
                Finding::Skipped {
                    reason: "Suspended",
                    message: suspended(settings),
                },
                None,
            ),
            Decision::Probed(settings) => Self::Probe(settings.clone()),
            Decision::Invalid(error) => Self::Rest(
                Finding::Unread {
                    reason: "ClusterInvalid",
                    message: error.to_string(),
                },
                None,
            ),
            Decision::Skipped(skip) => {
                let settings = assignment.selected.as_ref().map(|it| &it.settings);
                let settings = settings.and_then(|settings| settings.as_ref().ok());
                Self::skipped(skip, settings.or(known.last), known)
            }
            Decision::Unselected if !known.looked_at && !known.engaged => Self::Settle(
                Aim::Look,
                unselected("whether it is marked is being looked up"),
            ),
            Decision::Unselected if !known.engaged => Self::Forget,
            Decision::Unselected => Self::let_go(assignment, known),
        }
    }

    /// The settings by which it is probed, if it is.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        match self {
            Self::Probe(settings) | Self::LetGo(settings) | Self::Hibernate(settings, _) => {
                Some(settings)
            }
            Self::Settle(..) | Self::Rest(..) | Self::Forget => None,
        }
    }

    fn let_go(assignment: &Assignment, known: Known<'_>) -> Self {
        let former = assignment.former.as_ref();
        let settings = match former.map(|former| &former.settings) {
            Some(Ok(settings)) => Some(settings.clone()),
            Some(Err(error)) => {
                return Self::Rest(
                    Finding::Unread {
                        reason: "ClusterInvalid",
                        message: error.to_string(),
                    },
                    None,
                );
            }
            // The policy is gone, and with it the hand that could lift what it held back.
            None => known.last.map(|last| {
                Arc::new(Settings {
                    mode: Mode::Enforce,
                    suspend: false,
                    ..(**last).clone()
                })
            }),
        };
        if let Eligibility::Skipped(skip) = &assignment.eligibility {
            return Self::skipped(skip, settings.as_ref(), known);
        }
        match settings {
            Some(settings) if settings.suspend => Self::Rest(
                unselected(&suspended(&settings)),
                Some("the policy is suspended"),
            ),
            Some(settings) => Self::LetGo(settings),
            None => Self::Rest(
                unselected(
                    "the policy that protected it is gone, and none is known by which it could be \
                     judged; apply one that selects it to have it restored when it is healthy",
                ),
                Some("no policy is known by which the cluster could be judged"),
            ),
        }
    }

    fn skipped(skip: &Skip, settings: Option<&Arc<Settings>>, known: Known<'_>) -> Self {
        let finding = Finding::Skipped {
            reason: skip.reason(),
            message: skip.to_string(),
        };
        if !known.engaged && known.looked_at {
            return Self::Rest(finding, None);
        }
        if settings.is_some_and(|settings| settings.suspend) {
            return Self::Rest(finding, Some("the policy is suspended"));
        }
        if settings.is_some_and(|settings| settings.mode == Mode::DryRun) {
            return Self::Rest(finding, Some("the policy's mode is DryRun"));
        }
        match skip {
            Skip::NoWorkers => Self::Settle(Aim::Restore, finding),
            Skip::Deleting(_)
            | Skip::Migrating
            | Skip::WakingUp
            | Skip::Hibernated { asleep: true } => Self::Settle(Aim::Release, finding),
            Skip::Hibernated { asleep: false } => match settings {
                Some(settings) => Self::Hibernate(settings.clone(), finding),
                None => Self::Rest(
                    finding,
                    Some("no policy is known by which its API server could be reached"),
                ),
            },
            Skip::Unreadable(_) | Skip::NotYetCreated(_) | Skip::NotYetRestored(_) => {
                Self::Rest(finding, Some("the cluster is not in a state to be judged"))
            }
        }
    }
}

fn suspended(settings: &Settings) -> String {
    format!("the policy {} is suspended", settings.policy)
}

fn unselected(message: &str) -> Finding {
    Finding::Skipped {
        reason: "Unselected",
        message: format!("no valid policy selects the cluster; {message}"),
    }
}

#[cfg(test)]
mod tests;
