//! What is to be done about a cluster, by what its objects say and what is owed to it.
//!
//! A protected cluster is never just dropped:
//!
//! - no policy selects it any more: it is probed by the settings of the one that did last, and restored
//!   when it is healthy; nothing more is scaled down;
//! - its last operation is of a type that is not known, or `LiveMigrate`, it is self-hosted, or gardenlet has
//!   not taken up yet that it is to be hibernated: the same, and its marks are never removed from what is at
//!   zero;
//! - its workers are removed: restored, there is nothing left to protect;
//! - it is hibernated, or gardenlet is at it, it wakes up, is deleted or migrates: its marks are removed and the
//!   replicas left as they are, since gardenlet decides about them; so they are when the Cluster is gone;
//! - the policy is suspended, has no mode, or is in DryRun, or the process runs with `--dry-run`: marks
//!   stay, and so they do while nothing is known (the policy, its Shoot or its own settings cannot be
//!   read, it is being created or restored).

use std::sync::Arc;

use crate::{
    api::Mode,
    cluster::{Assignment, PolicyHold, Selected, Settings, SettingsError, Skip, Then},
    prober::finding::Finding,
    prober::step::Aim,
};

/// Treatment of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Treatment {
    /// Probe it, and act on what is found.
    Probe(Arc<Settings>),
    /// Probe it by the settings of the policy that applies, or did last; restore it when healthy, and scale
    /// nothing down: for this reason, or since no policy selects it any more.
    LetGo(Arc<Settings>, Option<Finding>),
    /// Carry out this aim without a verdict until complete.
    Complete(Aim, Finding),
    /// Something is owed, and for this reason it stays so.
    Hold(Finding, &'static str),
    /// Nothing is owed, and nothing is to be done.
    Idle(Finding),
    /// The Cluster is gone, unless it comes back soon: remove the marks, also those that are only
    /// found then.
    Gone,
    /// No longer needed, and owed nothing.
    Done,
}

/// Tells whether there is such a Cluster, and what the index says of it.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterObject {
    /// There is.
    There(Box<Assignment>),
    /// It is gone; with the hold of the policy that was responsible last.
    Gone(PolicyHold),
}

impl ClusterObject {
    /// Hold of the policy that is responsible, or was last.
    pub(crate) fn hold(&self) -> PolicyHold {
        match self {
            Self::There(it) => it.responsible().map(|it| it.hold).unwrap_or_default(),
            Self::Gone(hold) => *hold,
        }
    }
}

/// Knowledge of a cluster besides its objects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// The settings by which it was probed last in this run.
    pub(crate) last: Option<&'a Arc<Settings>>,
    /// Something is owed to its dependents, or being scaled.
    pub(crate) engaged: bool,
    /// Each dependent has been seen, so that no mark can be unknown.
    pub(crate) looked_at: bool,
    /// The process runs with `--dry-run`: no dependent is written, whatever a policy says, or if there is none.
    pub(crate) dry_run: bool,
}

impl Known<'_> {
    /// Adds `--dry-run` to what the policy holds back.
    fn hold(&self, policy: PolicyHold) -> PolicyHold {
        PolicyHold {
            dry_run: policy.dry_run || self.dry_run,
            ..policy
        }
    }
}

const SUSPENDED: &str = "the policy is suspended";
const MARKS_STAY: &str = "marks stay until the policy goes on";
const DRY_RUN: &str = "the mode is DryRun";
const UNREADABLE: &str = "the policy cannot be read, so it may be suspended";
const NO_SETTINGS: &str = "there is nothing valid by which it could be judged";
const NO_STATE: &str = "the cluster is not in a state to be judged";

impl Treatment {
    /// Decides; the rules are those of this module.
    pub(crate) fn new(presence: &ClusterObject, known: Known<'_>) -> Self {
        let assignment = match presence {
            ClusterObject::There(assignment) => assignment,
            ClusterObject::Gone(hold) => return Self::gone(known.hold(*hold), known),
        };
        let Some(selected) = &assignment.selected else {
            return Self::let_go(assignment, known);
        };
        let (skip, hold) = (assignment.skip.as_ref(), selected.hold);
        // Whatever a Shoot is like that cannot be read, it is not to be probed.
        if hold.suspended && skip.is_none_or(|skip| skip.reason == "Unreadable") {
            let finding = Finding::Skipped {
                reason: "Suspended",
                message: suspended(selected),
            };
            return Self::at_rest(finding, MARKS_STAY, known);
        }
        match (skip, &selected.settings) {
            (Some(skip), settings) => {
                Self::skipped(skip, known.hold(hold), settings.as_ref().ok(), known)
            }
            (None, Err(error)) if hold.undecodable => {
                Self::at_rest(invalid(error), UNREADABLE, known)
            }
            (None, Err(error)) => Self::at_rest(invalid(error), NO_SETTINGS, known),
            (None, Ok(settings)) => Self::Probe(settings.clone()),
        }
    }

