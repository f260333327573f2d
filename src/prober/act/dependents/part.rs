//! One dependent: what was last seen of it, and its next request.

mod answers;

use std::{
    hash::{Hash, Hasher},
    mem,
    time::Duration,
};

use tokio::time::Instant;

use super::{Answer, Event, Order, Problem, Request, What};
use crate::{
    cluster::{Dependent, Scale},
    prober::{
        scale_error::ScaleError,
        step::{self, Aim, Memory, Next, Observed, Step},
    },
};

/// One dependent.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) dependent: Dependent,
    /// A policy asks for it to be handled.
    pub(super) asked: bool,
    pub(super) memory: Memory,
    pub(super) sure: Sure,
    doing: Doing,
    /// It is done, or holds up no level any more.
    pub(super) passed: bool,
    pub(super) problem: Option<Problem>,
    /// Problem when it was last seen, if it is as it is wanted.
    left: Option<Problem>,
    /// Start of the `initialDelay` of its scaling.
    pub(super) begun: Option<Instant>,
    /// How often it was found at zero under the mark that it kept after a restore.
    pub(super) again: u32,
    /// Last read.
    found: Option<Observed>,
    /// When it is read next; none is now.
    look_at: Option<Instant>,
    /// Last pause before the effect of a write was read.
    pause: Duration,
    /// Since when it is waited for to be there, with this aim.
    waits: Option<(Aim, Instant)>,
    conflicts: u32,
    /// A write without an answer.
    lost: Option<(Step, ScaleError)>,
}

/// Tells whether a mark is known: an earlier process may have ended between a write and its report, and a write that
/// was given up may take effect later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Sure {
    /// It was never read.
    #[default]
    Unread,
    /// A given-up write may still take effect, and the seed has not answered since.
    No,
    /// The same, until then.
    From(Instant),
    Yes,
}

/// State of a dependent's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Idle,
    Reading {
        since: Instant,
        urgent: bool,
    },
    /// For nothing: it was just read.
    Seen,
    /// For its turn to be written.
    Queued,
    /// For nothing: it is its turn.
    Turn,
    Writing(Step),
}

/// Direction that all dependents of a cluster go by, and what is met on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    pub(super) order: Order,
    /// The lowest level that is not done.
    pub(super) open: Option<u32>,
    /// The highest level.
    pub(super) last: Option<u32>,
    /// Since when a restore that waits for nodes has been allowed.
    pub(super) awaits: Option<Instant>,
    /// Each was seen at zero in this protection.
    pub(super) is_complete: bool,
    /// Something is owed to one of them.
    pub(super) owes: bool,
    /// A mark was there when the process began. It counts until all dependents have been read.
    pub(super) expects_marks: bool,
    pub(super) events: Vec<Event>,
}

impl Part {
    /// Takes up how a policy asks for it, if one does, and reads it anew.
    pub(super) fn adopt(&mut self, asked: Option<&Dependent>) {
        self.asked = asked.is_some();
        match asked {
            Some(asked) => self.dependent = asked.clone(),
            // No policy requires it any more.
            None => self.dependent.optional = true,
        }
        self.begin();
    }

    /// Reads it anew before anything else.
    pub(super) fn begin(&mut self) {
        if let Doing::Seen | Doing::Queued | Doing::Turn = self.doing {
            self.doing = Doing::Idle;
        }
        self.passed = false;
        self.look_at = None;
        self.pause = Duration::ZERO;
    }

    /// Takes up another aim. Where nothing is owed, what was seen needs no look to be up. Otherwise one may have been
    /// taken since, by another operator.
    pub(super) fn turn_to(&mut self, aim: Aim, owes: bool) {
        let is_seen = matches!(self.sure, Sure::Yes | Sure::From(_)) && !self.is_writing();
        match aim {
            Aim::Leave => {}
            Aim::Up if !owes && is_seen && !self.is_marked() && self.problem.is_none() => {
                self.passed = true;
            }
            Aim::Up | Aim::Down | Aim::Release => self.begin(),
        }
    }

    /// Tells whether it carries a mark, as far as is known.
    pub(super) fn is_marked(&self) -> bool {
        self.memory.owed || self.memory.unmark_at.is_some()
    }

    /// Tells whether it is owed its replicas, and none were given back yet.
    pub(super) fn is_at_zero(&self) -> bool {
        self.memory.owed && self.memory.unmark_at.is_none()
    }

