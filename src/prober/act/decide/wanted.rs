//! The order for the dependents, or the reason why there is none: computed anew after every input. The objects say
//! whether the cluster is probed, and what is done about one that is not. Of one that is probed:
//!
//! - Leases that show an outage decide, whatever the checks say.
//! - A restore needs healthy leases, and each Gate to pass. One without a result does not pass: after a
//!   restart of the operator each has to run first.
//! - Otherwise nothing is scaled.

use std::{mem, time::Duration};

use tokio::time::Instant;

use super::Decider;
use crate::{
    api::{Mode, Protection},
    cluster::{PolicyHold, Settings},
    prober::{
        dependents::Order,
        finding::{Finding, HeldBack},
        proof::Proof,
        step::Aim,
        treatment::{Known, Treatment},
        verdict::Verdict,
    },
    util::now::Now,
};

/// Time for which a confirmation allows what was restored to be restored again.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);
/// Time within which a Cluster that is gone may be replaced by a new one.
const COMES_BACK: Duration = Duration::from_secs(30);
/// A cluster that was restored less than so long ago …
const AN_HOUR: Duration = Duration::from_secs(3600);
/// … is restored again once its leases have been fresh for this long. Judgement: an unstable network would scale
/// the dependents up and down in turn.
const FRESH: Duration = Duration::from_secs(60);

const FAILURE_THRESHOLD: HeldBack =
    HeldBack::by("the policy's failureThreshold is not reached yet");
const SUCCESS_THRESHOLD: HeldBack =
    HeldBack::by("the policy's successThreshold is not reached yet");
const INITIAL_DELAY: HeldBack = HeldBack::by("the policy's initialDelay has not passed yet");
const UNSELECTED: HeldBack = HeldBack::by("no policy selects the cluster any more");
const NOTHING_MORE: HeldBack = HeldBack::by("nothing more is scaled to zero");

