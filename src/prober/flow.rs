//! Scales a cluster's dependents, level by level, until it is done, overtaken or stuck.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, sleep},
};

use super::{
    agenda::Order,
    attempt::Begun,
    ledger::Ledger,
    plan::{self, Aim, Memory, Observed, Refusal, Settled, Step},
    scale::{Applied, ScaleError, Scaler, Unapplied},
    warrant::Warrant,
};
use crate::{
    api::{DependentRef, Restore},
    cluster::{Dependent, Scale},
};

/// How soon the effect of a write is looked for first ...
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// ... and how seldom at the most, each time half as often as before.
const SELDOM: Duration = Duration::from_secs(1);

/// One run over the dependents, before it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// What is wanted of them.
    pub aim: Aim,
    /// What a scale-up touches.
    pub restore: Restore,
    /// The cluster's dependents.
    pub dependents: Arc<[Dependent]>,
    /// What is remembered of them.
    pub memory: BTreeMap<DependentRef, Memory>,
    /// Since when flows before it with this aim have waited for those that they did not see there.
    pub waited: BTreeMap<DependentRef, Instant>,
    /// Since when the delays of this restore have been running that a flow before began.
    pub delayed: BTreeMap<DependentRef, Instant>,
    /// Until when the evidence for it counts: nothing is begun after that without newer.
    pub valid_until: Instant,
    /// Whether something is to be done that cannot wait, as far as is known. What changes nothing lets
    /// go before it whatever does: a thousand healthy clusters may be looked at at once.
    pub urgent: bool,
    /// Why, for people.
    pub why: String,
}

impl FlowPlan {
    /// Does this to the dependents of a cluster.
    pub fn new(ledger: &Ledger, order: Order, urgent: bool) -> Self {
        let aim = order.aim;
        Self {
            aim,
            restore: order.restore,
            dependents: ledger.dependents(aim),
            memory: ledger.memory(),
            waited: ledger.waited(aim),
            delayed: ledger.delayed(),
            valid_until: order.valid_until,
            urgent,
            why: String::new(),
        }
    }
}

/// One run over the dependents.
pub struct Flow {
    /// Reaches the dependents.
    pub scaler: Scaler,
    /// What it is to do.
    pub plan: Box<FlowPlan>,
    /// Until when it may go on. Nothing is written after that: whoever was away, be it this process,
    /// needs a new verdict.
    pub warrant: Warrant,
    /// Who is told of what was done.
    pub events: UnboundedSender<FlowEvent>,
}

/// Something that a flow did or met.
#[derive(Debug)]
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
#[derive(Debug)]
pub enum What {
    /// A step was carried out on what was found.
    Did(Step, Option<Observed>),
    /// There is nothing to do any more.
    Settled(Settled, Option<Observed>),
    /// There is nothing to write any more, and what was written has not come about yet.
    Waiting(Aim, Option<Observed>),
    /// It is to be scaled up once its `initialDelay` is over, which begins now.
    Delayed,
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

/// One dependent on its way to where it belongs: no client, no task.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Settling {
    dependent: Dependent,
    aim: Aim,
    restore: Restore,
    memory: Memory,
    /// What is waited for before anything is scaled. Until then it is only looked at.
    delay: Option<Duration>,
    timeout: Duration,
    /// Since when a flow before has waited for it.
    waited: Option<Instant>,
    /// Since when the delay has been running, if a flow before began it.
    delayed: Option<Instant>,
    deadline: Option<Instant>,
}

/// How a dependent's way goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// It is looked at again at once,
    AtOnce,
    /// after so long,
    After(Duration),
    /// or now and then, until the deadline at most.
    Look {
        /// Something has just been scaled, so that it is soon seen.
        written: bool,
        /// When it is late.
        deadline: Instant,
    },
    /// It is over.
    Ended(Ending),
}

