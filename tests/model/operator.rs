//! One instance of the operator: the decisions of production, driven one request at a time.

use std::{
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
    time::Duration,
};

use dependency_watchdog::{
    api::{ClusterHealthStatus, Mode, Protection, Restore},
    checks::Trigger,
    cluster::{Assignment, Brake, Dependent, Eligibility, Selected, Settings},
    health::Finding,
    prober::{
        agenda::{Agenda, Move, Order},
        attempt::{Attempt, Turn},
        course::Course,
        flow::{Ending, Onward, Settling, What},
        ledger::Ledger,
        plan::{Aim, Family, Observed, Step, Write, levels},
        scale::ScaleError,
        stance::{Known, Presence, Stance},
    },
};
use tokio::time::Instant;

use super::{
    action::{Policy, Shoot},
    bounds::Bounds,
    flaws::Flaw,
};

/// The present. Time is not counted: what takes time may happen at any moment.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);
const AGES: Duration = Duration::from_secs(24 * 3600);

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
    /// The policy as it knows it.
    pub(crate) seen: Option<Policy>,
    /// What the evidence asks for that it has now.
    pub(crate) saw: Option<Aim>,
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
    }
}

/// A flow.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Run {
    pub(crate) aim: Aim,
    restore: Restore,
    dependents: Arc<[Dependent]>,
    level: usize,
    pub(crate) ways: Vec<Way>,
    pub(crate) withdrawn: bool,
    /// The evidence is too old.
    pub(crate) lapsed: bool,
    /// Which dependents have been where they belong since it began, or were given up.
    pub(crate) reached: Vec<bool>,
    /// Which have to be really back before the next level.
    pub(crate) owed: Vec<bool>,
}

/// A dependent in a flow.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Way {
    pub(crate) index: usize,
    settling: Settling,
    attempt: Attempt,
    /// What the first of two reads has shown.
    half: Option<Observed>,
    ended: Option<Ending>,
}

/// What a dependent needs next.
pub(crate) enum Need {
    /// To be read, in one or two requests.
    Read,
    Write(Write),
    /// Nothing: its flow is to stop.
    Stop,
}

