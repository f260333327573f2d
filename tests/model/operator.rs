//! One instance of the operator: the machine of production, driven one request at a time.

use std::{sync::LazyLock, time::Duration};

use dependency_watchdog::{
    api::{ClusterHealthStatus, Mode, Protection, Restore},
    checks::Trigger,
    prober::{
        debts::Debts,
        finding::HeldBack,
        flow::FlowInput,
        machine::{CheckResults, ClusterMachine, Effect, Input, Leases, Server},
        plan::Aim,
        treatment::Treatment,
        verdict::{Assessment, Returning, Verdict},
        watch::{Ask, Conclusion},
    },
    util::now::Now,
};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{
    action::{Life, Policy, Shoot},
    bounds::{Bounds, INITIAL_DELAY},
    flaws::Flaw,
    flow::{EVER, Outbox, Run},
    presence::presence,
};

/// The present. Time is not counted: what takes time may happen at any moment.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const AGES: Duration = Duration::from_secs(24 * 3600);
/// As the machine has it.
const COMES_BACK: Duration = Duration::from_secs(30);
/// A write that was given up may arrive for so long after the seed has answered again.
pub(crate) const LETS_GO: Duration = Duration::from_secs(15);

/// A moment at which all that waits is due, or one at which nothing is yet.
pub(crate) fn moment(late: bool) -> Instant {
    *NOW + if late { AGES } else { Duration::ZERO }
}

fn at(mono: Instant) -> Now {
    let wall = Timestamp::UNIX_EPOCH;
    Now { mono, wall }
}

/// What a ClusterHealth says.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Saved {
    protection: Protection,
    debts: Debts,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Operator {
    machine: ClusterMachine,
    pub(crate) flow: Option<Run>,
    pub(super) told: Outbox,
    /// The policy and the Cluster as it knows them.
    pub(crate) seen: (Policy, Life),
    /// What the evidence asks for that it has now.
    pub(crate) saw: Option<Aim>,
    /// What the last read of the leases asks for.
    leases: Option<Aim>,
    /// What it knows of the checks: that a Trigger fires, that a Gate does not pass.
    checks: (bool, bool),
    /// Since when it probes, and whether the initialDelay has passed since.
    probing: (Option<Instant>, bool),
    /// How many of those delays have passed.
    delays: u32,
    /// It wants the Cluster read past every cache.
    asks: bool,
    /// The Cluster has been gone for so long that it does not come back.
    buried: bool,
    /// So much time has passed since it started, or gave a write up, that none of those arrives any more.
    pub(crate) aged: bool,
    /// Its Lease may be somebody else's.
    pub(crate) deposed: bool,
    /// It was asked to end.
    pub(crate) ending: bool,
}

impl Saved {
    fn status(&self) -> ClusterHealthStatus {
        ClusterHealthStatus {
            protection: self.protection,
            dependents: self.debts.status(),
            ..ClusterHealthStatus::default()
        }
    }
}

impl Operator {
    /// A new process; there may have been one before, of which the ClusterHealth tells this.
    pub(crate) fn start(
        before: Option<Option<&Saved>>,
        seen: (Policy, Life),
        bounds: &Bounds,
    ) -> Self {
        let saved = before.flatten();
        let known = saved.map(Saved::status);
        let presence = presence(seen, bounds);
        let now = at(moment(false));
        let mut machine = ClusterMachine::recall(
            known.as_ref(),
            presence,
            (
                false,
                !bounds.initial_delay || bounds.flaw == Flaw::ActsAtOnce,
            ),
            now,
        );
        // What the one before has given up may still arrive, if anything does.
        if before.is_some() && bounds.budget.late > 0 {
            machine.distrust();
        }
        let mut operator = Self {
            machine,
            flow: None,
            told: Outbox::default(),
            seen,
            saw: None,
            leases: None,
            checks: (false, false),
            probing: (None, false),
            delays: 0,
            asks: false,
            buried: false,
            aged: false,
            deposed: false,
            ending: false,
        };
        operator.see(seen, bounds);
        operator
    }

    pub(crate) fn machine(&self) -> &ClusterMachine {
        &self.machine
    }

    /// The moment at which it learns of something.
    pub(super) fn now(&self) -> Instant {
        let aged = if self.aged { 2 } else { 0 };
        moment(false) + aged * LETS_GO + self.delays * INITIAL_DELAY
    }

    /// How much later it is restored that was protected again and again.
    pub(super) fn damping(&self) -> Duration {
        match self.machine.held_back() {
            Some(HeldBack::Flapping { fresh, .. }) => *fresh,
            _ => Duration::ZERO,
        }
    }