impl Settling {
    /// Brings a dependent, of which this is remembered, to where this aim wants it. `waited` tells since
    /// when a flow before with this aim has waited for that, and `delayed` since when the delay of this
    /// restore has been running.
    pub fn new(
        dependent: Dependent,
        aim: Aim,
        restore: Restore,
        memory: Memory,
        waited: Option<Instant>,
        delayed: Option<Instant>,
    ) -> Self {
        let scale = match aim {
            Aim::Protect => dependent.down,
            Aim::Restore => dependent.up,
            // Nothing is scaled, so there is nothing to wait for.
            Aim::Release | Aim::Look => Scale {
                initial_delay: Duration::ZERO,
                ..dependent.up
            },
        };
        Self {
            dependent,
            aim,
            restore,
            memory,
            delay: Some(scale.initial_delay).filter(|delay| !delay.is_zero()),
            timeout: scale.timeout,
            waited,
            delayed,
            deadline: None,
        }
    }

    /// Whether it is only looked at, and not written.
    pub fn only_looks(&self) -> bool {
        self.delay.is_some()
    }

    /// The step for what is there.
    ///
    /// # Errors
    ///
    /// If what is there forbids one.
    pub fn decide(&self, found: Option<&Observed>) -> Result<Step, Refusal> {
        let optional = self.dependent.optional;
        plan::step(self.aim, optional, self.restore, found, self.memory)
    }

    /// A step was carried out, unless it [only looks](Self::only_looks): what is to be told of it,
    /// and how it goes on.
    pub fn carried_out(
        &mut self,
        step: Step,
        found: Option<Observed>,
        now: Instant,
    ) -> (Vec<What>, Onward) {
        let mut told = Vec::new();
        match step {
            Step::Nothing(settled) => {
                told.push(What::Settled(settled, found));
                return (told, Onward::Ended(Ending::Complete));
            }
            Step::Wait => {
                if self.deadline.is_none() && self.waited.is_none() {
                    told.push(What::Waiting(self.aim, found));
                }
            }
            // It was only looked at: what scales comes after the delay, the rest at once.
            Step::ScaleDown { .. } | Step::ScaleUp { .. } if self.delay.is_some() => {
                let delay = self.delay.take().unwrap_or_default();
                let elapsed = match (step, self.delayed) {
                    (Step::ScaleUp { .. }, Some(since)) => now.saturating_duration_since(since),
                    (Step::ScaleUp { .. }, None) => {
                        told.push(What::Delayed);
                        Duration::ZERO
                    }
                    // Before a scale-down the outage has to last for all of the delay.
                    _ => Duration::ZERO,
                };
                return (told, Onward::After(delay.saturating_sub(elapsed)));
            }
            Step::DropMarkAndRecord | Step::DropMark if self.delay.is_some() => {
                self.delay = None;
                return (told, Onward::AtOnce);
            }
            Step::ScaleDown { .. } | Step::ScaleUp { .. } => {
                self.memory.owed = true;
                told.push(What::Did(step, found));
            }
            Step::DropMarkAndRecord | Step::DropMark => told.push(What::Did(step, found)),
        }
        let deadline = match (self.deadline, step, self.waited) {
            (Some(deadline), ..) => deadline,
            // However often flows fail and are begun anew meanwhile.
            (None, Step::Wait, Some(since)) => since + self.timeout,
            (None, ..) => now + self.timeout,
        };
        self.deadline = Some(deadline);
        if now >= deadline {
            told.push(What::Late(self.timeout));
            return (told, Onward::Ended(Ending::Complete));
        }
        let written = matches!(step, Step::ScaleDown { .. } | Step::ScaleUp { .. });
        (told, Onward::Look { written, deadline })
    }

    /// A step could not be carried out: how it ends. The step is given if it may have been written.
    pub fn failed(&self, error: &ScaleError, begun: Option<Begun>) -> Ending {
        if begun.is_none() && !self.memory.owed && self.passes(error) {
            Ending::Complete
        } else if error.is_about_the_attempt() {
            Ending::Stuck
        } else {
            Ending::Refused
        }
    }

    /// Whether a scale-up goes on without a dependent to which nothing is known to be owed: what was
    /// never taken, and will not be there or readable soon, must not keep others at zero.
    fn passes(&self, error: &ScaleError) -> bool {
        let is_refused = matches!(
            error,
            ScaleError::Refused(Refusal::Missing) | ScaleError::Forbidden { .. }
        );
        self.aim == Aim::Restore && (is_refused || error.is_about_the_kind())
    }
}

