//! One instance of the operator: the decisions of production, driven one request at a time.

use std::{
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
    time::Duration,
};

use dependency_watchdog::{
    api::{ClusterHealthStatus, Mode, Protection, Restore},
    checks::Trigger,
    cluster::{Eligibility, Settings},
    prober::{
        agenda::{Agenda, Move, Order},
        course::Course,
        ledger::Ledger,
        plan::Aim,
        report::Finding,
        stance::{Known, Presence, Stance},
    },
};
use tokio::time::Instant;

use super::{
    action::{Life, Policy, Shoot},
    bounds::Bounds,
    flaws::Flaw,
    flow::Run,
    presence::presence,
};

/// The present. Time is not counted: what takes time may happen at any moment.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const AGES: Duration = Duration::from_secs(24 * 3600);
/// As the loop of a cluster has it.
const COMES_BACK: Duration = Duration::from_secs(30);
/// A write that was given up may arrive for so long after the seed has answered again.
pub(crate) const LETS_GO: Duration = Duration::from_secs(15);

/// A moment at which all that waits is due, or one at which nothing is yet.
pub(crate) fn moment(late: bool) -> Instant {
    *NOW + if late { AGES } else { Duration::ZERO }
}

/// What a ClusterHealth says.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Saved {
    protection: Protection,
    ledger: Ledger,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct Operator {
    pub(crate) agenda: Agenda,
    pub(crate) flow: Option<Run>,
    stance: Held,
    /// Whether the settings by which it probed last were of mode DryRun.
    last: Option<bool>,
    /// The policy and the Cluster as it knows them.
    pub(crate) seen: (Policy, Life),
    /// What the evidence asks for that it has now.
    pub(crate) saw: Option<Aim>,
    /// The Cluster has been gone for so long that it does not come back.
    buried: bool,
    /// So much time has passed since it started, or gave a write up, that none of those arrives any more.
    pub(crate) aged: bool,
    /// Its Lease may be somebody else's.
    pub(crate) deposed: bool,
    /// It was asked to end.
    pub(crate) ending: bool,
}

/// A stance, told apart by what it comes to.
#[derive(Clone, Debug)]
struct Held(Stance);

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.0).hash(state);
        let dry_run = |settings: &Arc<Settings>| settings.mode == Mode::DryRun;
        self.0.settings().map(dry_run).hash(state);
        if let Stance::Settle(aim, _) = &self.0 {
            aim.hash(state);
        }
    }
}

impl Saved {
    fn status(&self) -> ClusterHealthStatus {
        ClusterHealthStatus {
            protection: self.protection,
            dependents: self.ledger.status(),
            ..ClusterHealthStatus::default()
        }
    }
}

impl Operator {
    /// A new process.
    pub(crate) fn start(saved: Option<&Saved>, seen: (Policy, Life), bounds: &Bounds) -> Self {
        let known = saved.map(Saved::status);
        let mut operator = Self {
            agenda: Agenda::recall(known.as_ref()),
            flow: None,
            stance: Held(Stance::Idle(Finding::Pending)),
            last: None,
            seen,
            saw: None,
            buried: false,
            aged: false,
            deposed: false,
            ending: false,
        };
        if let Presence::There(assignment) = presence(seen, bounds)
            && (saved.is_none() || assignment.selected.is_none())
            && let Some(policy) = assignment.selected.or(assignment.former)
            && let Ok(settings) = policy.settings
        {
            // As `Probe::new`.
            let _none = operator.agenda.adopt(&settings.dependents);
        }
        operator.take_stance(bounds);
        operator
    }

    /// Somebody may have written what is not known of.
    pub(crate) fn distrust(&mut self) {
        self.agenda.ledger.distrust();
    }

    /// The moment at which it learns of something.
    pub(super) fn now(&self) -> Instant {
        moment(false)
            + if self.aged {
                2 * LETS_GO
            } else {
                Duration::ZERO
            }
    }

    /// What it writes to the ClusterHealth.
    pub(crate) fn report(&self) -> Saved {
        let mut saved = Saved {
            protection: self.agenda.protection(),
            ledger: self.agenda.ledger.clone(),
        };
        // What it does not say is nothing that a later one could know.
        saved.ledger = Ledger::recall(&saved.status());
        saved
    }

    /// Nobody has any use for it.
    pub(crate) fn is_over(&self) -> bool {
        self.stance.0 == Stance::Forget || self.ending && self.flow.is_none()
    }