impl Decider {
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
        match &treatment {
            Treatment::Probe(settings) => self.dependents.adopt(&settings.dependents),
            // Those of a policy on hold may be marked: they were never read.
            Treatment::Idle(_) if self.assignment.skip.is_none() => {
                self.dependents.adopt(self.assignment.dependents());
            }
            Treatment::Hold(..) => {}
            // No policy asks for dependents, or none can be scaled in this state: only those owed, or perhaps owed,
            // are handled.
            _ => self.dependents.adopt(&[]),
        }
        self.evidence.until = None;
        let before = mem::replace(&mut self.treatment, treatment);
        match &self.treatment {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => {
                self.last = Some(settings.clone());
                if before.settings().is_none() {
                    self.told.finding = Finding::Pending;
                    if !mem::take(&mut self.waives_delay) {
                        self.acts_from = now + settings.initial_delay;
                    }
                }
            }
            Treatment::Complete(_, finding)
            | Treatment::Hold(finding, _)
            | Treatment::Idle(finding) => {
                self.evidence.fresh_since = None;
                self.waives_delay = false;
                self.told.finding = finding.clone();
            }
        }
    }

    /// Order for the dependents from now on.
    pub(super) fn order(&mut self, now: Now, turn: impl Fn() -> Instant) -> Order {
        // Whoever was frozen, or waited for too long, needs a new verdict.
        if self.evidence.until.is_some_and(|until| until < now.mono) {
            self.evidence.until = None;
        }
        self.review();
        // A turn is kept for as long as the leases and the Gates allow the restore.
        let is_free = self.evidence.gate.is_none() && self.is_probed();
        let restores = is_free && self.course() == Ok(Aim::Up);
        self.turn.take_if(|_| !restores);
        let wanted = self.wanted(now, turn);
        self.told.held_back = wanted.as_ref().err().cloned().flatten();
        let aim = wanted.unwrap_or_default();
        let settings = self.treatment.settings();
        let scales_down = settings.filter(|_| aim == Aim::Down);
        Order {
            aim,
            // Of what nobody looks after any more no mark is left.
            keeps_marks: !matches!(
                self.treatment,
                Treatment::LetGo(_, None) | Treatment::Complete(..)
            ),
            may_unmark: self.hold() == PolicyHold::default(),
            patience: scales_down.map(|it| it.rules.patience(self.verdict().1)),
            awaits_nodes: self.is_probed() && !self.told.returning.is_complete(),
        }
    }

    /// Decides what is wanted of the dependents; or why nothing is, if there is anything to say of that.
    fn wanted(&mut self, now: Now, turn: impl Fn() -> Instant) -> Result<Aim, Option<HeldBack>> {
        let mode = match &self.treatment {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => settings.mode,
            Treatment::Complete(aim, _) if self.release_at.is_none_or(|at| at <= now.mono) => {
                return Ok(*aim);
            }
            Treatment::Hold(_, why) => return Err(Some(HeldBack::by(why))),
            Treatment::Complete(..) | Treatment::Idle(_) => return Err(None),
        };
        let is_engaged = self.protection() != Protection::None || self.dependents.is_engaged();
        let aim = self.course()?;
        if mode == Mode::DryRun {
            return Err(None);
        }
        if now.mono < self.acts_from {
            return Err(Some(INITIAL_DELAY));
        }
        if aim == Aim::Down {
            return self.may_take(now.mono).map(|()| aim);
        }
        if let Some(why) = &self.evidence.gate {
            return Err(is_engaged.then(|| HeldBack::gate(why)));
        }
        self.may_give_back(now, turn).map(|()| aim)
    }

    /// Aim that the leases ask for.
    fn course(&self) -> Result<Aim, Option<HeldBack>> {
        let is_protected = self.protection() != Protection::None;
        let decides = self.evidence.decides;
        match self.verdict().0 {
            Some(Verdict::Outage) if !decides => Err(Some(FAILURE_THRESHOLD)),
            Some(Verdict::Healthy) if !decides => {
                Err(Some(SUCCESS_THRESHOLD).filter(|_| is_protected))
            }
            Some(Verdict::Outage) => Ok(Aim::Down),
            Some(Verdict::Healthy) => Ok(Aim::Up),
            Some(Verdict::Undetermined(_)) | None => Err(None),
        }
    }

    /// Checks whether dependents may be scaled to zero.
    fn may_take(&mut self, now: Instant) -> Result<(), Option<HeldBack>> {
        match &self.treatment {
            // What is owed is restored, and nothing more is scaled down.
            Treatment::LetGo(_, None) => return Err(Some(UNSELECTED)),
            Treatment::LetGo(_, Some(_)) => return Err(Some(NOTHING_MORE)),
            _ => {}
        }
        // A scale-down that has begun goes on, unless a later answer objects to it.
        if self.dependents.aim() == Aim::Down && self.confirmed.objection().is_none() {
            return Ok(());
        }
        self.confirm(Proof::length(self.verdict().1), now)
    }

    /// Checks whether dependents may be restored.
    fn may_give_back(
        &mut self,
        now: Now,
        turn: impl Fn() -> Instant,
    ) -> Result<(), Option<HeldBack>> {
        // A cluster that is let go waits for nobody.
        if self.is_probed() && self.is_down() && self.dependents.owes() {
            let since = *self.evidence.fresh_since.get_or_insert(now.mono);
            let restored = self.told.restored;
            let is_flapping = restored.is_some_and(|at| at.elapsed(now) < AN_HOUR);
            if is_flapping && now.mono < since + FRESH {
                return Err(Some(HeldBack::FLAPPING));
            }
            if now.mono < *self.turn.get_or_insert_with(turn) {
                return Err(Some(HeldBack::PACED));
            }
        }
        match self.dependents.owes_again() {
            true => self.confirm(RESTORED_WITHIN, now.mono),
            false => Ok(()),
        }
    }

    fn is_probed(&self) -> bool {
        matches!(self.treatment, Treatment::Probe(_))
    }

    /// Tells whether a verdict on the cluster is acted on: it is probed, by a policy that enforces, and its
    /// initialDelay is over.
    pub(super) fn acts(&self, settings: &Settings, now: Instant) -> bool {
        self.is_probed() && settings.mode == Mode::Enforce && self.acts_from <= now
    }

    /// Why something of this aim is done, in words.
    pub(super) fn why(&self, aim: Aim) -> String {
        let finding = match (&self.treatment, aim) {
            (Treatment::Complete(_, finding), _) => finding,
            (_, Aim::Leave) => return String::new(),
            _ => &self.told.finding,
        };
        match finding {
            Finding::Judged(..) if aim == Aim::Up && self.cut().is_some_and(|(_, ends)| ends) => {
                "it was protected for as long as the policy's maxProtection lets it be".to_owned()
            }
            Finding::Judged(_, seen) => format!(
                "{} of {} node leases that count were expired",
                seen.expired, seen.candidates
            ),
            Finding::Unread { message, .. } | Finding::Skipped { message, .. } => message.clone(),
            Finding::Pending => String::new(),
        }
    }
}
