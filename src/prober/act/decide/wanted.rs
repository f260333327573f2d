//! What is wanted of the dependents now, or why nothing is: computed anew after every input.
//!
//! - Leases that show an outage decide, whatever the checks say.
//! - A restore needs healthy leases, and each Gate to pass. One without a result does not pass: after a
//!   restart of the operator each has to run first.
//! - Otherwise nothing is scaled.

use std::time::Duration;

use tokio::time::Instant;

use super::Decider;
use crate::{
    api::{Mode, Protection},
    cluster::{PolicyHold, Settings},
    prober::{
        dependents::Order,
        finding::{Finding, HeldBack},
        step::Aim,
        treatment::Treatment,
        verdict::Verdict,
    },
    util::now::Now,
};

/// A cluster that was restored less than so long ago …
const AN_HOUR: Duration = Duration::from_secs(3600);
/// … is restored again once its leases have been fresh for this long. Judgement: an unstable network would scale
/// the dependents up and down in turn.
const FRESH: Duration = Duration::from_secs(60);
/// Pause between two tries where no probe says one.
const AGAIN: Duration = Duration::from_secs(10);

const FAILURE_THRESHOLD: HeldBack =
    HeldBack::By("the policy's failureThreshold is not reached yet");
const SUCCESS_THRESHOLD: HeldBack =
    HeldBack::By("the policy's successThreshold is not reached yet");
const INITIAL_DELAY: HeldBack = HeldBack::By("the policy's initialDelay has not passed yet");
const UNSELECTED: HeldBack = HeldBack::By("no policy selects the cluster any more");
const NOTHING_MORE: HeldBack = HeldBack::By("nothing more is scaled to zero");

impl Decider {
    /// Order for the dependents from now on.
    pub(super) fn order(&mut self, now: Now, turn: impl Fn() -> Instant) -> Order {
        // Whoever was frozen, or waited for too long, needs a new verdict.
        if self.evidence.until.is_some_and(|until| until < now.mono) {
            self.evidence.lapse();
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
        self.confirmed.lets_go_on &= aim == Aim::Down;
        let scales_down = settings.filter(|_| aim == Aim::Down);
        Order {
            aim,
            keeps_marks: match &self.treatment {
                Treatment::Probe(_) => true,
                Treatment::LetGo(_, why) => why.is_some(),
                _ => false,
            },
            may_unmark: self.hold() == PolicyHold::default(),
            patience: scales_down.map(|it| it.rules.patience(self.evidence.period)),
            awaits_nodes: self.is_probed() && self.evidence.nodes_missing,
            interval: settings.map_or(AGAIN, |it| it.rules.interval),
        }
    }

    /// Decides what is wanted of the dependents; or why nothing is, if there is anything to say of that.
    fn wanted(&mut self, now: Now, turn: impl Fn() -> Instant) -> Result<Aim, Option<HeldBack>> {
        let mode = match &self.treatment {
            Treatment::Probe(settings) | Treatment::LetGo(settings, _) => settings.mode,
            Treatment::Complete(aim, _) if self.release_at.is_none_or(|at| at <= now.mono) => {
                return Ok(*aim);
            }
            Treatment::Hold(_, why) => return Err(Some(HeldBack::By(why))),
            Treatment::Complete(..) | Treatment::Idle(_) => return Err(None),
        };
        let is_protected = self.protection() != Protection::None;
        let is_engaged = is_protected || self.dependents.is_engaged();
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
            return Err(is_engaged.then(|| HeldBack::Gate(why.clone())));
        }
        self.may_give_back(now, turn).map(|()| aim)
    }

    /// Aim that the leases ask for.
    fn course(&self) -> Result<Aim, Option<HeldBack>> {
        let is_protected = self.protection() != Protection::None;
        let evidence = &self.evidence;
        match evidence.verdict {
            Some(Verdict::Outage) if !evidence.decides => Err(Some(FAILURE_THRESHOLD)),
            Some(Verdict::Healthy) if !evidence.decides => {
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
        // What is all down is only read.
        if self.dependents.is_complete() {
            return Ok(());
        }
        if self.confirmed.lets_take(now) {
            self.confirmed.lets_go_on = true;
            return Ok(());
        }
        self.effects.extend(self.confirmed.ask());
        // What is under way goes on meanwhile.
        match self.confirmed.objection() {
            None if self.confirmed.lets_go_on => Ok(()),
            objection => Err(objection),
        }
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
                return Err(Some(HeldBack::Flapping));
            }
            if now.mono < *self.turn.get_or_insert_with(turn) {
                return Err(Some(HeldBack::Paced));
            }
        }
        if !self.dependents.owes_again() || self.confirmed.lets_give_back(now.mono) {
            return Ok(());
        }
        self.effects.extend(self.confirmed.ask());
        Err(self.confirmed.objection())
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
            Finding::Judged(..) if self.cut.is_at_hand && aim == Aim::Up => {
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
