//! Objects and what follows from them: whether a cluster is probed, and what is done about one that is not.

use std::{mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::Decider;
use crate::{
    cluster::{PolicyHold, Settings},
    prober::{
        finding::Finding,
        treatment::{Known, Treatment},
    },
};

/// Time within which a Cluster that is gone may be replaced by a new one.
const COMES_BACK: Duration = Duration::from_secs(30);
/// Time for which removal of the marks is tried if it does not come back.
const BURIAL: Duration = Duration::from_secs(10 * 60);

impl Decider {
    /// The node monitor grace period by which it is judged.
    pub fn grace(&self) -> Option<Duration> {
        self.treatment.settings().map(|it| it.rules.grace)
    }

    /// When the marks of a Cluster that is gone, and does not come back, are given up.
    pub fn give_up_at(&self) -> Option<Instant> {
        Some(self.release_at? + BURIAL)
    }

    /// Hold of the policy that is responsible, or was last, and of the process.
    pub(super) fn hold(&self) -> PolicyHold {
        let hold = self.assignment.hold();
        PolicyHold {
            dry_run: hold.dry_run || self.dry_run,
            ..hold
        }
    }

    /// Derives the treatment from the objects and what is known of the dependents.
    pub(super) fn treat(&mut self, now: Instant) {
        let known = Known {
            last: self.last.as_ref(),
            engaged: self.dependents.is_engaged(),
            looked_at: self.dependents.is_looked_at(),
            hold: self.hold(),
        };
        let treatment = Treatment::new(&self.assignment, known);
        let waits = self.assignment.is_gone() && matches!(treatment, Treatment::Complete(..));
        let release_at = self.release_at.unwrap_or(now + COMES_BACK);
        self.release_at = waits.then_some(release_at);
        if treatment == self.treatment {
            return;
        }
        let changed = !treatment.is_like(&self.treatment);
        if changed {
            self.evidence.lapse();
        }
        let adopted = match &treatment {
            Treatment::Probe(settings) if changed || self.last.as_ref() != Some(settings) => {
                Some(&*settings.dependents)
            }
            // No policy asks for dependents any more: only those owed, or perhaps owed, are handled.
            Treatment::LetGo(..) | Treatment::Complete(..) if changed => Some(&[][..]),
            // Dependents that cannot be scaled in this state need not be remembered.
            Treatment::Idle(_) if self.assignment.skip.is_some() => Some(&[][..]),
            // Those of a policy on hold may be marked: they were never read.
            Treatment::Idle(_) => Some(self.assignment.dependents()),
            _ => None,
        };
        if let Some(adopted) = adopted {
            self.dependents.adopt(adopted);
        }
        let before = mem::replace(&mut self.treatment, treatment.clone());
        match &treatment {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => {
                self.probe(settings, before.settings().is_some(), now);
            }
            Treatment::Complete(_, finding)
            | Treatment::Hold(finding, _)
            | Treatment::Idle(finding) => {
                self.evidence.lapse();
                self.evidence.fresh_since = None;
                self.waives_delay = false;
                self.told.finding = finding.clone();
            }
        }
    }

    /// Begins to probe it by these settings.
    fn probe(&mut self, settings: &Arc<Settings>, was_probed: bool, now: Instant) {
        if self.last.as_ref() != Some(settings) {
            self.evidence.lapse();
        }
        self.last = Some(settings.clone());
        if was_probed {
            return;
        }
        self.told.finding = Finding::Pending;
        if !mem::take(&mut self.waives_delay) {
            self.acts_from = now + settings.initial_delay;
        }
    }
}