    pub(crate) fn is_probing(&self) -> bool {
        self.stance.0.settings().is_some()
    }

    /// Whether it may write to dependents, as far as the policy goes that it knows.
    pub(crate) fn may_write(&self, aim: Aim) -> bool {
        match (&self.stance.0, aim) {
            (Stance::Probe(settings), _) => settings.mode == Mode::Enforce,
            (Stance::LetGo(settings, _), Aim::Restore) => settings.mode == Mode::Enforce,
            (Stance::Hibernate(..), Aim::Restore | Aim::Release) => true,
            (Stance::Settle(settled, _), aim) => *settled == aim,
            (Stance::Bury, aim) => aim == Aim::Release,
            _ => false,
        }
    }

    /// Learns of the policy and the Cluster.
    pub(crate) fn see(&mut self, seen: (Policy, Life), bounds: &Bounds) {
        self.seen = seen;
        self.take_stance(bounds);
    }

    /// As the loop of a cluster does, after each event.
    pub(super) fn take_stance(&mut self, bounds: &Bounds) {
        let settings = |mode| bounds.settings(mode);
        let presence = presence(self.seen, bounds);
        let mode = |dry_run| if dry_run { Mode::DryRun } else { Mode::Enforce };
        let last = self.last.map(mode).map(settings);
        let known = Known {
            last: last.as_ref(),
            engaged: self.agenda.is_engaged(),
            looked_at: self.agenda.ledger.is_looked_at(),
            dry_run: false,
        };
        let stance = match Stance::new(&presence, known) {
            Stance::Settle(_, finding) if bounds.flaw == Flaw::KeepsMarks => Stance::Idle(finding),
            stance => stance,
        };
        if stance == self.stance.0 {
            return;
        }
        let changed = !stance.is_like(&self.stance.0);
        let mut moves = Vec::new();
        if changed && bounds.flaw != Flaw::DisregardsPolicy {
            moves.push(self.agenda.stop());
        }
        if changed {
            self.saw = None;
            self.buried = false;
        }
        match &stance {
            Stance::Probe(settings)
                if (changed || last.as_ref() != Some(settings))
                    && (bounds.flaw != Flaw::DisregardsPolicy || last.is_none()) =>
            {
                moves.push(self.agenda.adopt(&settings.dependents));
            }
            Stance::Hold(..) if changed && bounds.flaw != Flaw::DisregardsPolicy => {
                moves.push(self.agenda.hold(moment(false)));
            }
            Stance::LetGo(..) | Stance::Hibernate(..) | Stance::Settle(..) | Stance::Bury
                if changed =>
            {
                moves.push(self.agenda.adopt(&[]));
            }
            Stance::Idle(_) => moves.push(self.agenda.adopt(match &presence {
                Presence::There(it) if it.eligibility == Eligibility::Probed => it.dependents(),
                _ => &[],
            })),
            _ => {}
        }
        match &stance {
            Stance::Settle(aim, _) => {
                self.saw = Some(*aim);
                moves.push(self.agenda.insist(*aim, String::new(), moment(false)));
            }
            Stance::Bury => {
                let wait = match bounds.flaw {
                    Flaw::BuriesAtOnce => Duration::ZERO,
                    _ => COMES_BACK,
                };
                let from = moment(false) + wait;
                moves.push(self.agenda.insist(Aim::Release, String::new(), from));
            }
            _ => {}
        }
        if let Some(settings) = stance.settings() {
            self.last = Some(settings.mode == Mode::DryRun);
        }
        self.stance = Held(stance);
        for next in moves {
            self.carry_out(next, bounds);
        }
    }