fn index_of(dependent: &Dependent) -> usize {
    let name = &dependent.reference.name;
    name[1..].parse().expect("a name ends with a number")
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
    pub(crate) fn start(saved: Option<&Saved>, policy: Policy, bounds: &Bounds) -> Self {
        let known = saved.map(Saved::status);
        let mut operator = Self {
            agenda: Agenda::recall(known.as_ref()),
            flow: None,
            stance: Held(Stance::Idle(Finding::Pending)),
            last: None,
            seen: None,
            saw: None,
            deposed: false,
            ending: false,
        };
        operator.see(policy, bounds);
        operator
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
            (Stance::LetGo(settings), Aim::Restore) => settings.mode == Mode::Enforce,
            _ => false,
        }
    }

    /// Learns of the policy.
    pub(crate) fn see(&mut self, policy: Policy, bounds: &Bounds) {
        self.seen = Some(policy);
        self.take_stance(bounds);
    }

    /// As the loop of a cluster does, after each event.
    fn take_stance(&mut self, bounds: &Bounds) {
        let settings = |mode| bounds.settings(mode);
        let policy = |mode, suspend| Selected {
            policy: "shoots".into(),
            brake: Brake {
                suspend,
                dry_run: mode == Mode::DryRun,
            },
            settings: Ok(settings(mode)),
            outranked: vec![],
        };
        let (selected, former) = match self.seen.expect("it was told of the policy") {
            Policy::Enforce => (Some(policy(Mode::Enforce, false)), None),
            Policy::DryRun => (Some(policy(Mode::DryRun, false)), None),
            Policy::Suspended => (Some(policy(Mode::Enforce, true)), None),
            Policy::Deleted => (None, Some(policy(Mode::Enforce, false))),
        };
        let assignment = Assignment {
            uid: "uid".into(),
            eligibility: Eligibility::Probed,
            selected,
            former,
        };
        let mode = |dry_run| if dry_run { Mode::DryRun } else { Mode::Enforce };
        let last = self.last.map(mode).map(settings);
        let known = Known {
            last: last.as_ref(),
            engaged: self.agenda.is_engaged(),
            looked_at: self.agenda.ledger.is_looked_at(),
        };
        let stance = Stance::new(&Presence::There(Box::new(assignment)), known);
        if stance == self.stance.0 {
            return;
        }
        let changed = !stance.is_like(&self.stance.0);
        let mut moves = Vec::new();
        if changed && bounds.flaw != Flaw::DisregardsPolicy {
            moves.push(self.agenda.stop());
        }
        match &stance {
            Stance::Probe(settings) => {
                if (changed || last.as_ref() != Some(settings))
                    && (bounds.flaw != Flaw::DisregardsPolicy || last.is_none())
                {
                    moves.push(self.agenda.adopt(&settings.dependents));
                }
                self.last = Some(settings.mode == Mode::DryRun);
            }
            Stance::LetGo(settings) => {
                if changed {
                    moves.push(self.agenda.adopt(&[]));
                }
                self.last = Some(settings.mode == Mode::DryRun);
            }
            Stance::Hold(..) if changed && bounds.flaw != Flaw::DisregardsPolicy => {
                moves.push(self.agenda.hold(moment(false)));
            }
            Stance::Settle(aim, _) => {
                if changed {
                    moves.push(self.agenda.adopt(&[]));
                }
                moves.push(self.agenda.insist(*aim, String::new(), moment(false)));
            }
            Stance::Idle(_) => moves.push(self.agenda.adopt(&settings(Mode::Enforce).dependents)),
            _ => {}
        }
        if changed {
            self.saw = None;
        }
        self.stance = Held(stance);
        for next in moves {
            self.carry_out(next, bounds);
        }
    }

    /// Reads the leases, and acts on what they say.
    pub(crate) fn probe(&mut self, shoot: Shoot, late: bool, bounds: &Bounds) {
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
        let letting_go = matches!(self.stance.0, Stance::LetGo(_));
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
            Course::Restore | Course::Wait(_) => Aim::Restore,
            Course::Nothing => return self.stop(bounds),
        };
        // As `Probe::may`.
        if dry_run || letting_go && aim == Aim::Protect {
            return self.stop(bounds);
        }
        let owes = self.agenda.ledger.owes();
        let next = if let Course::Wait(_) = course {
            // As `Probe::wait`.
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
            let late = late && bounds.flaw != Flaw::BelievesForEver;
            self.agenda.act(order, String::new, moment(late))
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

    /// What is insisted on is due.
    pub(crate) fn resume(&mut self, bounds: &Bounds) {
        let next = self.agenda.resume(moment(false));
        self.carry_out(next, bounds);
    }

    fn carry_out(&mut self, next: Move, bounds: &Bounds) {
        match (next, &mut self.flow) {
            (Move::Extend(_), Some(flow)) => flow.lapsed = false,
            (Move::Withdraw, Some(flow)) => flow.withdrawn = true,
            (Move::Start(order, _), _) => {
                let memory = self.agenda.ledger.memory();
                let count = bounds.parts.len();
                let mut flow = Run {
                    aim: order.aim,
                    restore: order.restore,
                    dependents: self.agenda.ledger.dependents(order.aim),
                    level: 0,
                    ways: vec![],
                    withdrawn: false,
                    lapsed: false,
                    reached: vec![false; count],
                    owed: vec![false; count],
                };
                for dependent in flow.dependents.iter() {
                    flow.owed[index_of(dependent)] = memory[&dependent.reference].owed;
                }
                flow.begin_level(&self.agenda, bounds);
                self.flow = Some(flow);
                self.after_level(bounds);
            }
            (Move::Nothing | Move::Extend(_) | Move::Withdraw, _) => {}
        }
    }

    /// What a dependent needs next, if it is being worked on.
    pub(crate) fn need(&self, index: usize) -> Option<Need> {
        let flow = self.flow.as_ref()?;
        let way = flow.ways.iter().find(|way| way.index == index)?;
        if way.ended.is_some() {
            return None;
        }
        Some(match way.attempt.turn() {
            // As `Warrant::turn` tells.
            Turn::Write(write) => {
                let ends = self.ending && !way.attempt.is_half_written();
                match flow.lapsed || flow.withdrawn || ends {
                    true => Need::Stop,
                    false => Need::Write(write),
                }
            }
            _ if flow.lapsed || flow.withdrawn || self.ending => Need::Stop,
            _ => Need::Read,
        })
    }

    fn way(&mut self, index: usize) -> &mut Way {
        let flow = self.flow.as_mut().expect("a flow is under way");
        let way = flow.ways.iter_mut().find(|way| way.index == index);
        way.expect("it is being worked on")
    }

    /// The flow is to stop: this dependent is not worked on any more.
    pub(crate) fn stop_way(&mut self, index: usize, bounds: &Bounds) {
        let way = self.way(index);
        way.ended = Some(Ending::Stopped);
        if let Some(step) = way.attempt.begun() {
            self.note(index, &What::Interrupted(step));
        }
        self.after_level(bounds);
    }

    /// The answer to a read has come.
    pub(crate) fn read(
        &mut self,
        index: usize,
        seen: Option<Observed>,
        late: bool,
        bounds: &Bounds,
    ) {
        let seen = seen.map(|seen| bounds.flaw.blur(seen));
        let way = self.way(index);
        let seen = match (seen, way.half.take()) {
            (None, _) => None,
            (Some(seen), None) if seen.family == Family::Scalable => {
                way.half = Some(seen);
                return;
            }
            (Some(seen), None) => Some(seen),
            // The first of two has told the annotations, the second tells the replicas. If there was a
            // change in between, no write comes of them.
            (Some(seen), Some(half)) => Some(Observed {
                resource_version: match half.resource_version == seen.resource_version {
                    true => half.resource_version.clone(),
                    false => "stale".to_owned(),
                },
                replicas: seen.replicas,
                any_left: seen.any_left,
                running: seen.running,
                ..half
            }),
        };
        if way.attempt.is_in_doubt() {
            return match way.attempt.looked_again(seen.as_ref()) {
                true => self.went_on(index, late, bounds),
                false => self.refused(index, bounds),
            };
        }
        match way.settling.decide(seen.as_ref()) {
            Ok(step) if way.settling.only_looks() => self.onward(index, step, seen, late, bounds),
            Ok(step) => {
                way.attempt.decide(step, seen);
                self.turned(index, late, bounds);
            }
            Err(refusal) => self.fail(index, refusal.into(), bounds),
        }
    }

    /// The write was carried out.
    pub(crate) fn accepted(&mut self, index: usize, version: &str, bounds: &Bounds) {
        self.way(index).attempt.accepted(Some(version));
        self.went_on(index, false, bounds);
    }

    fn went_on(&mut self, index: usize, late: bool, bounds: &Bounds) {
        if let Some(flow) = &mut self.flow
            && flow.aim == Aim::Restore
        {
            flow.owed[index] = true;
        }
        self.turned(index, late, bounds);
    }

    /// What the write was decided from is not so any more.
    pub(crate) fn overtaken(&mut self, index: usize, bounds: &Bounds) {
        if !self.way(index).attempt.overtaken() {
            self.fail(index, ScaleError::Conflicts, bounds);
        }
    }

    /// The write failed, and may have been carried out all the same: it is read what has become of it.
    pub(crate) fn unanswered(&mut self, index: usize) {
        self.way(index).attempt.unanswered();
    }

    /// A dependent is where the flow wants it.
    pub(crate) fn reached(&mut self, index: usize) {
        if let Some(flow) = &mut self.flow {
            flow.reached[index] = true;
        }
    }

    /// No answer comes, whatever the request was.
    pub(crate) fn unanswered_or_unread(&mut self, index: usize, bounds: &Bounds) {
        match self.need(index) {
            Some(Need::Write(_)) => self.unanswered(index),
            _ => self.refused(index, bounds),
        }
    }

    /// A request failed, and nothing was written by it.
    pub(crate) fn refused(&mut self, index: usize, bounds: &Bounds) {
        let error = ScaleError::Request {
            verb: "patch",
            message: String::new(),
        };
        self.fail(index, error, bounds);
    }

    fn fail(&mut self, index: usize, error: ScaleError, bounds: &Bounds) {
        let way = self.way(index);
        let begun = way.attempt.begun();
        way.ended = Some(way.settling.failed(&error, begun));
        self.note(index, &What::Failed(error, begun));
        self.after_level(bounds);
    }

    fn turned(&mut self, index: usize, late: bool, bounds: &Bounds) {
        if let Turn::Done(step, found) = self.way(index).attempt.turn() {
            self.onward(index, step, found, late, bounds);
        }
    }

    fn onward(
        &mut self,
        index: usize,
        step: Step,
        found: Option<Observed>,
        late: bool,
        bounds: &Bounds,
    ) {
        let way = self.way(index);
        way.attempt = Attempt::new(false);
        let (whats, onward) = way.settling.carried_out(step, found, moment(late));
        if let Onward::Ended(ending) = onward {
            way.ended = Some(ending);
        }
        for what in whats {
            if let (What::Late(_), Some(flow)) = (&what, &mut self.flow) {
                flow.reached[index] = true;
            }
            self.note(index, &what);
        }
        self.after_level(bounds);
    }

    fn note(&mut self, index: usize, what: &What) {
        let flow = self.flow.as_ref().expect("a flow is under way");
        let of_it = |dependent: &&Dependent| index_of(dependent) == index;
        let dependent = flow.dependents.iter().find(of_it);
        let dependent = dependent.expect("it is of the flow").clone();
        self.agenda.ledger.note(&dependent, what, moment(false));
    }

    /// As `Flow::run`.
    fn after_level(&mut self, bounds: &Bounds) {
        while let Some(flow) = &mut self.flow {
            let endings: Option<Vec<Ending>> = flow.ways.iter().map(|way| way.ended).collect();
            let Some(endings) = endings else {
                return;
            };
            let stopped = flow.lapsed || flow.withdrawn || self.ending;
            let ending = match Ending::of_level(&endings) {
                _ if stopped => Ending::Stopped,
                Some(ending) => ending,
                None if flow.begin_level(&self.agenda, bounds) => continue,
                None => Ending::Complete,
            };
            self.flow = None;
            self.agenda
                .ended(ending, Duration::from_secs(10), moment(false));
            let next = self.agenda.go_on();
            self.carry_out(next, bounds);
            self.take_stance(bounds);
        }
    }
}

impl Run {
    /// Begins the next level, if there is one.
    fn begin_level(&mut self, agenda: &Agenda, bounds: &Bounds) -> bool {
        let levels = match bounds.flaw {
            Flaw::NoOrder => vec![(0, self.dependents.iter().collect())],
            _ => levels(&self.dependents, self.aim),
        };
        let Some((_, members)) = levels.get(self.level) else {
            return false;
        };
        // What was known when the flow began, as `Flow` has it: nothing is noted of those to come.
        let memory = agenda.ledger.memory();
        let waited = agenda.ledger.waited(self.aim);
        let ways = members.iter().map(|dependent| {
            let memory = memory.get(&dependent.reference).copied();
            let memory = memory.unwrap_or_default();
            let waited = waited.get(&dependent.reference).copied();
            let dependent = (*dependent).clone();
            Way {
                index: index_of(&dependent),
                settling: Settling::new(dependent, self.aim, self.restore, memory, waited),
                attempt: Attempt::new(false),
                half: None,
                ended: None,
            }
        });
        self.ways = ways.collect();
        self.level += 1;
        true
    }
}
