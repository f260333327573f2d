//! Objects and what follows from them: whether a cluster is probed, and what is done about one that is not.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::Decider;
use crate::{
    cluster::Settings,
    prober::{
        finding::Finding,
        treatment::{ClusterObject, Known, Treatment},
    },
};

/// Time within which a Cluster that is gone may be replaced by a new one.
const COMES_BACK: Duration = Duration::from_secs(30);
/// Time for which removal of the marks is tried if it does not come back.
const BURIAL: Duration = Duration::from_secs(10 * 60);

/// The policy's initialDelay.
#[derive(Clone, Debug, Hash)]
pub(super) struct InitialDelay {
    /// Waived: the cluster existed before the operator.
    pub(super) is_waived: bool,
    pub(super) ends: Instant,
}

impl InitialDelay {
    /// The cluster is probed from now on.
    fn begin(&mut self, delay: Duration, now: Instant) {
        if !std::mem::take(&mut self.is_waived) {
            self.ends = now + delay;
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.ends
    }
}

impl Decider {
    /// The node monitor grace period by which it is judged.
    pub fn grace(&self) -> Option<Duration> {
        self.treatment.settings().map(|it| it.rules.grace)
    }

    /// When the marks of a Cluster that is gone, and does not come back, are given up.
    pub fn give_up_at(&self) -> Option<Instant> {
        Some(self.release_at? + BURIAL)
    }

    /// Derives the treatment from the objects and what is known of the dependents.
    pub(super) fn treat(&mut self, now: Instant) {
        let known = Known {
            last: self.last.as_ref(),
            engaged: self.dependents.is_engaged(),
            looked_at: self.dependents.is_looked_at(),
            dry_run: self.dry_run,
        };
        let treatment = Treatment::new(&self.presence, known);
        if treatment == self.treatment {
            return;
        }
        let changed = !treatment.is_like(&self.treatment);
        if changed {
            self.release_at = None;
            self.evidence.lapse();
        }
        let before = std::mem::replace(&mut self.treatment, treatment.clone());
        match &treatment {
            Treatment::Probe(settings) => {
                if changed || self.last.as_ref() != Some(settings) {
                    self.dependents.adopt(&settings.dependents);
                }
                self.probe(settings, before.settings().is_some(), now);
            }
            Treatment::LetGo(settings, _) => {
                self.let_go(changed);
                self.probe(settings, before.settings().is_some(), now);
            }
            Treatment::Complete(_, finding) => {
                self.let_go(changed);
                self.rest(finding);
            }
            Treatment::Hold(finding, _) => self.rest(finding),
            Treatment::Idle(finding) => {
                self.rest(finding);
                // Dependents that cannot be scaled in this state need not be remembered. Those of a policy
                // on hold may be marked: they were never read.
                let dependents = match &self.presence {
                    ClusterObject::There(it) if it.skip.is_none() => it.dependents(),
                    _ => &[],
                };
                self.dependents.adopt(dependents);
            }
            Treatment::Gone => {
                self.let_go(changed);
                self.release_at = self.release_at.or(Some(now + COMES_BACK));
            }
            Treatment::Done => {}
        }
    }

    /// No policy asks for dependents any more: only those owed, or perhaps owed, are handled.
    fn let_go(&mut self, changed: bool) {
        if changed {
            self.dependents.adopt(&[]);
        }
    }

    /// Begins to probe it by these settings.
    fn probe(&mut self, settings: &Arc<Settings>, was_probed: bool, now: Instant) {
        if matches!(self.told.finding, Finding::Skipped { .. }) {
            self.told.finding = Finding::Pending;
        }
        if self.last.as_ref() != Some(settings) {
            self.evidence.lapse();
        }
        self.last = Some(settings.clone());
        if !was_probed {
            self.initial_delay.begin(settings.initial_delay, now);
            self.told.finding = Finding::Pending;
        }
    }

    /// Ends the probes.
    fn rest(&mut self, finding: &Finding) {
        self.evidence.lapse();
        self.evidence.fresh_since = None;
        self.initial_delay.is_waived = false;
        self.told.finding = finding.clone();
    }
}