    /// Tells whether a policy asks for it, and it is not scaled down.
    pub(super) fn is_up(&self) -> bool {
        let found = self.found.as_ref().filter(|_| self.asked);
        found.is_some_and(|found| found.replicas > 0 && !found.ignored)
    }

    pub(super) fn is_writing(&self) -> bool {
        matches!(self.doing, Doing::Writing(_))
    }

    /// Tells whether it is brought where this aim wants it: none is scaled down that no policy asks for.
    pub(super) fn is_handled(&self, aim: Aim) -> bool {
        aim != Aim::Leave && (self.asked || aim != Aim::Down)
    }

    /// The level on which it is handled.
    pub(super) fn level(&self, aim: Aim) -> u32 {
        step::level(&self.dependent, aim)
    }

    /// Tells whether it can be forgotten: no policy asks for it, and it surely carries no mark.
    pub(super) fn is_forgettable(&self) -> bool {
        let is_at_rest = self.sure == Sure::Yes && !self.is_marked();
        !self.asked && !self.is_writing() && is_at_rest
    }

    /// Tells whether another read would say no more by now.
    fn is_known(&self, now: Instant) -> bool {
        match self.sure {
            Sure::Yes => true,
            Sure::From(at) => now < at,
            Sure::Unread | Sure::No => false,
        }
    }

    /// Aim for it.
    fn aim(&self, way: &Way) -> Aim {
        let aim = way.order.aim;
        match self.is_handled(aim) {
            true => aim,
            false => Aim::Leave,
        }
    }

    /// Tells whether its level is not open yet.
    fn is_early(&self, way: &Way) -> bool {
        let level = self.level(self.aim(way));
        way.open.is_some_and(|open| level > open)
    }

    /// When it wants to go on; before its level is open, once a read counts.
    pub(super) fn due(&self) -> Option<Instant> {
        let sure_at = match self.sure {
            Sure::From(at) => Some(at),
            _ => None,
        };
        let due = self.look_at.or(sure_at);
        due.filter(|_| self.doing == Doing::Idle)
    }

    /// The next request, if one is due.
    pub(super) fn go_on(&mut self, way: &mut Way, now: Instant) -> Option<Request> {
        match self.doing {
            Doing::Queued | Doing::Writing(_) => None,
            // Others that are not urgent may wait for minutes.
            Doing::Reading { urgent, .. } => {
                (!urgent && self.is_urgent(way)).then(|| self.read(way, now))
            }
            // It is read as soon as its level is open.
            _ if self.is_early(way) && (self.doing != Doing::Idle || self.is_known(now)) => {
                (self.doing, self.look_at) = (Doing::Idle, None);
                None
            }
            Doing::Idle => {
                let is_due = self.look_at.is_none_or(|at| at <= now);
                is_due.then(|| self.read(way, now))
            }
            Doing::Seen | Doing::Turn => {
                let request = self.next(way, now);
                if request.is_none() {
                    self.doing = Doing::Idle;
                }
                request
            }
        }
    }

    fn next(&mut self, way: &mut Way, now: Instant) -> Option<Request> {
        let aim = self.aim(way);
        let unmarks = self.is_unmarked(aim, way, now);
        let (optional, found) = (self.dependent.optional, self.found.as_ref());
        match step::next(aim, optional, found, self.memory, unmarks) {
            Ok(Next::Do(step)) => return self.go_ahead(step, way, now),
            Ok(Next::Wait) => self.wait(aim, way, now),
            Ok(Next::Reached) => self.rest(aim, way, now),
            Err(error) => self.fail(&error, way, now),
        }
        None
    }

    fn read(&mut self, way: &Way, now: Instant) -> Request {
        let (since, urgent) = (now, self.is_urgent(way));
        self.doing = Doing::Reading { since, urgent };
        Request::Read { urgent }
    }

    /// Tells whether something is owed or to be taken, as far as is known. What is down is only read again.
    fn is_urgent(&self, way: &Way) -> bool {
        match self.aim(way) {
            Aim::Down => !way.is_complete,
            // A restore goes on once each of the level is known to be up.
            Aim::Up if way.owes && !self.passed => true,
            _ => self.memory.owed || way.expects_marks && self.sure != Sure::Yes,
        }
    }

    /// Tells whether its mark falls.
    fn is_unmarked(&self, aim: Aim, way: &Way, now: Instant) -> bool {
        let is_due = self.memory.unmark_at.is_some_and(|at| at <= now);
        aim == Aim::Up && !way.order.keeps_marks || is_due && way.order.may_unmark
    }