    /// The settings by which it is probed, if it is.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        match self {
            Self::Probe(settings) | Self::LetGo(settings, _) => Some(settings),
            Self::Complete(..) | Self::Hold(..) | Self::Idle(_) | Self::Gone | Self::Done => None,
        }
    }

    /// Tells whether it is of the same kind, whatever the settings. A cluster let go for a reason is of another
    /// kind than one that no policy selects.
    pub fn is_like(&self, other: &Self) -> bool {
        let has_reason = |of: &Self| matches!(of, Self::LetGo(_, Some(_)));
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && has_reason(self) == has_reason(other)
    }

    fn gone(hold: PolicyHold, known: Known<'_>) -> Self {
        let finding = || Finding::Skipped {
            reason: "Gone",
            message: "the Cluster is gone".to_owned(),
        };
        match held(hold) {
            _ if !known.engaged && known.looked_at => Self::Done,
            // It does not wait for marks that are possible but not known.
            Some(_) if !known.engaged => Self::Done,
            Some(why) => Self::Hold(finding(), why),
            None => Self::Gone,
        }
    }

    fn let_go(assignment: &Assignment, known: Known<'_>) -> Self {
        if !known.engaged {
            return match known.looked_at {
                true => Self::Done,
                false => Self::Idle(unselected(
                    "it is looked up whether anything is left marked, until no write can come about \
                     any more that was given up",
                )),
            };
        }
        let former = assignment.former.as_ref();
        let hold = former.map(|former| former.hold).unwrap_or_default();
        let hold = known.hold(hold);
        let settings = match former.map(|former| &former.settings) {
            Some(Ok(settings)) => Ok(settings.clone()),
            // The last settings would act, which the policy may not want any more.
            Some(Err(error)) if hold.undecodable => Err(invalid(error)),
            // Its last valid settings are as good as those of one that is gone.
            Some(Err(SettingsError::Policy { .. })) | None => known
                .last
                .map(|last| with_mode(last, hold))
                .ok_or_else(|| match former.map(|former| &former.settings) {
                    Some(Err(error)) => invalid(error),
                    _ => unselected(
                        "the policy that protected it is gone, and none is known by which it \
                         could be judged; apply one that selects it to have it restored when it \
                         is healthy",
                    ),
                }),
            Some(Err(error)) => Err(invalid(error)),
        };
        if let Some(skip) = &assignment.skip {
            return Self::skipped(skip, hold, settings.as_ref().ok(), known);
        }
        match (settings, former) {
            (_, Some(former)) if hold.suspended => {
                Self::Hold(unselected(&suspended(former)), MARKS_STAY)
            }
            (Ok(settings), _) => Self::LetGo(settings, None),
            (Err(finding), _) if hold.undecodable => Self::Hold(finding, UNREADABLE),
            (Err(finding), _) => Self::Hold(finding, NO_SETTINGS),
        }
    }

    fn skipped(
        skip: &Skip,
        hold: PolicyHold,
        settings: Option<&Arc<Settings>>,
        known: Known<'_>,
    ) -> Self {
        let finding = Finding::Skipped {
            reason: skip.reason,
            message: skip.message.clone(),
        };
        if !known.engaged && known.looked_at {
            return Self::Idle(finding);
        }
        if let Some(why) = held(hold) {
            return Self::at_rest(finding, why, known);
        }
        match (skip.then, settings) {
            (Then::Restore, _) => Self::Complete(Aim::Up, finding),
            (Then::Release, _) => Self::Complete(Aim::Release, finding),
            (Then::LetGo, _) if !known.engaged => Self::Idle(finding),
            (Then::Stay, _) => Self::at_rest(finding, NO_STATE, known),
            (Then::LetGo, Some(settings)) => Self::LetGo(settings.clone(), Some(finding)),
            (Then::LetGo, None) => Self::at_rest(finding, NO_SETTINGS, known),
        }
    }

    fn at_rest(finding: Finding, why: &'static str, known: Known<'_>) -> Self {
        if known.engaged {
            Self::Hold(finding, why)
        } else {
            Self::Idle(finding)
        }
    }
}

/// Why nothing is written, if so.
fn held(hold: PolicyHold) -> Option<&'static str> {
    let reasons = [
        (hold.suspended, SUSPENDED),
        (hold.undecodable, UNREADABLE),
        (hold.dry_run, DRY_RUN),
    ];
    let mut reasons = reasons.into_iter();
    reasons.find_map(|(holds, why)| holds.then_some(why))
}

/// Applies the current hold: the mode in the last settings is of a policy now invalid, or gone, so that it
/// could not be changed any more.
fn with_mode(last: &Settings, hold: PolicyHold) -> Arc<Settings> {
    Arc::new(Settings {
        mode: if hold.dry_run {
            Mode::DryRun
        } else {
            Mode::Enforce
        },
        ..last.clone()
    })
}

fn suspended(policy: &Selected) -> String {
    format!("the policy {} is suspended", policy.policy)
}

fn invalid(error: &SettingsError) -> Finding {
    Finding::Unread {
        reason: match error {
            SettingsError::Policy { .. } => "PolicyInvalid",
            SettingsError::GracePeriod(_) | SettingsError::Unreadable(_) => "ClusterInvalid",
        },
        message: error.to_string(),
    }
}

fn unselected(message: &str) -> Finding {
    Finding::Skipped {
        reason: "Unselected",
        message: format!("no valid policy selects the cluster; {message}"),
    }
}

#[cfg(test)]
mod tests;
