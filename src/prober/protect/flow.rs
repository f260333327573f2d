//! One run over a cluster's dependents: scales them, level by level, until it is done, stopped or stuck.
//!
//! Like the [machine](super::machine) of the cluster it has no client, no task and no clock: answers to
//! its requests go in, requests come out.

mod attempt;
mod dependent;
mod steps;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

pub use self::attempt::Begun;
use self::dependent::DependentFlow;
use crate::{
    cluster::Dependent,
    prober::{
        plan::{self, Aim, Memory, Observed, Purpose, Settled, Step, Write},
        scale_error::ScaleError,
    },
};

/// One run over the dependents, before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// What is wanted of them.
    pub purpose: Purpose,
    /// The dependents.
    pub(crate) tasks: Vec<Task>,
    /// Expiry of the evidence: nothing begins after it without newer evidence.
    pub valid_until: Instant,
    /// Longest wait for a level that is not the last; `None` if only each dependent's own timeout limits
    /// it.
    pub patience: Option<Duration>,
    /// Whether the flow has urgent work, as far as is known; other flows yield to it, since 1,000 healthy
    /// clusters may be read at the same time.
    pub urgent: bool,
    /// Why, for people.
    pub why: String,
    /// All nodes that count are ready.
    pub nodes_back: bool,
}

/// A dependent, and what is known of it when a flow begins.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Task {
    /// The dependent.
    pub dependent: Dependent,
    /// What it is owed.
    pub memory: Memory,
    /// Since when earlier flows with this aim have waited for it to go down or come up.
    pub waited: Option<Instant>,
    /// When an earlier flow began the `initialDelay` of its restore, if one did.
    pub delayed: Option<Instant>,
}

/// Something that a flow did or met.
#[derive(Clone, Debug)]
pub struct FlowEvent {
    /// When.
    pub at: Instant,
    /// The dependent that it is about.
    pub dependent: Dependent,
    /// Its UID, if it was read.
    pub uid: Option<Arc<str>>,
    /// What it was.
    pub what: What,
}

/// What a flow did to a dependent, or met there.
#[derive(Clone, Debug)]
pub enum What {
    /// This step was carried out on this state.
    Did(Step, Option<Observed>),
    /// There is nothing to do any more.
    Settled(Settled, Option<Observed>),
    /// Nothing is left to write, and the writes have not taken full effect yet.
    Waiting(Aim, Option<Observed>),
    /// It is to be scaled up once its `initialDelay` is over, which begins now.
    Delayed,
    /// It waited this long for the silent nodes. Some are still not ready, and it is scaled up now.
    Unready(Duration),
    /// It missed its timeout; the flow goes on without it.
    Late(Duration),
    /// It could not be scaled; the flow ends at this level, unless a restore may skip it. Has the step if
    /// that may have been written nevertheless.
    Failed(ScaleError, Option<Begun>),
    /// The flow was stopped when a part of this step had been written.
    Interrupted(Begun),
}

impl What {
    /// Whether a given-up write may still take effect.
    pub fn has_given_up(&self) -> bool {
        matches!(
            self,
            Self::Failed(_, Some(begun)) | Self::Interrupted(begun) if begun.in_flight
        )
    }
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Every level was worked through.
    Complete,
    /// A level could not be completed; the next probe retries it.
    Stuck,
    /// Blocked: retrying immediately cannot succeed (such as a missing dependent, kind or permission).
    Refused,
    /// It was stopped.
    Stopped,
}

impl Ending {
    /// The ending of a flow, by how the dependents of one level ended; `None` if the next level follows.
    pub fn of_level(endings: &[Self]) -> Option<Self> {
        let worst = [Self::Stopped, Self::Stuck, Self::Refused];
        worst.into_iter().find(|ending| endings.contains(ending))
    }
}

/// Time limit for the rest of a half-written step when a flow is to finish.
pub const FINISH: Duration = Duration::from_secs(5);

/// Input of a flow. Dependents are identified by their place in its level.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowInput {
    /// Newer evidence: the flow may go on until then.
    Extend(Instant),
    /// Whether all nodes that count are ready.
    Nodes(bool),
    /// Nothing more may be sent.
    Withdraw,
    /// Nothing more may begin; a half-written step may be finished until then.
    Finish(Instant),
    /// The result of the read of a dependent.
    Read(usize, Result<Option<Observed>, ScaleError>),
    /// A dependent's write has its turn.
    Turn(usize),
    /// The result of the write.
    Written(usize, Written),
    /// It is [time](FlowMachine::due), or the flow begins.
    Time,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was carried out; the object now has this resourceVersion.
    Done(Option<String>),
    /// The object has changed since the decision, by this answer.
    Overtaken(ScaleError),
    /// It failed, but may have been carried out.
    Unanswered(ScaleError),
    /// It failed, and was not carried out.
    Failed(ScaleError),
}

/// Something for the caller to do.
#[derive(Debug)]
pub enum FlowEffect {
    /// Read this dependent.
    Read(usize),
    /// Wait for a turn to write.
    Queue(usize),
    /// Send this write now.
    Write(usize, Write),
    /// Abandon the read, or the wait for a turn.
    Drop(usize),
    /// Record this.
    Tell(Box<FlowEvent>),
    /// It is over.
    End(Ending),
}