    /// Reads the leases, and acts on what they say.
    pub(crate) fn probe(&mut self, shoot: Shoot, now: Instant, bounds: &Bounds) {
        if matches!(self.stance.0, Stance::Hibernate(..)) {
            return self.ask_who_falls_asleep(shoot, now, bounds);
        }
        let leases = match shoot {
            Shoot::Silent => Some(Aim::Protect),
            Shoot::Healthy | Shoot::Triggered | Shoot::Gated => Some(Aim::Restore),
            Shoot::Unreadable if bounds.flaw == Flaw::TakesDoubtForOutage => Some(Aim::Protect),
            Shoot::Unreadable => None,
        };
        let trigger = match shoot {
            Shoot::Triggered => Trigger::Failing {
                why: String::new(),
                until: moment(false),
            },
            _ => Trigger::None,
        };
        let gate = (shoot == Shoot::Gated).then(String::new);
        let letting_go = matches!(self.stance.0, Stance::LetGo(..));
        let dry_run = self.stance.0.settings().map(|it| it.mode) == Some(Mode::DryRun);
        let course = Course::new(leases, trigger, gate);
        self.saw = match &course {
            Course::Protect | Course::Triggered { .. } if shoot != Shoot::Unreadable => {
                Some(Aim::Protect)
            }
            Course::Restore => Some(Aim::Restore),
            _ => None,
        };
        let aim = match course {
            Course::Protect | Course::Triggered { .. } => Aim::Protect,
            Course::Restore | Course::Wait(_) | Course::Held { .. } => Aim::Restore,
            // As `Probe::do_nothing`.
            Course::Nothing if dry_run => Aim::Look,
            Course::Nothing => return self.stop(bounds),
        };
        let owes = self.agenda.ledger.owes();
        // As `Probe::may`.
        if !dry_run && letting_go && aim == Aim::Protect {
            return self.stop(bounds);
        }
        let next = if dry_run || matches!(course, Course::Wait(_)) {
            // As `Probe::keep_looking`.
            if owes || self.agenda.protection() != Protection::None {
                self.agenda.hold(moment(false))
            } else if self.agenda.ledger.is_looked_at() {
                self.agenda.stop()
            } else {
                self.agenda.insist(Aim::Look, String::new(), moment(false))
            }
        } else {
            if bounds.flaw == Flaw::TrustsItsRecord && aim == Aim::Restore && !owes {
                return self.stop(bounds);
            }
            let restore = match bounds.flaw {
                Flaw::RestoresUnmarked => Restore::Any,
                _ => Restore::Marked,
            };
            let order = Order {
                aim,
                restore,
                provable: None,
                valid_until: moment(false),
            };
            let now = match bounds.flaw {
                Flaw::BelievesForEver => moment(false),
                _ => now,
            };
            self.agenda.act(order, String::new, now)
        };
        self.carry_out(next, bounds);
        self.take_stance(bounds);
    }

    /// As `Probe::answered` and `Probe::not_answered`. Who has not answered for some time has not
    /// answered for long enough.
    fn ask_who_falls_asleep(&mut self, shoot: Shoot, now: Instant, bounds: &Bounds) {
        let next = match shoot {
            Shoot::Unreadable if now == self.now() => {
                self.saw = None;
                self.agenda.stop()
            }
            Shoot::Unreadable => {
                self.saw = Some(Aim::Release);
                let now = moment(false);
                self.agenda.insist(Aim::Release, String::new(), now)
            }
            _ => {
                self.saw = Some(Aim::Restore);
                let order = Order {
                    aim: Aim::Restore,
                    restore: Restore::Marked,
                    provable: None,
                    valid_until: moment(false),
                };
                self.agenda.act(order, String::new, now)
            }
        };
        self.carry_out(next, bounds);
        self.take_stance(bounds);
    }

    fn stop(&mut self, bounds: &Bounds) {
        if bounds.flaw != Flaw::KeepsOn {
            let next = self.agenda.stop();
            self.carry_out(next, bounds);
        }
    }

    /// It is asked to end, and may finish a step of which a part is written.
    pub(crate) fn end(&mut self) {
        let _ends = self.agenda.stop();
        self.ending = true;
    }

    /// What is insisted on is due: as much time has passed.
    pub(crate) fn resume(&mut self, bounds: &Bounds) {
        let due = self.agenda.due();
        self.aged |= due > Some(moment(false) + LETS_GO);
        if self.stance.0 == Stance::Bury {
            self.buried |= due >= Some(moment(false) + COMES_BACK);
            self.saw = self.buried.then_some(Aim::Release);
        }
        let next = self
            .agenda
            .resume(due.unwrap_or(moment(false)).max(self.now()));
        self.carry_out(next, bounds);
    }

    pub(super) fn carry_out(&mut self, next: Move, bounds: &Bounds) {
        match (next, &mut self.flow) {
            (Move::Extend(_), Some(flow)) => flow.lapsed = false,
            (Move::Withdraw, Some(flow)) => flow.withdrawn = true,
            (Move::Start(order, _), _) => {
                let flow = Run::new(order, &self.agenda, bounds);
                self.flow = Some(flow);
                self.after_level(bounds);
            }
            (Move::Nothing | Move::Extend(_) | Move::Withdraw, _) => {}
        }
    }
}
