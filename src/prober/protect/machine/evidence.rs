//! What the leases and the Gates say, and what follows from it.
//!
//! - Leases that show an outage decide, whatever the checks say.
//! - A restore needs healthy leases, and each Gate to pass. One without a result does not pass: after a
//!   restart of the operator each has to run first.
//! - Otherwise nothing is scaled.

use std::time::Duration;

use tokio::time::Instant;

use super::{ClusterMachine, Effect, Leases, flows::Wanted};
use crate::{
    api::{Mode, Protection},
    cluster::Settings,
    prober::{
        finding::{Finding, HeldBack},
        flow::FlowInput,
        plan::{Aim, Purpose},
        proof::Proof,
        treatment::Treatment,
        verdict::{Doubt, Returning, Verdict},
        watch::Conclusion,
    },
    util::now::Now,
};

/// A cluster that was restored less than so long ago …
const AN_HOUR: Duration = Duration::from_secs(3600);
/// … is restored again once its leases have been fresh for this long. Judgement: an unstable network would scale
/// the dependents up and down in turn.
const FRESH: Duration = Duration::from_secs(60);

const FAILURE_THRESHOLD: HeldBack =
    HeldBack::By("the policy's failureThreshold is not reached yet");
const SUCCESS_THRESHOLD: HeldBack =
    HeldBack::By("the policy's successThreshold is not reached yet");
const INITIAL_DELAY: HeldBack = HeldBack::By("the policy's initialDelay has not passed yet");
const UNSELECTED: HeldBack = HeldBack::By("no policy selects the cluster any more");
const NOTHING_MORE: HeldBack = HeldBack::By("nothing more is scaled to zero");

impl ClusterMachine {
    /// The leases were read, or could not be; `gate` is why the first Gate that does not pass does not.
    pub(super) fn read(&mut self, leases: Leases<'_>, gate: Option<String>, now: Now) {
        let Some(settings) = self.treatment.settings().cloned() else {
            return;
        };
        self.told.probed = Some(now.wall);
        let is_protected = self.flows.protection() != Protection::None;
        if let Leases::Judged(conclusion) = leases {
            self.evidence.period = conclusion.assessment.period;
            self.told.note_onset(conclusion, is_protected, now);
            self.note_max_protection(conclusion, &settings, now);
        }
        let restored = self.told.restored;
        let is_flapping = restored.is_some_and(|at| at.elapsed(now) < AN_HOUR);
        let now = now.mono;
        self.told.held_back = None;
        let conclusion = match leases {
            Leases::Judged(conclusion) => conclusion,
            Leases::Unread { reason, message } => {
                let message = message.to_owned();
                self.evidence.verdict = None;
                self.told.finding = Finding::Unread { reason, message };
                return self.do_nothing(settings.mode == Mode::DryRun, now);
            }
        };
        let verdict = standing_verdict(conclusion, is_protected);
        let seen = Box::new(conclusion.assessment.clone());
        self.told.finding = Finding::Judged(verdict, seen);
        self.evidence.verdict = conclusion.decides.then_some(verdict);
        match (self.evidence.verdict, gate) {
            (Some(Verdict::Outage), _) => {
                self.evidence.fresh_since = None;
                let valid_until = now + Proof::length(conclusion.assessment.period);
                self.scale(Aim::Protect, valid_until, &settings, now);
            }
            (Some(Verdict::Healthy), Some(why)) => self.wait(HeldBack::Gate(why), &settings, now),
            (Some(Verdict::Healthy), None) => {
                self.note_returning(conclusion.returning);
                if self.is_paced() && self.flows.is_down() {
                    let since = *self.evidence.fresh_since.get_or_insert(now);
                    if is_flapping && now < since + FRESH {
                        return self.wait(HeldBack::Flapping, &settings, now);
                    }
                }
                let valid_until = now + restore_within(&settings);
                self.scale(Aim::Restore, valid_until, &settings, now);
            }
            (None | Some(Verdict::Undetermined(_)), _) => {
                self.confirm_ahead(conclusion, &settings, now);
                self.doubt(verdict, &settings, now);
            }
        }
    }

    /// Notes how many of the silent nodes are ready again.
    fn note_returning(&mut self, returning: Returning) {
        let missing = !returning.is_complete();
        if missing != self.evidence.nodes_missing {
            self.effects.push(Effect::Flow(FlowInput::Nodes(!missing)));
        }
        self.evidence.nodes_missing = missing;
        self.told.returning = returning;
    }

    /// The check results, or the checks, have changed. A Gate that does not pass ends a restore; anything
    /// else waits for the next verdict on the leases.
    pub(super) fn checked(&mut self, gate: Option<String>, now: Instant) {
        let (Treatment::Probe(settings) | Treatment::LetGo(settings, _)) = &self.treatment else {
            return;
        };
        let settings = settings.clone();
        if let (Some(Verdict::Healthy), Some(why)) = (self.evidence.verdict, gate) {
            self.wait(HeldBack::Gate(why), &settings, now);
        }
    }

