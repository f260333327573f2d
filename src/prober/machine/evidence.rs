//! What the leases and the checks say, and what follows from it.

use std::time::Duration;

use tokio::time::Instant;

use super::{CheckResults, ClusterMachine, Leases, Server};
use crate::{
    api::{Mode, Protection, Restore},
    cluster::Settings,
    health::{self, Finding, HeldBack},
    prober::{
        agenda::Order, course::Course, plan::Aim, proof::Proof, stance::Stance, verdict::Verdict,
        watch::Conclusion,
    },
    util::now::Now,
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

impl ClusterMachine {
    /// The leases were read, or could not be.
    pub(super) fn read(&mut self, leases: Leases<'_>, checks: CheckResults, now: Now) {
        let Some(settings) = self.stance.settings().cloned() else {
            return;
        };
        self.told.probed = Some(now.wall);
        let now = now.mono;
        match leases {
            _ if matches!(self.stance, Stance::Hibernate(..)) => {
                self.read_of_a_hibernating(leases, &settings, now);
            }
            Leases::Judged(conclusion) => self.judged(conclusion, checks, &settings, now),
            Leases::Unread {
                reason, message, ..
            } => {
                self.evidence.asked = None;
                let message = message.to_owned();
                let finding = Finding::Unread { reason, message };
                match Course::new(None, checks.trigger, checks.gate) {
                    Course::Triggered { why, until } => {
                        self.triggered(why, until, finding, &settings, now);
                    }
                    Course::Held { why, held } => self.hold_trigger(why, held, finding, now),
                    _ => {
                        self.told.finding = finding;
                        self.told.held_back = None;
                        self.do_nothing(&settings, now);
                    }
                }
            }
        }
    }

    fn judged(
        &mut self,
        conclusion: &Conclusion,
        checks: CheckResults,
        settings: &Settings,
        now: Instant,
    ) {
        self.evidence.asked = conclusion.act;
        let seen = Box::new(conclusion.assessment.clone());
        let finding = Finding::Judged(conclusion.verdict, seen);
        let course = Course::new(conclusion.act, checks.trigger, checks.gate);
        match course {
            Course::Triggered { why, until } => {
                return self.triggered(why, until, finding, settings, now);
            }
            Course::Held { why, held } => return self.hold_trigger(why, held, finding, now),
            Course::Protect | Course::Restore | Course::Wait(_) | Course::Nothing => {}
        }
        self.told.finding = finding;
        self.told.held_back = None;
        match course {
            Course::Protect => {
                if self.may(Aim::Protect, settings, now) {
                    let valid_until = now + Proof::length(conclusion.assessment.period);
                    self.act(Aim::Protect, settings.restore, valid_until, now);
                }
            }
            Course::Restore => {
                if self.may(Aim::Restore, settings, now) {
                    let restore = match self.stance {
                        // What gardenlet has put to zero meanwhile is its decision.
                        Stance::LetGo(_, Some(_)) => Restore::Marked,
                        _ => settings.restore,
                    };
                    self.act(Aim::Restore, restore, now + restore_within(settings), now);
                }
            }
            Course::Wait(why) => {
                if self.may(Aim::Restore, settings, now) {
                    self.wait(why, now);
                }
            }
            Course::Nothing | Course::Triggered { .. } | Course::Held { .. } => {
                self.doubt(conclusion.verdict, settings, now);
            }
        }
    }

    /// The checks have come to something else, or are others. It may end what is under way, and a
    /// Trigger begins; for the rest the next verdict on the leases is waited for.
    pub(super) fn checked(&mut self, checks: CheckResults, now: Instant) {
        let (Stance::Probe(settings) | Stance::LetGo(settings, _)) = &self.stance else {
            return;
        };
        let settings = settings.clone();
        let was_triggered = matches!(self.told.finding, Finding::Triggered { .. });
        let was_held = matches!(self.told.held_back, Some(HeldBack::Trigger { .. }));
        let leases = self.told.finding.leases().clone();
        match Course::new(self.evidence.asked, checks.trigger, checks.gate) {
            Course::Triggered { why, until } if was_triggered && !was_held => {
                let leases = Box::new(leases);
                self.told.finding = Finding::Triggered { why, leases };
                let next = self.agenda.extend(Aim::Protect, until);
                self.follow(next);
            }
            Course::Triggered { why, until } => {
                self.triggered(why, until, leases, &settings, now);
            }
            Course::Held { why, held } => self.hold_trigger(why, held, leases, now),
            course => {
                if was_triggered {
                    self.told.finding = leases;
                    self.told.held_back = None;
                    self.stop();
                }
                if let Course::Wait(why) = course
                    && self.may(Aim::Restore, &settings, now)
                {
                    self.wait(why, now);
                }
            }
        }
    }

    /// Whether what the evidence asks for may be done now; if not, notes why.
    fn may(&mut self, aim: Aim, settings: &Settings, now: Instant) -> bool {
        if settings.mode == Mode::DryRun {
            self.keep_looking(now);
        } else if now < self.start.act_from {
            self.told.held_back = Some(INITIAL_DELAY);
        } else if aim == Aim::Protect
            && let Stance::LetGo(_, why) = &self.stance
        {
            // What is still owed is restored, and nothing more is taken.
            self.told.held_back = Some(match why {
                None => UNSELECTED,
                Some(_) => NOTHING_MORE,
            });
            self.agenda.ledger.reset_delays();
            self.stop();
        } else {
            return true;
        }
        false
    }

    fn act(&mut self, aim: Aim, restore: Restore, valid_until: Instant, now: Instant) {
        let order = Order {
            aim,
            restore,
            valid_until,
        };
        let next = self.agenda.act(order, now);
        self.follow(next);
    }

    fn stop(&mut self) {
        let next = self.agenda.stop();
        self.follow(next);
    }

    /// A check keeps it from being restored.
    fn wait(&mut self, why: HeldBack, now: Instant) {
        if self.keep_looking(now) {
            self.told.held_back = Some(why);
        }
    }

    /// Scales nothing, but looks at what it is owed all the same: somebody else may pay it, and what was
    /// never looked at may be owed. Tells whether anything is, or may be.
    fn keep_looking(&mut self, now: Instant) -> bool {
        let ledger = &self.agenda.ledger;
        let engaged = ledger.owes() || self.agenda.protection() != Protection::None;
        let next = if engaged {
            self.agenda.hold(now)
        } else if ledger.is_looked_at() {
            self.agenda.stop()
        } else {
            self.agenda.insist(Aim::Look, now)
        };
        self.follow(next);
        engaged
    }

    /// Without sufficient evidence nothing is scaled, either way. In a dry run nothing would be with it.
    fn do_nothing(&mut self, settings: &Settings, now: Instant) {
        match settings.mode {
            Mode::DryRun => {
                self.keep_looking(now);
            }
            Mode::Enforce => self.stop(),
        }
    }

    /// A Trigger fails, which is an outage whatever was found of the leases.
    fn triggered(
        &mut self,
        why: String,
        until: Instant,
        leases: Finding,
        settings: &Settings,
        now: Instant,
    ) {
        let leases = Box::new(leases);
        self.told.finding = Finding::Triggered { why, leases };
        self.told.held_back = None;
        if self.may(Aim::Protect, settings, now) {
            self.act(Aim::Protect, settings.restore, until, now);
        }
    }

    /// A Trigger fails, and is not acted on: nothing more is taken, and nothing is given back. A flow under
    /// way ends between two requests.
    fn hold_trigger(&mut self, why: String, held: HeldBack, leases: Finding, now: Instant) {
        let leases = Box::new(leases);
        self.told.finding = Finding::Triggered { why, leases };
        self.told.held_back = Some(held);
        self.agenda.ledger.reset_delays();
        self.keep_looking(now);
    }

    /// The verdict does not suffice.
    fn doubt(&mut self, verdict: Verdict, settings: &Settings, now: Instant) {
        if verdict == Verdict::Outage {
            self.agenda.ledger.reset_delays();
        }
        self.do_nothing(settings, now);
        self.told.held_back = match verdict {
            Verdict::Outage => Some(FAILURE_THRESHOLD),
            Verdict::Healthy if self.agenda.protection() != Protection::None => {
                Some(SUCCESS_THRESHOLD)
            }
            Verdict::Healthy | Verdict::Undetermined(_) => None,
        };
    }

    /// As long as the API server of a cluster that is being hibernated answers, what was taken is needed
    /// to take its nodes down.
    fn read_of_a_hibernating(&mut self, leases: Leases<'_>, settings: &Settings, now: Instant) {
        let server = match leases {
            Leases::Judged(_) => Server::Answers,
            Leases::Unread { server, .. } => server,
        };
        if server != Server::Silent {
            self.evidence.unanswered = None;
        }
        self.told.held_back = match server {
            Server::Answers => {
                let valid_until = now + restore_within(settings);
                self.act(Aim::Restore, Restore::Marked, valid_until, now);
                None
            }
            Server::Unasked => {
                self.stop();
                Some(NOT_ASKED)
            }
            Server::Silent => {
                let (before, since) = self.evidence.unanswered.unwrap_or((0, now));
                let unanswered = SILENCES.min(before + 1);
                self.evidence.unanswered = Some((unanswered, since));
                if unanswered < SILENCES || now.duration_since(since) < SILENCE {
                    self.stop();
                    Some(NOT_ANSWERED)
                } else {
                    let next = self.agenda.insist(Aim::Release, now);
                    self.follow(next);
                    None
                }
            }
        };
    }

    /// Why a flow of this aim begins.
    pub(super) fn why(&self, aim: Aim) -> String {
        match (&self.stance, aim) {
            (Stance::Settle(_, finding), _) => health::evidence(finding),
            (_, Aim::Look) => String::new(),
            (Stance::Hibernate(..), Aim::Release) => {
                "the cluster is being hibernated, and its API server does not answer any more"
                    .to_owned()
            }
            (Stance::Hibernate(..), _) => {
                "the cluster is being hibernated, and its API server answers".to_owned()
            }
            (Stance::Bury, _) => "the Cluster is gone".to_owned(),
            _ => match &self.told.finding {
                Finding::Judged(_, seen) => format!(
                    "{} of {} node leases that count were expired",
                    seen.expired, seen.candidates
                ),
                Finding::Triggered { why, .. } => why.clone(),
                finding => health::evidence(finding),
            },
        }
    }
}

/// A restore needs another healthy verdict within this.
fn restore_within(settings: &Settings) -> Duration {
    2 * settings.interval + settings.timeout
}
