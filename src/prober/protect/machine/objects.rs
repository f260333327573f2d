//! What the objects say: whether a cluster is probed, and what is done about one that is not.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{ClusterMachine, flows::Wanted};
use crate::{
    cluster::{PolicyHold, Settings},
    prober::{
        finding::{Finding, HeldBack},
        plan::Aim,
        treatment::{ClusterObject, Known, Treatment},
    },
};

/// A Cluster that is gone may be replaced by a new one within this.
const COMES_BACK: Duration = Duration::from_secs(30);
/// How long removal of the marks is tried if it does not come back.
const BURIAL: Duration = Duration::from_secs(10 * 60);

/// The policy's initialDelay.
#[derive(Clone, Debug, Hash)]
pub(super) struct InitialDelay {
    /// It does not apply: the cluster existed before the operator.
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

impl ClusterMachine {
    /// The node monitor grace period by which it is judged.
    pub fn grace(&self) -> Option<Duration> {
        self.treatment.settings().map(|it| it.rules.grace)
    }

    /// Longest wait of a scale-down for a level, since kube-controller-manager does not wait.
    pub(super) fn patience(&self, aim: Aim) -> Option<Duration> {
        let settings = self.treatment.settings().filter(|_| aim == Aim::Protect)?;
        Some(settings.rules.patience(self.evidence.period))
    }

    /// Derives the treatment from the objects and debts.
    pub(super) fn treat(&mut self, now: Instant) {
        let known = Known {
            last: self.last.as_ref(),
            engaged: self.flows.is_engaged(),
            looked_at: self.flows.debts.is_looked_at(),
            dry_run: self.dry_run,
        };
        let may_write = !self.dry_run && self.presence.hold() == PolicyHold::default();
        // Also what removes marks ends then.
        let stops = std::mem::replace(&mut self.flows.may_write, may_write) && !may_write;
        let treatment = Treatment::new(&self.presence, known);
        if treatment == self.treatment {
            return;
        }
        let changed = stops || !treatment.is_like(&self.treatment);
        if changed {
            self.want(Wanted::Nothing, now);
            self.told.held_back = None;
            self.give_up_at = None;
        }
        let before = std::mem::replace(&mut self.treatment, treatment.clone());
        let was_probed = before.settings().is_some();
        if let Treatment::LetGo(..) | Treatment::Complete(..) | Treatment::Gone = treatment
            && changed
        {
            // No policy asks for dependents any more: only those owed, or perhaps owed, are handled.
            self.adopt(&[], now);
        }
        match &treatment {
            Treatment::Probe(settings) => {
                if changed || self.last.as_ref() != Some(settings) {
                    self.adopt(&settings.dependents, now);
                }
                self.probe(settings, was_probed, now);
            }
            Treatment::LetGo(settings, _) => self.probe(settings, was_probed, now),
            Treatment::Complete(aim, finding) => {
                self.rest(finding);
                self.want(Wanted::Complete(*aim, now), now);
            }
            Treatment::Hold(finding, why) => {
                self.told.held_back = Some(HeldBack::By(why));
                if changed {
                    self.hold(now);
                }
                self.rest(finding);
            }
            Treatment::Idle(finding) => {
                self.rest(finding);
                // Dependents that cannot be scaled in this state need not be remembered. Those of a policy
                // on hold may be marked: they were never read.
                let presence = self.presence.clone();
                let dependents = match &presence {
                    ClusterObject::There(it) if it.skip.is_none() => it.dependents(),
                    _ => &[],
                };
                self.adopt(dependents, now);
            }
            Treatment::Gone => {
                let from = now + COMES_BACK;
                self.want(Wanted::Complete(Aim::Release, from), now);
                self.give_up_at = Some(from + BURIAL);
            }
            Treatment::Done => {}
        }
    }

    /// It is probed by these settings from now on.
    fn probe(&mut self, settings: &Arc<Settings>, was_probed: bool, now: Instant) {
        if matches!(self.told.finding, Finding::Skipped { .. }) {
            self.told.finding = Finding::Pending;
        }
        let same = self.last.as_ref() == Some(settings);
        self.last = Some(settings.clone());
        if was_probed {
            if !same {
                self.evidence.verdict = None;
            }
            return;
        }
        self.initial_delay.begin(settings.initial_delay, now);
        self.told.finding = Finding::Pending;
    }

    /// It is not probed any more.
    fn rest(&mut self, finding: &Finding) {
        self.evidence.verdict = None;
        self.evidence.fresh_since = None;
        self.initial_delay.is_waived = false;
        self.told.finding = finding.clone();
    }
}
