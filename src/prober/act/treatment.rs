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
    cluster::{Assignment, PolicyHold, Settings, SettingsError, Skip, Then},
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
    /// Carry out this aim without a verdict until complete, also on marks that are only found then.
    Complete(Aim, Finding),
    /// Something is owed, and for this reason it stays so.
    Hold(Finding, &'static str),
    /// Nothing is owed, and nothing is to be done.
    Idle(Finding),
}

impl Assignment {
    /// Hold of the policy that applies, or did last.
    pub fn hold(&self) -> PolicyHold {
        self.responsible().map(|it| it.hold).unwrap_or_default()
    }

    /// Tells whether the Cluster is gone.
    pub fn is_gone(&self) -> bool {
        let skip = self.skip.as_ref();
        skip.is_some_and(|skip| skip.then == Then::Bury)
    }

    /// Notes that the Cluster is gone. The policy that is responsible stays.
    pub fn bury(&mut self) {
        self.skip = Some(Skip {
            reason: "Gone",
            message: "the Cluster is gone".to_owned(),
            then: Then::Bury,
        });
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
    /// Hold of the policy that is responsible, or was last. With `--dry-run` no dependent is written, whatever a policy
    /// says, or if there is none.
    pub(crate) hold: PolicyHold,
}

const SUSPENDED: &str = "the policy is suspended";
const MARKS_STAY: &str = "marks stay until the policy goes on";
const DRY_RUN: &str = "the mode is DryRun";
const UNREADABLE: &str = "the policy cannot be read, so it may be suspended";
const NO_SETTINGS: &str = "there is nothing valid by which it could be judged";
const NO_STATE: &str = "the cluster is not in a state to be judged";

impl Treatment {
    /// Decides; the rules are those of this module.
    pub(crate) fn new(assignment: &Assignment, known: Known<'_>) -> Self {
        let treatment = Self::wanted(assignment, known);
        treatment.unwrap_or_else(|(finding, why)| match known.engaged {
            true => Self::Hold(finding, why),
            false => Self::Idle(finding),
        })
    }

    /// The settings by which it is probed, if it is.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        match self {
            Self::Probe(settings) | Self::LetGo(settings, _) => Some(settings),
            Self::Complete(..) | Self::Hold(..) | Self::Idle(_) => None,
        }
    }

    /// Decides what is to be done; or else what there is to say, and why what is owed stays so.
    fn wanted(assignment: &Assignment, known: Known<'_>) -> Result<Self, (Finding, &'static str)> {
        let (hold, selected) = (known.hold, assignment.selected.as_ref());
        let settings = settings(assignment, known);
        // Whatever the Shoot is like, a suspended policy does not probe it.
        let is_moot =
            |skip: &&Skip| skip.reason == "Unreadable" && hold.suspended && selected.is_some();
        if selected.is_none() && !known.engaged && !assignment.is_gone() {
            return Ok(Self::Idle(unselected(
                "it is looked up whether anything is left marked, until no write can come about any more \
                 that was given up",
            )));
        }
        if let Some(skip) = assignment.skip.as_ref().filter(|skip| !is_moot(skip)) {
            return Self::skipped(skip, settings.ok(), known);
        }
        if let Some(policy) = assignment.responsible().filter(|_| hold.suspended) {
            let message = format!("the policy {} is suspended", policy.policy);
            let finding = match selected {
                Some(_) => skipped("Suspended", message),
                None => unselected(&message),
            };
            return Err((finding, MARKS_STAY));
        }
        match settings {
            Ok(settings) if selected.is_some() => Ok(Self::Probe(settings)),
            Ok(settings) => Ok(Self::LetGo(settings, None)),
            Err(finding) if hold.undecodable => Err((finding, UNREADABLE)),
            Err(finding) => Err((finding, NO_SETTINGS)),
        }
    }

    fn skipped(
        skip: &Skip,
        settings: Option<Arc<Settings>>,
        known: Known<'_>,
    ) -> Result<Self, (Finding, &'static str)> {
        let finding = skipped(skip.reason, skip.message.clone());
        if !known.engaged && known.looked_at {
            return Ok(Self::Idle(finding));
        }
        if let Some(why) = held(known.hold) {
            return Err((finding, why));
        }
        match (skip.then, settings) {
            (Then::Restore, _) => Ok(Self::Complete(Aim::Up, finding)),
            (Then::Release | Then::Bury, _) => Ok(Self::Complete(Aim::Release, finding)),
            (Then::Stay, _) => Err((finding, NO_STATE)),
            (Then::LetGo, Some(settings)) if known.engaged => {
                Ok(Self::LetGo(settings, Some(finding)))
            }
            (Then::LetGo, _) => Err((finding, NO_SETTINGS)),
        }
    }
}

/// The settings by which it is judged: those of the policy that is responsible. The last ones are as good, if that is
/// gone or invalid.
fn settings(assignment: &Assignment, known: Known<'_>) -> Result<Arc<Settings>, Finding> {
    let unknown = match assignment.responsible().map(|it| &it.settings) {
        Some(Ok(settings)) => return Ok(settings.clone()),
        // The last settings would act, which a policy that cannot be read may not want any more.
        Some(Err(error @ SettingsError::Policy(_)))
            if assignment.selected.is_none() && !known.hold.undecodable =>
        {
            invalid(error)
        }
        Some(Err(error)) => return Err(invalid(error)),
        None => unselected(
            "the policy that protected it is gone, and none is known by which it could be judged; apply one \
             that selects it to have it restored when it is healthy",
        ),
    };
    // Its mode is of a policy that is gone, or invalid by now: it could not be changed any more.
    let mode = Mode::Enforce.or_dry_run(known.hold.dry_run);
    let last = known.last.map(|last| Settings {
        mode,
        ..(**last).clone()
    });
    last.map(Arc::new).ok_or(unknown)
}

/// Why nothing is written, if so.
fn held(hold: PolicyHold) -> Option<&'static str> {
    match hold {
        _ if hold.suspended => Some(SUSPENDED),
        _ if hold.undecodable => Some(UNREADABLE),
        _ if hold.dry_run => Some(DRY_RUN),
        _ => None,
    }
}

fn skipped(reason: &'static str, message: String) -> Finding {
    Finding::Skipped { reason, message }
}

fn invalid(error: &SettingsError) -> Finding {
    let (reason, message) = match error {
        SettingsError::Policy(why) => ("PolicyInvalid", why),
        SettingsError::Cluster(why) => ("ClusterInvalid", why),
    };
    let message = message.clone();
    Finding::Unread { reason, message }
}

fn unselected(message: &str) -> Finding {
    let message = format!("no valid policy selects the cluster; {message}");
    skipped("Unselected", message)
}

#[cfg(test)]
mod tests;
