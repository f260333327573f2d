//! What one cluster's loop does when its leases were read, or its checks have come to something else.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{Probe, Stance};
use crate::{
    api::{Mode, Protection, Restore},
    cluster::Settings,
    prober::{
        course::Course,
        evidence::EvidenceError,
        guard::Order,
        log,
        plan::Aim,
        proof::Proof,
        report::{self, Finding, HeldBack},
        verdict::Verdict,
        watch::Conclusion,
    },
};

/// So many reads in a row, over so long a time, must stay unanswered before an API server that is
/// being hibernated is taken to be gone: one that restarts is back by then.
const SILENCES: u32 = 3;
const SILENCE: Duration = Duration::from_secs(30);

const FAILURE_THRESHOLD: HeldBack =
    HeldBack::By("the policy's failureThreshold is not reached yet");
const SUCCESS_THRESHOLD: HeldBack =
    HeldBack::By("the policy's successThreshold is not reached yet");
const INITIAL_DELAY: HeldBack = HeldBack::By("the policy's initialDelay has not passed yet");
const UNSELECTED: HeldBack = HeldBack::By("no policy selects the cluster any more");
const NOTHING_MORE: HeldBack = HeldBack::By("nothing more is scaled to zero");
const NOT_ASKED: HeldBack = HeldBack::By("its API server cannot be asked whether it still answers");
const NOT_ANSWERED: HeldBack = HeldBack::By("its API server does not answer");

impl Probe {
    /// The leases were judged.
    pub(super) fn judged(&mut self, conclusion: &Conclusion, settings: &Settings) {
        self.probed = Some(Timestamp::now());
        self.asked = conclusion.act;
        let seen = Box::new(conclusion.assessment.clone());
        let finding = Finding::Judged(conclusion.verdict, seen);
        match self.course() {
            Course::Triggered { why, until } => self.triggered(why, until, finding, settings),
            Course::Held { why, held } => self.hold_trigger(why, held, finding),
            course => {
                self.found(finding);
                self.held_back = None;
                match course {
                    Course::Protect if self.may(Aim::Protect, settings) => {
                        self.protect(conclusion, settings);
                    }
                    Course::Restore if self.may(Aim::Restore, settings) => {
                        self.restore(conclusion, settings);
                    }
                    Course::Wait(why) if self.may(Aim::Restore, settings) => self.wait(why),
                    Course::Nothing => self.doubt(conclusion.verdict, settings),
                    _ => {}
                }
            }
        }
    }

    /// The leases could not be read.
    pub(super) fn unread(&mut self, error: &EvidenceError, settings: &Settings) {
        self.probed = Some(Timestamp::now());
        self.asked = None;
        let finding = Finding::Unread {
            reason: error.reason(),
            message: error.to_string(),
        };
        match self.course() {
            Course::Triggered { why, until } => self.triggered(why, until, finding, settings),
            Course::Held { why, held } => self.hold_trigger(why, held, finding),
            _ => {
                self.found(finding);
                self.held_back = None;
                self.do_nothing(settings);
            }
        }
    }

    /// The checks have come to something else, or are others. It may end what is under way, and a
    /// Trigger begins; for the rest the next verdict on the leases is waited for.
    pub(super) fn checked(&mut self) {
        let (Stance::Probe(settings) | Stance::LetGo(settings, _)) = &self.stance else {
            return;
        };
        let settings = settings.clone();
        let was_triggered = matches!(self.finding, Finding::Triggered { .. });
        let was_held = matches!(self.held_back, Some(HeldBack::Trigger { .. }));
        let leases = self.finding.leases().clone();
        match self.course() {
            Course::Triggered { why, until } if was_triggered && !was_held => {
                let leases = Box::new(leases);
                self.found(Finding::Triggered { why, leases });
                self.guard.extend(Aim::Protect, until);
            }
            Course::Triggered { why, until } => self.triggered(why, until, leases, &settings),
            Course::Held { why, held } => self.hold_trigger(why, held, leases),
            course => {
                if was_triggered {
                    self.found(leases);
                    self.held_back = None;
                    self.guard.stop();
                }
                if let Course::Wait(why) = course
                    && self.may(Aim::Restore, &settings)
                {
                    self.wait(why);
                }
            }
        }
    }

    fn course(&self) -> Course {
        let trigger = self.checks.trigger(self.answered);
        Course::new(self.asked, trigger, self.checks.gate())
    }

    /// Whether what the evidence asks for may be done now; if not, notes why.
    fn may(&mut self, aim: Aim, settings: &Settings) -> bool {
        if settings.mode == Mode::DryRun {
            self.keep_looking();
            self.dry_run_at = Some(Instant::now());
        } else if Instant::now() < self.act_from {
            self.held_back = Some(INITIAL_DELAY);
        } else if aim == Aim::Protect
            && let Stance::LetGo(_, why) = &self.stance
        {
            // What is still owed is restored, and nothing more is taken.
            self.held_back = Some(match why {
                None => UNSELECTED,
                Some(_) => NOTHING_MORE,
            });
            self.guard.reset_delays();
            self.guard.stop();
        } else {
            return true;
        }
        false
    }

    fn protect(&mut self, conclusion: &Conclusion, settings: &Settings) {
        let seen = &conclusion.assessment;
        let order = Order {
            aim: Aim::Protect,
            restore: settings.restore,
            provable: conclusion
                .provable
                .map(|moment| Instant::from_std(self.shared.origin.instant(moment)))
                .filter(|provable| self.dry_run_at < Some(*provable)),
            valid_until: Instant::now() + Proof::length(seen.period),
        };
        let (expired, all) = (seen.expired, seen.candidates);
        let before = self.guard.protection();
        self.guard.act(order, || expired_of(expired, all));
        let begins = before == Protection::None && self.guard.protection() != before;
        if let Some(silence) = seen.silence.filter(|_| begins) {
            self.shared.metrics.decided(silence.median);
        }
    }