    /// Writes the step, once its delay is over and its turn has come.
    fn go_ahead(&mut self, step: Step, way: &Way, now: Instant) -> Option<Request> {
        self.passed = false;
        if let Some(at) = self.not_before(step, way, now).filter(|at| now < *at) {
            self.look_at = Some(at);
            return None;
        }
        if self.doing == Doing::Seen {
            self.doing = Doing::Queued;
            return Some(Request::Queue);
        }
        self.doing = Doing::Writing(step);
        let found = self.found.as_ref();
        found.map(|found| Request::Write(step.write(found)))
    }

    /// When the step may be written: `initialDelay` begins when it is first due, and a restore may wait for nodes.
    fn not_before(&mut self, step: Step, way: &Way, now: Instant) -> Option<Instant> {
        let (aim, nodes_by) = match step {
            Step::Mark { .. } | Step::ScaleDown { .. } => (Aim::Down, None),
            Step::ScaleUp { .. } => (Aim::Up, self.nodes_by(way)),
            Step::Record { .. } | Step::Unmark { .. } => return None,
        };
        let begun = *self.begun.get_or_insert(now);
        nodes_by.max(Some(begun + self.scale(aim).initial_delay))
    }

    /// Until when it waits for nodes, if it does.
    fn nodes_by(&self, way: &Way) -> Option<Instant> {
        let wait = self.dependent.up.await_nodes;
        let since = way.awaits.filter(|_| way.order.awaits_nodes)?;
        (!wait.is_zero()).then(|| since + wait)
    }

    fn scale(&self, aim: Aim) -> Scale {
        match aim {
            Aim::Down => self.dependent.down,
            Aim::Up | Aim::Release | Aim::Leave => self.dependent.up,
        }
    }

    /// Notes what is amiss with it, and says so if that is another thing than before.
    fn set_problem(&mut self, problem: Option<Problem>, way: &mut Way) {
        let before = mem::replace(&mut self.problem, problem);
        let reason = |problem: &Problem| problem.reason;
        let is_news = self.problem.as_ref().map(reason) != before.as_ref().map(reason);
        if let Some(problem) = self.problem.clone().filter(|_| is_news) {
            self.tell(What::Troubled(problem), way);
        }
    }

    fn tell(&self, what: What, way: &mut Way) {
        way.events.push(Event {
            dependent: self.dependent.reference.clone(),
            uid: self.found.as_ref().and_then(|found| found.uid.clone()),
            aim: self.aim(way),
            what,
            again: self.again,
            why: String::new(),
        });
    }

    /// Takes in what came of its request.
    pub(super) fn answered(&mut self, answer: Answer, way: &mut Way, now: Instant) {
        match (answer, self.doing) {
            (Answer::Read(Ok(found)), Doing::Reading { since, .. }) => {
                self.seen(found, since, way, now)
            }
            (Answer::Read(Err(error)), Doing::Reading { .. }) => {
                self.doing = Doing::Idle;
                let lost = self.lost.as_ref().map(|(_, lost)| lost.clone());
                self.fail(&lost.unwrap_or(error), way, now);
            }
            (Answer::Turn, Doing::Queued) => self.doing = Doing::Turn,
            (Answer::Written(written), Doing::Writing(step)) => {
                self.doing = Doing::Idle;
                self.look_at = None;
                self.written(step, written, way, now);
            }
            _ => {}
        }
    }

    /// Hashes what decides, by its distance from `now`.
    pub(super) fn digest(&self, aim: Aim, now: Instant, state: &mut impl Hasher) {
        let found = self.found.as_ref();
        let found = found.filter(|_| self.doing == Doing::Queued || self.is_writing());
        let Memory {
            owed,
            replicas,
            unmark_at,
        } = self.memory;
        let is_due = |at: Option<Instant>| at.map(|at| at <= now);
        (self.asked, self.passed, self.begun.is_some()).hash(state);
        (owed, replicas, is_due(unmark_at), self.again > 0).hash(state);
        mem::discriminant(&self.sure).hash(state);
        if let Sure::From(at) = self.sure {
            is_due(Some(at)).hash(state);
        }
        mem::discriminant(&self.doing).hash(state);
        if let Doing::Writing(step) = self.doing {
            step.hash(state);
        }
        let problem = self.problem.as_ref().map(|problem| problem.reason);
        let lost = self.lost.as_ref().map(|(step, _)| step);
        let waits = self.waits.is_some_and(|(of, _)| of == aim);
        (problem, lost, waits, self.conflicts, found).hash(state);
    }
}
