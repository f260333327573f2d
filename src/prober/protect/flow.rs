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
    /// Until when the evidence for it counts: nothing is begun after that without newer.
    pub valid_until: Instant,
    /// How long a level is waited for at most if another comes after it; `None` where each dependent's own
    /// timeout alone limits it.
    pub patience: Option<Duration>,
    /// Whether something is to be done that cannot wait, as far as is known. What changes nothing lets
    /// go before it whatever does: a thousand healthy clusters may be looked at at once.
    pub urgent: bool,
    /// Why, for people.
    pub why: String,
    /// The nodes that were silent are ready again.
    pub nodes_back: bool,
}

/// A dependent, and what is known of it when a flow begins.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct Task {
    /// The dependent.
    pub dependent: Dependent,
    /// What it is owed.
    pub memory: Memory,
    /// Since when flows before with this aim have waited for it to be where they want it.
    pub waited: Option<Instant>,
    /// Since when the delay of its restore has been running, if a flow before has begun it.
    pub delayed: Option<Instant>,
    /// Somebody scales it to zero each time it is restored.
    pub contended: bool,
    /// Somebody else scaled it to zero just after it was restored, perhaps on purpose.
    pub disputed: bool,
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
    /// A step was carried out on what was found.
    Did(Step, Option<Observed>),
    /// There is nothing to do any more.
    Settled(Settled, Option<Observed>),
    /// There is nothing to write any more, and what was written has not come about yet.
    Waiting(Aim, Option<Observed>),
    /// It is to be scaled up once its `initialDelay` is over, which begins now.
    Delayed,
    /// It waited so long for the nodes that were silent. Some are not ready, and it is scaled up now.
    Unready(Duration),
    /// It was not there in time; the flow goes on without it.
    Late(Duration),
    /// It could not be scaled; the flow ends at its level, unless it scales up and nothing is owed
    /// to it. The step is given if it may have been written all the same.
    Failed(ScaleError, Option<Begun>),
    /// The flow was stopped when a part of this step had been written.
    Interrupted(Begun),
}

impl What {
    /// Whether a write was given up that may yet come about.
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
    /// A level could not be completed; the next probe takes it up again.
    Stuck,
    /// Nor could it, and to try at once would come to the same: a dependent, its kind or a right is
    /// missing.
    Refused,
    /// It was stopped.
    Stopped,
}

impl Ending {
    /// What becomes of a flow of which the dependents of one level have ended like this; `None` if
    /// the next level follows.
    pub fn of_level(endings: &[Self]) -> Option<Self> {
        let worst = [Self::Stopped, Self::Stuck, Self::Refused];
        worst.into_iter().find(|ending| endings.contains(ending))
    }
}

/// When a flow is to finish, what is left of a step is sent within this.
pub const FINISH: Duration = Duration::from_secs(5);

/// Something that a flow learns. Dependents are told apart by their place in its level.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowInput {
    /// There is newer evidence: it may go on until then.
    Extend(Instant),
    /// Whether the nodes that were silent are ready again.
    Nodes(bool),
    /// Nothing more is to be sent.
    Withdraw,
    /// Nothing more is to be begun; a step of which a part is written may be finished by then.
    Finish(Instant),
    /// A dependent was read, or could not be.
    Read(usize, Result<Option<Observed>, ScaleError>),
    /// It is the turn of the write of a dependent.
    Turn(usize),
    /// What became of the write.
    Written(usize, Written),
    /// It is [time](FlowMachine::due), or it is to begin.
    Time,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It was carried out, and the object has this resourceVersion by it.
    Done(Option<String>),
    /// What it was decided from is not so any more, by this answer.
    Overtaken(ScaleError),
    /// It failed, and may have been carried out all the same.
    Unanswered(ScaleError),
    /// It failed, and was not carried out.
    Failed(ScaleError),
}

/// Something that a flow has done.
#[derive(Debug)]
pub enum FlowEffect {
    /// Read this dependent.
    Read {
        /// Its place.
        place: usize,
        /// Those who have yet to write something go before it.
        at_leisure: bool,
    },
    /// Wait for a turn to write.
    Queue(usize),
    /// Send this write at once.
    Write(usize, Write),
    /// Do not wait for the answer to the read, or for the turn, any more.
    Drop(usize),
    /// Take this down.
    Tell(Box<FlowEvent>),
    /// It is over.
    End(Ending),
}

/// One run over the dependents.
#[derive(Clone, Debug, Hash)]
pub struct FlowMachine {
    aim: Aim,
    /// Nothing is begun after that: whoever was away, be it this process, needs a new verdict.
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
    /// A flow that does this. What it restores says `ignore-scaling` from the same write on if it
    /// overrules the operator.
    pub fn new(plan: &FlowPlan, overruling: bool) -> Self {
        let mut levels: BTreeMap<u32, Vec<DependentFlow>> = BTreeMap::new();
        let aim = plan.purpose.aim;
        let aim_of = |task: &Task| match task.disputed {
            true => plan.purpose.disputed,
            false => aim,
        };
        // What is not brought where the rest is keeps no other waiting.
        let level = |task: &Task| match aim_of(task) == aim {
            true => plan::level(&task.dependent, aim),
            false => u32::MAX,
        };
        let last = plan.tasks.iter().map(level).max();
        for task in &plan.tasks {
            let patience = plan.patience.filter(|_| Some(level(task)) != last);
            let purpose = Purpose {
                aim: aim_of(task),
                ..plan.purpose
            };
            let mut dependent = DependentFlow::new(task, purpose, patience, overruling);
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

    /// The dependents of the level under way, in their places, and whether each waits for something.
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

    /// Takes up what was learnt, and tells what is to be done next.
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
                // What comes when the evidence has aged is as if it had not come.
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

    /// Whether anything more may be begun, and whether what is half written may be finished.
    fn may(&self, now: Instant) -> (bool, bool) {
        let counts = now <= self.valid_until;
        (
            counts && self.stop.is_none(),
            counts && self.stop != Some(Stop::Withdraw),
        )
    }

    /// Begins what is due, ends what may not go on, and the level and the flow once all of it has ended.
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
