//! Report about a cluster.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::Decider;
use crate::{
    api::{Action, LastAction, Protection},
    prober::{
        dependents::{Event, What},
        finding::{Finding, HeldBack},
        lease_judge::Conclusion,
        step::Step,
        verdict::Returning,
    },
    util::{now::Now, since::Since},
};

/// Content of the report; `restored` and `finding` also decide.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Finding about the cluster.
    pub finding: Finding,
    /// Reason not to act on it.
    pub held_back: Option<HeldBack>,
    /// When the leases were last read, or should have been.
    pub probed: Option<Timestamp>,
    /// Since when the dependents are scaled down, or not all back.
    pub protected_since: Option<Since>,
    /// When something was last given back.
    pub(super) restored: Option<Since>,
    /// Start of the outage that the leases show, or showed; a new reader of the leases begins with it.
    pub silent_since: Option<Timestamp>,
    /// The nodes that are waited for, as of the last verdict that allows a restore.
    pub(super) returning: Returning,
    /// Last action on the dependents.
    pub last_action: Option<LastAction>,
    /// The dependents to which that was done in this protection.
    pub(super) done_to: Vec<String>,
}

impl Decider {
    /// Records when a protection begins, and when it is over.
    pub(super) fn note_protection(&mut self, now: Now) {
        let is_down = self.is_down();
        // Only a restore that is to begin uses them.
        self.evidence.fresh_since.take_if(|_| !is_down);
        self.turn.take_if(|_| !is_down);
        self.told.protected_since = match self.protection() {
            Protection::None => {
                self.told.done_to.clear();
                None
            }
            _ => self.told.protected_since.or(Some(now.into())),
        };
    }
}

impl Told {
    /// Records what was done to a dependent as the last action, if it is one.
    pub(super) fn note_done(&mut self, event: &Event, now: Now) {
        let (action, did) = match event.what {
            What::Did(Step::ScaleDown { .. }, _) => (Action::ScaledDown, "scaled to zero"),
            What::Did(Step::ScaleUp { .. }, _) => (Action::Restored, "scaled back"),
            _ if event.is_release() => {
                let did = "mark removed and replicas left as they are";
                (Action::Released, did)
            }
            _ => return,
        };
        let last = self.last_action.as_ref();
        if last.is_none_or(|last| last.action != action) {
            self.done_to.clear();
        }
        let name = &event.dependent.name;
        if !self.done_to.contains(name) {
            self.done_to.push(name.clone());
        }
        self.last_action = Some(LastAction {
            time: Time(now.wall),
            action,
            message: format!("{did}: {}; {}", self.done_to.join(", "), event.why),
        });
    }

    /// Records the start of the outage that the leases show, if they do.
    pub(super) fn note_onset(&mut self, conclusion: &Conclusion, is_protected: bool, now: Now) {
        let known = self.silent_since;
        let age = |onset| conclusion.assessment.at.since(onset);
        self.silent_since = match conclusion.onset.map(age) {
            Some(age) => known.or_else(|| now.wall.checked_sub(age).ok()),
            // Another leader may have seen it begin.
            None => known.filter(|_| is_protected),
        };
    }
}