    fn restore(&mut self, conclusion: &Conclusion, settings: &Settings) {
        let order = Order {
            aim: Aim::Restore,
            restore: match self.stance {
                // What gardenlet has put to zero meanwhile is its decision.
                Stance::LetGo(_, Some(_)) => Restore::Marked,
                _ => settings.restore,
            },
            provable: None,
            valid_until: Instant::now() + restore_within(settings),
        };
        let (expired, all) = (
            conclusion.assessment.expired,
            conclusion.assessment.candidates,
        );
        self.guard.act(order, || expired_of(expired, all));
    }

    /// A check keeps it from being restored.
    fn wait(&mut self, why: HeldBack) {
        if self.keep_looking() {
            self.held_back = Some(why);
        }
    }

    /// Scales nothing, but looks at what it is owed all the same: somebody else may pay it, and what was
    /// never looked at may be owed. Tells whether anything is, or may be.
    fn keep_looking(&mut self) -> bool {
        let ledger = self.guard.ledger();
        let engaged = ledger.owes() || self.guard.protection() != Protection::None;
        if engaged {
            self.guard.hold();
        } else if ledger.is_looked_at() {
            self.guard.stop();
        } else {
            self.guard.insist(Aim::Look, String::new(), Instant::now());
        }
        engaged
    }

    /// Without sufficient evidence nothing is scaled, either way. In a dry run nothing would be with it.
    fn do_nothing(&mut self, settings: &Settings) {
        match settings.mode {
            Mode::DryRun => {
                self.keep_looking();
            }
            Mode::Enforce => self.guard.stop(),
        }
    }

    /// A Trigger fails, which is an outage whatever was found of the leases.
    fn triggered(&mut self, why: String, until: Instant, leases: Finding, settings: &Settings) {
        self.found(Finding::Triggered {
            why: why.clone(),
            leases: Box::new(leases),
        });
        self.held_back = None;
        if self.may(Aim::Protect, settings) {
            let order = Order {
                aim: Aim::Protect,
                restore: settings.restore,
                provable: None,
                valid_until: until,
            };
            self.guard.act(order, || why);
        }
    }

    /// A Trigger fails, and is not acted on: nothing more is taken, and nothing is given back. A flow under
    /// way ends between two requests.
    fn hold_trigger(&mut self, why: String, held: HeldBack, leases: Finding) {
        self.found(Finding::Triggered {
            why,
            leases: Box::new(leases),
        });
        if self.held_back.as_ref().map(HeldBack::reason) != Some(held.reason()) {
            log::held(&self.name, &held);
        }
        self.held_back = Some(held);
        self.guard.reset_delays();
        self.keep_looking();
    }

    /// The verdict does not suffice.
    fn doubt(&mut self, verdict: Verdict, settings: &Settings) {
        if verdict == Verdict::Outage {
            self.guard.reset_delays();
        }
        self.do_nothing(settings);
        self.held_back = match verdict {
            Verdict::Outage => Some(FAILURE_THRESHOLD),
            Verdict::Healthy if self.guard.protection() != Protection::None => {
                Some(SUCCESS_THRESHOLD)
            }
            Verdict::Healthy | Verdict::Undetermined(_) => None,
        };
    }

    /// The API server of a cluster that is being hibernated answers: what was taken is needed to
    /// take its nodes down.
    pub(super) fn answered(&mut self, settings: &Settings) {
        self.probed = Some(Timestamp::now());
        self.unanswered = None;
        self.held_back = None;
        let order = Order {
            aim: Aim::Restore,
            restore: Restore::Marked,
            provable: None,
            valid_until: Instant::now() + restore_within(settings),
        };
        let why = || "the cluster is being hibernated, and its API server answers".to_owned();
        self.guard.act(order, why);
    }

    /// It does not answer, or cannot be asked.
    pub(super) fn not_answered(&mut self, error: &EvidenceError) {
        self.probed = Some(Timestamp::now());
        if !error.is_silence() {
            self.unanswered = None;
            self.held_back = Some(NOT_ASKED);
            self.guard.stop();
            return;
        }
        let (before, since) = self.unanswered.unwrap_or((0, Instant::now()));
        let unanswered = before.saturating_add(1);
        self.unanswered = Some((unanswered, since));
        if unanswered < SILENCES || since.elapsed() < SILENCE {
            self.held_back = Some(NOT_ANSWERED);
            self.guard.stop();
        } else {
            self.held_back = None;
            let why =
                "the cluster is being hibernated, and its API server does not answer any more";
            self.guard
                .insist(Aim::Release, why.to_owned(), Instant::now());
        }
    }

    /// Notes a finding, and logs it if it is another than before.
    pub(super) fn found(&mut self, finding: Finding) {
        if report::reason(&finding) != report::reason(&self.finding) {
            log::found(&self.name, &finding, self.last.as_deref());
        }
        self.finding = finding;
    }
}

fn expired_of(expired: usize, all: usize) -> String {
    format!("{expired} of {all} node leases that count were expired")
}

/// A restore needs another healthy verdict within this.
fn restore_within(settings: &Settings) -> Duration {
    2 * settings.interval + settings.timeout
}