impl Ending {
    /// What becomes of a flow of which the dependents of one level have ended like this; `None` if
    /// the next level follows.
    pub fn of_level(endings: &[Self]) -> Option<Self> {
        let worst = [Self::Stopped, Self::Stuck, Self::Refused];
        worst.into_iter().find(|ending| endings.contains(ending))
    }
}

impl Flow {
    /// Works through the levels.
    pub async fn run(self) -> Ending {
        for (_, level) in plan::levels(&self.plan.dependents, self.plan.aim) {
            let endings = join_all(level.into_iter().map(|dependent| self.settle(dependent))).await;
            if !self.warrant.holds() {
                return Ending::Stopped;
            }
            if let Some(ending) = Ending::of_level(&endings) {
                return ending;
            }
        }
        Ending::Complete
    }

    /// Brings one dependent to where it belongs, and waits for that for at most its timeout.
    async fn settle(&self, dependent: &Dependent) -> Ending {
        let plan = &self.plan;
        let memory = plan.memory.get(&dependent.reference);
        let memory = memory.copied().unwrap_or_default();
        let waited = plan.waited.get(&dependent.reference).copied();
        let delayed = plan.delayed.get(&dependent.reference).copied();
        let (aim, restore, it) = (plan.aim, plan.restore, dependent.clone());
        let mut settling = Settling::new(it, aim, restore, memory, waited, delayed);
        let mut scaler = self.scaler.clone();
        let mut pause = FIRST_LOOK;
        let mut has_written = false;
        let mut uid = None;
        while self.warrant.holds() {
            let (step, found) = match self.look_and_act(&scaler, &settling).await {
                Ok(Applied::Done(step, found)) => (step, found),
                Ok(Applied::Stopped(begun)) => {
                    if let Some(begun) = begun {
                        self.tell(dependent, uid, What::Interrupted(begun));
                    }
                    break;
                }
                Err(Unapplied { error, begun, uid }) => {
                    let ending = settling.failed(&error, begun);
                    self.tell(dependent, uid, What::Failed(error, begun));
                    return ending;
                }
            };
            uid = found.as_ref().and_then(|found| found.uid.clone());
            let (whats, onward) = settling.carried_out(step, found, Instant::now());
            for what in whats {
                self.tell(dependent, uid.clone(), what);
            }
            match onward {
                Onward::AtOnce => {}
                Onward::After(delay) => self.pause(delay).await,
                Onward::Look { written, deadline } => {
                    // But where somebody undoes each write at once, writes become as seldom as looks.
                    if written && !has_written {
                        pause = FIRST_LOOK;
                    }
                    has_written |= written;
                    let left = deadline.saturating_duration_since(Instant::now());
                    // Whoever has yet to write something goes before who waits for its effect, as long
                    // as there is time for that.
                    scaler = self.scaler.clone();
                    if pause < left {
                        scaler = scaler.at_leisure();
                    }
                    self.pause(pause.min(left)).await;
                    pause = (pause * 3 / 2).min(SELDOM);
                }
                Onward::Ended(ending) => return ending,
            }
        }
        Ending::Stopped
    }

    async fn look_and_act(
        &self,
        scaler: &Scaler,
        settling: &Settling,
    ) -> Result<Applied, Unapplied> {
        let reference = &settling.dependent.reference;
        let decide = |found: Option<&Observed>| settling.decide(found);
        if settling.only_looks() {
            let looked_at = async {
                let read = scaler.read(reference);
                let Some(found) = self.warrant.during(read).await else {
                    return Ok(Applied::Stopped(None));
                };
                let found = found?;
                Ok(Applied::Done(decide(found.as_ref())?, found))
            };
            looked_at.await.map_err(|error| Unapplied {
                error,
                begun: None,
                uid: None,
            })
        } else {
            scaler.apply(reference, &self.warrant, decide).await
        }
    }

    async fn pause(&self, length: Duration) {
        self.warrant.during(sleep(length)).await;
    }

    fn tell(&self, dependent: &Dependent, uid: Option<Arc<str>>, what: What) {
        // Nobody listens any more only when the whole cluster is being let go.
        let _ = self.events.send(FlowEvent {
            at: Instant::now(),
            dependent: dependent.clone(),
            uid,
            what,
        });
    }
}

#[cfg(test)]
mod tests;
