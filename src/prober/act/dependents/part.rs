//! One dependent: what was last seen of it, and its next request.

mod answers;
mod digest;
mod pauses;

use std::{mem, time::Duration};

use tokio::time::Instant;

use super::{Event, Order, Problem, Request, What};
use crate::{
    cluster::{Dependent, Scale},
    prober::{
        scale_error::ScaleError,
        step::{self, Aim, Memory, Next, Observed, Step},
    },
};

/// One dependent.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) dependent: Dependent,
    /// A policy asks for it to be handled.
    pub(super) asked: bool,
    pub(super) memory: Memory,
    pub(super) sure: Sure,
    pub(super) doing: Doing,
    /// It is done, or holds up no level any more.
    pub(super) passed: bool,
    pub(super) problem: Option<Problem>,
    /// Problem when it was last seen, if it is as it is wanted.
    pub(super) left: Option<Problem>,
    /// Start of the `initialDelay` of its scaling, with this aim.
    pub(super) begun: Option<(Aim, Instant)>,
    /// How often it was found at zero under the mark that it kept after a restore.
    pub(super) again: u32,
    /// Last read.
    found: Option<Observed>,
    /// When it is read next; none is now.
    look_at: Option<Instant>,
    pause: Duration,
    /// Since when it is waited for to be there, with this aim.
    waits: Option<(Aim, Instant)>,
    conflicts: u32,
    /// It rested before its level was open.
    is_held: bool,
    /// A write without an answer, and its aim.
    lost: Option<(Step, Aim, ScaleError)>,
    /// Reason of the trouble that was told last.
    told: Option<&'static str>,
}

/// Tells whether a mark is known: an earlier process may have ended between a write and its report, and a write that
/// was given up may take effect later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sure {
    /// It was never read.
    Unread,
    /// A given-up write may still take effect, and the seed has not answered since.
    No,
    /// The same, until then.
    From(Instant),
    Yes,
}

/// State of a dependent's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
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
    Writing {
        step: Step,
        aim: Aim,
    },
}

/// Direction that all dependents of a cluster go by.
pub(super) struct Way {
    pub(super) order: Order,
    /// The lowest level that is not done.
    pub(super) open: Option<u32>,
    /// The highest level.
    pub(super) last: Option<u32>,
    /// Since when a restore that waits for nodes has been allowed.
    pub(super) awaits: Option<Instant>,
    pub(super) is_complete: bool,
    /// Something is owed to one of them.
    pub(super) owes: bool,
    pub(super) expects_marks: bool,
}

impl Part {
    pub(super) fn new(dependent: Dependent) -> Self {
        Self {
            dependent,
            asked: false,
            memory: Memory::default(),
            sure: Sure::Unread,
            doing: Doing::Idle,
            passed: false,
            problem: None,
            left: None,
            begun: None,
            again: 0,
            found: None,
            look_at: None,
            pause: pauses::FIRST_LOOK,
            waits: None,
            conflicts: 0,
            is_held: false,
            lost: None,
            told: None,
        }
    }