    /// What it writes to the ClusterHealth.
    pub(crate) fn report(&self) -> Saved {
        let mut saved = Saved {
            protection: self.machine.protection(),
            debts: self.machine.debts().clone(),
        };
        // What it does not say is nothing that a later one could know.
        saved.debts = Debts::recall(&saved.status());
        saved
    }

    /// Nobody has any use for it.
    pub(crate) fn is_over(&self) -> bool {
        self.machine.is_over() || self.ending && self.flow.is_none()
    }

    pub(crate) fn is_probing(&self) -> bool {
        self.machine.settings().is_some()
    }

    /// When it wants to go on by itself. A Cluster that is gone is not given up.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.machine.due()
    }

    /// Whether it may write to dependents, as far as the policy goes that it knows.
    pub(crate) fn may_write(&self, aim: Aim) -> bool {
        match (self.machine.treatment(), aim) {
            (Treatment::Probe(_) | Treatment::LetGo(..), _) if !self.probing.1 => false,
            (Treatment::Probe(settings), _) => settings.mode == Mode::Enforce,
            (Treatment::LetGo(settings, _), Aim::Restore) => settings.mode == Mode::Enforce,
            (Treatment::Hibernate(..), Aim::Restore | Aim::Release) => true,
            (Treatment::Complete(settled, _), aim) => *settled == aim,
            (Treatment::Gone, aim) => aim == Aim::Release,
            _ => false,
        }
    }

    /// Learns of the policy and the Cluster.
    pub(crate) fn see(&mut self, seen: (Policy, Life), bounds: &Bounds) {
        self.seen = seen;
        let probed = self.machine.settings().is_some();
        let disregards = bounds.flaw == Flaw::DisregardsPolicy && probed;
        self.learn_but(
            Input::Objects(presence(seen, bounds)),
            self.now(),
            disregards.then_some(&Effect::Withdraw),
            bounds,
        );
        if !self.is_probing() {
            self.probing = (None, false);
        } else if self.probing.0.is_none() {
            self.probing = (Some(self.now()), !bounds.initial_delay);
        }
    }

    /// Reads the leases, and acts on what they say.
    pub(crate) fn probe(&mut self, shoot: Shoot, now: Instant, bounds: &Bounds) {
        let hibernating = matches!(self.machine.treatment(), Treatment::Hibernate(..));
        let verdict = match shoot {
            Shoot::Silent => Some(Verdict::Outage),
            Shoot::Unreadable if bounds.flaw == Flaw::TakesDoubtForOutage => Some(Verdict::Outage),
            Shoot::Unreadable => None,
            // After a restart nothing is owed, as far as it looks.
            Shoot::Healthy
                if bounds.flaw == Flaw::TrustsItsRecord && !self.machine.debts().owes() =>
            {
                None
            }
            Shoot::Healthy | Shoot::Triggered | Shoot::Gated => Some(Verdict::Healthy),
        };
        let conclusion = verdict.map(conclusion);
        let leases = match &conclusion {
            Some(conclusion) => Leases::Judged(conclusion),
            None => Leases::Unread {
                reason: "Unreachable",
                message: "",
                server: Server::Silent,
            },
        };
        let checks = results(shoot.checks());
        let now = match bounds.flaw {
            Flaw::BelievesForEver => moment(false),
            _ => now,
        };
        let flaw = match bounds.flaw {
            Flaw::KeepsOn => Some(&Effect::Withdraw),
            _ => None,
        };
        if hibernating && now != self.now() && self.saw != Some(Aim::Release) {
            // It has been asked more than once by then.
            for _ in 0..2 {
                let before = Input::Leases(leases, checks.clone());
                self.learn_but(before, self.now(), flaw, bounds);
            }
        }
        // The delay runs from when it was first probed; after that it does not come again.
        let delay_ends = self.probing.0.map(|since| since + INITIAL_DELAY);
        if !self.probing.1 && delay_ends <= Some(now) {
            self.probing.1 = true;
            self.delays += 1;
        }
        self.learn_but(Input::Leases(leases, checks), now, flaw, bounds);
        self.leases = match shoot {
            Shoot::Silent => Some(Aim::Protect),
            Shoot::Unreadable => None,
            Shoot::Healthy | Shoot::Triggered | Shoot::Gated => Some(Aim::Restore),
        };
        self.checks = shoot.checks();
        self.judge();
        if hibernating {
            self.saw = match shoot {
                Shoot::Unreadable if self.machine.held_back().is_some() => None,
                Shoot::Unreadable => Some(Aim::Release),
                _ => Some(Aim::Restore),
            };
        }
    }

    /// Whether it wants the Cluster read past every cache.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// Learns what the Cluster is.
    pub(crate) fn confirm(&mut self, is_probed: bool, bounds: &Bounds) {
        self.asks = false;
        // It counts for the verdict that comes next, be that much later.
        let now = moment(true) + self.damping();
        self.learn_but(Input::Confirmed(is_probed), now, None, bounds);
    }

    /// Whether the checks have come to something that it does not know.
    pub(crate) fn may_check(&self, shoot: Shoot) -> bool {
        let has_checks = matches!(
            self.machine.treatment(),
            Treatment::Probe(_) | Treatment::LetGo(..)
        );
        has_checks && self.checks != shoot.checks()
    }

    /// Learns what the checks have come to.
    pub(crate) fn check(&mut self, shoot: Shoot, bounds: &Bounds) {
        self.checks = shoot.checks();
        self.learn(Input::Checks(results(self.checks)), bounds);
        self.judge();
    }

    /// What the leases and the checks ask for together.
    fn judge(&mut self) {
        self.saw = match (self.leases, self.checks) {
            (Some(Aim::Protect), _) | (_, (true, _)) => Some(Aim::Protect),
            (_, (_, true)) => None,
            (leases, _) => leases,
        };
    }

    /// It is asked to end, and may finish a step of which a part is written.
    pub(crate) fn end(&mut self, bounds: &Bounds) {
        self.ending = true;
        self.learn(Input::ShutDown, bounds);
    }

    /// What it waits for is due: as much time has passed.
    pub(crate) fn resume(&mut self, bounds: &Bounds) {
        let due = self.due();
        self.aged |= due > Some(moment(false) + LETS_GO);
        if *self.machine.treatment() == Treatment::Gone {
            self.buried |=
                due >= Some(moment(false) + COMES_BACK) && bounds.flaw != Flaw::BuriesAtOnce;
            self.saw = self.buried.then_some(Aim::Release);
        }
        let now = due.unwrap_or(moment(false)).max(self.now());
        self.learn_but(Input::Time, now, None, bounds);
    }

    pub(super) fn learn(&mut self, input: Input<'_>, bounds: &Bounds) {
        self.learn_but(input, self.now(), None, bounds);
    }

    /// Takes up what is learnt, and does what follows, but for this.
    fn learn_but(
        &mut self,
        input: Input<'_>,
        now: Instant,
        flaw: Option<&Effect>,
        bounds: &Bounds,
    ) {
        let before = self.machine.treatment().clone();
        let effects = self.machine.step(input, at(now));
        if !before.is_like(self.machine.treatment()) {
            self.saw = None;
            self.leases = None;
            self.buried = false;
        }
        if let Treatment::Complete(aim, _) = self.machine.treatment() {
            self.saw = Some(*aim);
        }
        for effect in effects.into_iter().filter(|effect| Some(effect) != flaw) {
            self.carry_out(effect, bounds);
        }
    }

    fn carry_out(&mut self, effect: Effect, bounds: &Bounds) {
        let input = match effect {
            Effect::Start(mut plan) => {
                if bounds.flaw == Flaw::RestoresUnmarked {
                    plan.purpose.restore = Restore::Any;
                }
                if bounds.flaw == Flaw::DropsMarksAtOnce {
                    plan.purpose.keep_marks = false;
                }
                let keeps = bounds.flaw == Flaw::KeepsMarks;
                if !keeps || !matches!(self.machine.treatment(), Treatment::Complete(..)) {
                    self.begin(plan, bounds);
                }
                return;
            }
            // A flow is valid until it is frozen.
            Effect::Extend(_) => return,
            Effect::Nodes(back) => FlowInput::Nodes(back),
            Effect::Confirm => {
                self.asks = true;
                return;
            }
            Effect::Withdraw => FlowInput::Withdraw,
            Effect::Finish => FlowInput::Finish(moment(true) + EVER),
            Effect::Tell(_) => return,
        };
        self.flow_learns(input, moment(false), bounds);
    }
}

fn results((fires, closed): (bool, bool)) -> CheckResults {
    CheckResults {
        trigger: match fires {
            true => Trigger::Failing {
                why: String::new(),
                until: moment(false),
            },
            false => Trigger::None,
        },
        gate: closed.then(String::new),
    }
}

/// Leases that were judged like this, often enough in a row.
fn conclusion(verdict: Verdict) -> Conclusion {
    Conclusion {
        verdict,
        assessment: Assessment {
            candidates: 1,
            expired: usize::from(verdict == Verdict::Outage),
            needed: 1,
            period: Duration::from_secs(10),
            roster: true,
            ..Assessment::default()
        },
        provable: None,
        onset: None,
        returning: Returning::default(),
        act: Some(match verdict {
            Verdict::Outage => Ask::Protect,
            Verdict::Healthy | Verdict::Undetermined(_) => Ask::Restore,
        }),
    }
}