    /// Scales, if what the evidence asks for may be done now.
    fn scale(&mut self, aim: Aim, valid_until: Instant, settings: &Settings, now: Instant) {
        if !self.may(aim, settings, now) {
            return;
        }
        let keep_marks = !matches!(self.treatment, Treatment::LetGo(_, None));
        let purpose = Purpose {
            aim,
            keep_marks,
            awaits: None,
        };
        let wanted = Wanted::Verdict {
            purpose,
            valid_until,
            paced: aim == Aim::Restore && self.is_paced(),
        };
        self.want(wanted, now);
        if self.flows.awaits_confirmation() {
            // Until the new answer comes.
            self.told.held_back = self.flows.confirmed.objection();
        }
    }

    /// Whether a restore may have to wait, for a while, for its turn or for nodes: not one of a cluster that is let
    /// go.
    fn is_paced(&self) -> bool {
        matches!(self.treatment, Treatment::Probe(_))
    }

    /// Whether a verdict on the cluster is acted on: it is probed, by a policy that enforces, and its
    /// initialDelay is over.
    pub(super) fn acts(&self, settings: &Settings, now: Instant) -> bool {
        matches!(self.treatment, Treatment::Probe(_))
            && settings.mode == Mode::Enforce
            && self.initial_delay.is_over(now)
    }

    /// Whether what the evidence asks for may be done now; if not, notes why.
    fn may(&mut self, aim: Aim, settings: &Settings, now: Instant) -> bool {
        if settings.mode == Mode::DryRun {
            self.keep_looking(now);
        } else if !self.initial_delay.is_over(now) {
            self.told.held_back = Some(INITIAL_DELAY);
        } else if aim == Aim::Protect
            && let Treatment::LetGo(_, why) = &self.treatment
        {
            // What is owed is restored, and nothing more is scaled down.
            self.told.held_back = Some(match why {
                None => UNSELECTED,
                Some(_) => NOTHING_MORE,
            });
            self.flows.debts.reset_delays();
            self.want(Wanted::Nothing, now);
        } else {
            return true;
        }
        false
    }

    /// Something prevents the restore.
    fn wait(&mut self, why: HeldBack, settings: &Settings, now: Instant) {
        if self.may(Aim::Restore, settings, now) && self.keep_looking(now) {
            self.told.held_back = Some(why);
        }
    }

    /// Scales nothing, but has the dependents read: others may restore them, and one never read may be
    /// owed. Returns whether any is marked, or the cluster is protected.
    fn keep_looking(&mut self, now: Instant) -> bool {
        let debts = &self.flows.debts;
        let engaged = self.flows.is_marked() || self.flows.protection() != Protection::None;
        if engaged {
            self.hold(now);
        } else if debts.is_looked_at() {
            self.want(Wanted::Nothing, now);
        } else {
            self.want(Wanted::Complete(Aim::Look, now), now);
        }
        engaged
    }

    /// Scales nothing: the evidence does not suffice. `looks` has the dependents read, if no evidence is to
    /// be expected, or it would change nothing, as in a dry run.
    fn do_nothing(&mut self, looks: bool, now: Instant) {
        if looks {
            self.keep_looking(now);
        } else {
            self.want(Wanted::Nothing, now);
        }
    }

    /// The verdict does not suffice.
    fn doubt(&mut self, verdict: Verdict, settings: &Settings, now: Instant) {
        if verdict == Verdict::Outage {
            self.evidence.fresh_since = None;
            self.flows.debts.reset_delays();
        }
        // This may last, and an earlier run may have left marks.
        let is_blind = verdict == Verdict::Undetermined(Doubt::NoCandidates)
            && self.flows.protection() == Protection::None;
        self.do_nothing(is_blind || settings.mode == Mode::DryRun, now);
        self.told.held_back = match verdict {
            Verdict::Outage => Some(FAILURE_THRESHOLD),
            Verdict::Healthy if self.flows.protection() != Protection::None => {
                Some(SUCCESS_THRESHOLD)
            }
            Verdict::Healthy | Verdict::Undetermined(_) => None,
        };
    }
}

/// The verdict that still holds. A healthy one does not if the protection began while the leases were read,
/// since less is required of an unprotected cluster.
fn standing_verdict(conclusion: &Conclusion, is_protected: bool) -> Verdict {
    match conclusion.verdict {
        Verdict::Healthy if is_protected && !conclusion.assessment.protected => {
            Verdict::Undetermined(Doubt::Recovering)
        }
        verdict => verdict,
    }
}

/// A restore needs another healthy verdict within this.
fn restore_within(settings: &Settings) -> Duration {
    2 * settings.rules.interval + settings.rules.timeout
}