/// One run over the dependents.
#[derive(Clone, Debug, Hash)]
pub struct FlowMachine {
    aim: Aim,
    /// Nothing begins after it: if a server or this process was away, a new verdict is needed.
    valid_until: Instant,
    stop: Option<Stop>,
    /// The dependents of the level under way.
    level: Vec<DependentFlow>,
    /// Those of the levels to come.
    to_come: VecDeque<Vec<DependentFlow>>,
}

/// How a flow is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stop {
    /// What is half written may be finished.
    Finish,
    /// Nothing more is sent.
    Withdraw,
}

impl FlowMachine {
    /// A flow for this plan.
    pub fn new(plan: &FlowPlan) -> Self {
        let mut levels: BTreeMap<u32, Vec<DependentFlow>> = BTreeMap::new();
        let aim = plan.purpose.aim;
        let level = |task: &Task| plan::level(&task.dependent, aim);
        let last = plan.tasks.iter().map(level).max();
        for task in &plan.tasks {
            let patience = plan.patience.filter(|_| Some(level(task)) != last);
            let mut dependent = DependentFlow::new(task, plan.purpose, patience);
            dependent.nodes(plan.nodes_back);
            levels.entry(level(task)).or_default().push(dependent);
        }
        Self {
            aim,
            valid_until: plan.valid_until,
            stop: None,
            level: Vec::new(),
            to_come: levels.into_values().collect(),
        }
    }

    /// What is wanted of the dependents.
    pub fn aim(&self) -> Aim {
        self.aim
    }

    /// The dependents of the current level, in order, and whether each is still under way.
    pub fn level(&self) -> impl Iterator<Item = (&Dependent, bool)> {
        let level = self.level.iter();
        level.map(|it| (it.dependent(), it.ending().is_none()))
    }

    /// When it wants [`FlowInput::Time`].
    pub fn due(&self) -> Option<Instant> {
        let due = self.level.iter().filter_map(DependentFlow::due);
        let lapse = self.level.iter().any(DependentFlow::can_stop);
        let lapse = lapse.then(|| self.valid_until + Duration::from_nanos(1));
        due.chain(lapse).min()
    }

    /// Processes an input, and returns what to do next.
    #[must_use]
    pub fn step(&mut self, input: FlowInput, now: Instant) -> Vec<FlowEffect> {
        let mut effects = Vec::new();
        match input {
            FlowInput::Time => {}
            FlowInput::Extend(until) => self.valid_until = until,
            FlowInput::Nodes(back) => {
                let to_come = self.to_come.iter_mut().flatten();
                for dependent in self.level.iter_mut().chain(to_come) {
                    dependent.nodes(back);
                }
            }
            FlowInput::Withdraw => self.stop = Some(Stop::Withdraw),
            FlowInput::Finish(by) => {
                self.valid_until = self.valid_until.min(by);
                self.stop = self.stop.or(Some(Stop::Finish));
            }
            FlowInput::Read(place, found) => {
                // Ignores an answer after the evidence expired or the flow stopped.
                let (may_begin, _) = self.may(now);
                if let Some(dependent) = self.level.get_mut(place).filter(|_| may_begin) {
                    dependent.read(found, now, &mut effects);
                }
            }
            FlowInput::Turn(place) => {
                let (may_begin, may_finish) = self.may(now);
                if let Some(dependent) = self.level.get_mut(place)
                    && (may_begin || may_finish && dependent.is_half_written())
                    && let Some(write) = dependent.send()
                {
                    effects.push(FlowEffect::Write(place, write));
                }
            }
            FlowInput::Written(place, written) => {
                if let Some(dependent) = self.level.get_mut(place) {
                    dependent.written(written, now, &mut effects);
                }
            }
        }
        self.go_on(now, &mut effects);
        effects
    }

    /// Whether more may begin, and whether half-written steps may be finished.
    fn may(&self, now: Instant) -> (bool, bool) {
        let counts = now <= self.valid_until;
        (
            counts && self.stop.is_none(),
            counts && self.stop != Some(Stop::Withdraw),
        )
    }

    /// Begins what is due, stops what may not go on, and ends the level and the flow when all have ended.
    fn go_on(&mut self, now: Instant, effects: &mut Vec<FlowEffect>) {
        let (may_begin, may_finish) = self.may(now);
        loop {
            for (place, dependent) in self.level.iter_mut().enumerate() {
                dependent.go_on(place, (may_begin, may_finish), now, effects);
            }
            let endings: Option<Vec<Ending>> =
                self.level.iter().map(DependentFlow::ending).collect();
            let Some(endings) = endings else {
                return;
            };
            let ending = if may_begin {
                Ending::of_level(&endings)
            } else {
                Some(Ending::Stopped)
            };
            match (ending, self.to_come.pop_front()) {
                (Some(ending), _) => return effects.push(FlowEffect::End(ending)),
                (None, None) => return effects.push(FlowEffect::End(Ending::Complete)),
                (None, Some(next)) => self.level = next,
            }
        }
    }
}
