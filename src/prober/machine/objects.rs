//! What the objects say: whether a cluster is probed, and what is done about one that is not.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{ClusterMachine, flows::Wanted};
use crate::{
    cluster::{Eligibility, Settings},
    prober::{
        plan::Aim,
        report::{Finding, HeldBack},
        stance::{Known, Presence, Stance},
    },
};

/// A Cluster that is gone may be created anew, by somebody who replaces it.
const COMES_BACK: Duration = Duration::from_secs(30);
/// For how long the marks of one that does not come back are tried to be removed.
const BURIAL: Duration = Duration::from_secs(10 * 60);

impl ClusterMachine {
    /// Takes up what the objects say, and what is owed now.
    pub(super) fn take_stance(&mut self, now: Instant) {
        match &self.presence {
            Presence::There(assignment) => self
                .flows
                .ledger
                .named_by(|dependent| assignment.may_name(dependent)),
            // No policy has a say in what is gone.
            Presence::Gone(_) => self.flows.ledger.named_by(|_| false),
        }
        let known = Known {
            last: self.last.as_ref(),
            engaged: self.flows.is_engaged(),
            looked_at: self.flows.ledger.is_looked_at(),
            dry_run: self.dry_run,
        };
        let stance = Stance::new(&self.presence, known);
        if stance == self.stance {
            return;
        }
        let changed = !stance.is_like(&self.stance);
        if changed {
            self.want(Wanted::Nothing, now);
            self.told.held_back = None;
            self.give_up_at = None;
        }
        let before = std::mem::replace(&mut self.stance, stance.clone());
        let was_probed = before.settings().is_some();
        match &stance {
            Stance::Probe(settings) => {
                if changed || self.last.as_ref() != Some(settings) {
                    self.adopt(&settings.dependents, now);
                }
                self.probe(settings, was_probed, now);
            }
            Stance::LetGo(settings, _) => {
                self.ask_for_nothing(changed, now);
                self.probe(settings, was_probed, now);
            }
            Stance::Hibernate(settings, finding) => {
                self.evidence.unanswered = None;
                self.ask_for_nothing(changed, now);
                self.probe(settings, was_probed, now);
                self.told.finding = finding.clone();
            }
            Stance::Settle(aim, finding) => {
                self.ask_for_nothing(changed, now);
                self.rest(finding);
                let (aim, from) = (*aim, now);
                self.want(Wanted::Complete { aim, from }, now);
            }
            Stance::Hold(finding, why) => {
                self.told.held_back = Some(HeldBack::By(why));
                if changed {
                    self.hold(now);
                }
                self.rest(finding);
            }
            Stance::Idle(finding) => {
                self.rest(finding);
                // What cannot be scaled in the cluster's state need not be remembered. What a policy
                // holds back may be marked: it was never looked at.
                let presence = self.presence.clone();
                let dependents = match &presence {
                    Presence::There(it) if it.eligibility == Eligibility::Probed => it.dependents(),
                    _ => &[],
                };
                self.adopt(dependents, now);
            }
            Stance::Bury => {
                self.ask_for_nothing(changed, now);
                let from = now + COMES_BACK;
                let aim = Aim::Release;
                self.want(Wanted::Complete { aim, from }, now);
                self.give_up_at = Some(from + BURIAL);
            }
            Stance::Forget => {}
        }
    }

    /// No policy asks for any dependent any more: only what is owed is handled, or may be.
    fn ask_for_nothing(&mut self, changed: bool, now: Instant) {
        if changed {
            self.adopt(&[], now);
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
                self.evidence.asked = None;
            }
            return;
        }
        if !std::mem::take(&mut self.start.at_once) {
            self.start.act_from = now + settings.initial_delay;
        }
        self.told.finding = Finding::Pending;
    }

    /// It is not probed any more.
    fn rest(&mut self, finding: &Finding) {
        self.evidence.asked = None;
        self.start.at_once = false;
        self.told.finding = finding.clone();
    }
}