    /// Takes up how a policy asks for it, if one does, and reads it anew.
    pub(super) fn adopt(&mut self, asked: Option<&Dependent>) {
        self.asked = asked.is_some();
        if let Some(asked) = asked {
            self.dependent = asked.clone();
        } else {
            // No policy requires it any more.
            self.dependent.optional = true;
            if !self.memory.owed {
                (self.problem, self.left) = (None, None);
            }
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
        self.pause = pauses::FIRST_LOOK;
    }

    /// Takes up another aim. Where nothing is owed, what was seen needs no look to be up. Otherwise one may have been
    /// taken since, by another operator.
    pub(super) fn turn_to(&mut self, aim: Aim, owes: bool) {
        let is_seen = matches!(self.sure, Sure::Yes | Sure::From(_)) && !self.is_writing();
        match aim {
            Aim::Leave => {}
            Aim::Up if !owes && is_seen && !self.is_marked() && self.problem.is_none() => {
                self.passed = true
            }
            Aim::Up | Aim::Down | Aim::Release => self.begin(),
        }
    }

    /// Tells whether it carries a mark, as far as is known.
    pub(super) fn is_marked(&self) -> bool {
        self.memory.owed || self.memory.unmark_at.is_some()
    }

    pub(super) fn is_writing(&self) -> bool {
        matches!(self.doing, Doing::Writing { .. })
    }

    /// Tells whether it could not be scaled, and only a person can mend that.
    pub(super) fn is_refused(&self) -> bool {
        let problem = self.problem.as_ref();
        problem.is_some_and(|problem| !problem.is_about_the_attempt())
    }

    /// Tells whether it is brought where this aim wants it: none is scaled down that no policy asks for.
    pub(super) fn is_handled(&self, aim: Aim) -> bool {
        aim != Aim::Leave && (self.asked || aim != Aim::Down)
    }

    /// The level on which it is handled.
    pub(super) fn level(&self, aim: Aim) -> u32 {
        step::level(&self.dependent, aim)
    }

    /// Tells whether it can be forgotten: no policy asks for it, it is owed nothing, and there is nothing to report.
    pub(super) fn is_forgettable(&self) -> bool {
        let is_quiet = self.problem.as_ref().is_none_or(Problem::is_about_the_kind);
        let is_idle = !self.is_writing() && self.sure == Sure::Yes;
        !self.asked && is_idle && !self.is_marked() && is_quiet
    }

    /// Aim for it: none, before its level is open.
    fn aim(&self, way: &Way) -> Aim {
        let aim = way.order.aim;
        match self.is_handled(aim) && !self.is_early(way) {
            true => aim,
            false => Aim::Leave,
        }
    }

    /// Tells whether its level is not open yet.
    fn is_early(&self, way: &Way) -> bool {
        let aim = way.order.aim;
        self.is_handled(aim) && way.open.is_some_and(|open| self.level(aim) > open)
    }

    /// Tells whether it surely carries no mark.
    fn is_known_to_rest(&self) -> bool {
        self.sure == Sure::Yes && !self.is_marked()
    }

    /// Tells whether its mark falls.
    fn is_unmarked(&self, aim: Aim, way: &Way, now: Instant) -> bool {
        let is_due = self.memory.unmark_at.is_some_and(|at| at <= now);
        match aim {
            Aim::Up if !way.order.keeps_marks => true,
            _ => is_due && way.order.may_unmark,
        }
    }

    /// When it wants to go on.
    pub(super) fn due(&self, way: &Way) -> Option<Instant> {
        let waits = self.doing == Doing::Idle && !(self.is_early(way) && self.is_known_to_rest());
        self.look_at.filter(|_| waits)
    }

    /// The next request, if one is due.
    pub(super) fn go_on(
        &mut self,
        way: &Way,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> Option<Request> {
        if let Doing::Writing { .. } = self.doing {
            return None;
        }
        let is_reading = matches!(self.doing, Doing::Reading { .. });
        if !is_reading && self.is_early(way) {
            self.is_held = true;
            if self.is_known_to_rest() {
                return self.idle();
            }
            if self.is_marked() {
                // Others may see to it meanwhile.
                self.look_at.get_or_insert(now + pauses::SELDOM);
            }
        } else if mem::take(&mut self.is_held) && self.doing == Doing::Idle {
            self.look_at = None;
        }
        let may_look = match self.doing {
            // Others that are not urgent may wait for minutes.
            Doing::Reading { urgent, .. } => !urgent && self.is_urgent(way),
            Doing::Idle => self.look_at.is_none_or(|at| at <= now),
            _ => false,
        };
        if may_look {
            let urgent = self.is_urgent(way);
            self.doing = Doing::Reading { since: now, urgent };
            return Some(Request::Read { urgent });
        }
        if let Doing::Idle | Doing::Reading { .. } = self.doing {
            return None;
        }
        let aim = self.aim(way);
        let unmarks = self.is_unmarked(aim, way, now);
        let (optional, found) = (self.dependent.optional, self.found.as_ref());
        let next = step::next(aim, optional, found, self.memory, unmarks);
        match next {
            Ok(Next::Do(step)) => return self.go_ahead(step, aim, way, now),
            Ok(Next::Wait) => self.wait(aim, way, now, events),
            Ok(Next::Reached) => self.rest(aim, way, now),
            Err(error) => self.fail(&error, way, now, events),
        }
        self.idle()
    }

    /// Gives up its place among those that wait for their turn.
    fn idle(&mut self) -> Option<Request> {
        let before = mem::replace(&mut self.doing, Doing::Idle);
        (before == Doing::Queued).then_some(Request::Drop)
    }

    /// Tells whether something is owed or to be taken, as far as is known. What is down, or was refused, is only read
    /// again.
    fn is_urgent(&self, way: &Way) -> bool {
        let is_taken = || !way.is_complete && !self.is_refused();
        match self.aim(way) {
            Aim::Down => is_taken(),
            _ => self.memory.owed || way.expects_marks,
        }
    }

    /// Writes the step, once its delay is over and its turn has come.
    fn go_ahead(&mut self, step: Step, aim: Aim, way: &Way, now: Instant) -> Option<Request> {
        self.passed = false;
        if let Some(at) = self.not_before(step, way, now).filter(|at| now < *at) {
            self.look_at = Some(at);
            return self.idle();
        }
        match (self.doing, &self.found) {
            (Doing::Seen, _) => {
                self.doing = Doing::Queued;
                Some(Request::Queue)
            }
            (Doing::Turn, Some(found)) => {
                self.doing = Doing::Writing { step, aim };
                Some(Request::Write(step.write(found)))
            }
            _ => None,
        }
    }

    /// When the step may be written: `initialDelay` begins when it is first due, and a restore may wait for nodes.
    fn not_before(&mut self, step: Step, way: &Way, now: Instant) -> Option<Instant> {
        let (aim, nodes_by) = match step {
            Step::Mark { .. } | Step::ScaleDown { .. } => (Aim::Down, None),
            Step::ScaleUp { .. } => (Aim::Up, self.nodes_by(way)),
            Step::Record { .. } | Step::Unmark { .. } => return None,
        };
        let begun = self.begun.filter(|(of, _)| *of == aim);
        let (_, begun) = *self.begun.insert(begun.unwrap_or((aim, now)));
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

    /// Says what is amiss with it, if that is another thing than was said before.
    pub(super) fn tell_trouble(&mut self, aim: Aim, events: &mut Vec<Event>) {
        let reason = self.problem.as_ref().map(|problem| problem.reason);
        if let Some(problem) = self.problem.clone().filter(|_| reason != self.told) {
            events.push(self.event(aim, What::Troubled(problem)));
        }
        self.told = reason;
    }

    fn event(&self, aim: Aim, what: What) -> Event {
        Event {
            dependent: self.dependent.reference.clone(),
            uid: self.found.as_ref().and_then(|found| found.uid.clone()),
            aim,
            what,
            again: self.again,
            why: String::new(),
        }
    }
}
