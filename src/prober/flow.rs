//! Scales a cluster's dependents, level by level, until it is done, overtaken or stuck.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, sleep},
};

use super::{
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

/// One run over the dependents.
pub struct Flow {
    /// Reaches the dependents.
    pub scaler: Scaler,
    /// The cluster's dependents.
    pub dependents: Arc<[Dependent]>,
    /// What is wanted of them.
    pub aim: Aim,
    /// What a scale-up touches.
    pub restore: Restore,
    /// What is remembered of them.
    pub memory: BTreeMap<DependentRef, Memory>,
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
    /// It was not there in time; the flow goes on without it.
    Late(Duration),
    /// It could not be scaled; the flow ends at its level, unless it scales up and nothing is owed
    /// to it. The step is given if it may have been written all the same.
    Failed(ScaleError, Option<Step>),
    /// The flow was stopped when a part of this step had been written.
    Interrupted(Step),
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every level was worked through.
    Complete,
    /// A level could not be completed; the next probe takes it up again.
    Stuck,
    /// It was stopped.
    Stopped,
}

impl Flow {
    /// Works through the levels.
    pub async fn run(self) -> Ending {
        for (_, level) in plan::levels(&self.dependents, self.aim) {
            let endings = join_all(level.into_iter().map(|dependent| self.settle(dependent))).await;
            if !self.warrant.holds() || endings.contains(&Ending::Stopped) {
                return Ending::Stopped;
            }
            if endings.contains(&Ending::Stuck) {
                return Ending::Stuck;
            }
        }
        Ending::Complete
    }

    /// Brings one dependent to where it belongs, and waits for that for at most its timeout.
    async fn settle(&self, dependent: &Dependent) -> Ending {
        let scale = match self.aim {
            Aim::Protect => dependent.down,
            Aim::Restore => dependent.up,
            // Nothing is scaled, so there is nothing to wait for.
            Aim::Release | Aim::Look => Scale {
                initial_delay: Duration::ZERO,
                ..dependent.up
            },
        };
        let mut memory = self
            .memory
            .get(&dependent.reference)
            .copied()
            .unwrap_or_default();
        let mut delay = Some(scale.initial_delay).filter(|delay| !delay.is_zero());
        let mut deadline = None;
        let mut pause = FIRST_LOOK;
        let mut uid = None;
        while self.warrant.holds() {
            let (step, found) = match self.look_and_act(dependent, memory, delay.is_some()).await {
                Ok(Applied::Done(step, found)) => (step, found),
                Ok(Applied::Stopped(begun)) => {
                    if let Some(step) = begun {
                        self.tell(dependent, uid, What::Interrupted(step));
                    }
                    break;
                }
                Err(unapplied) => {
                    let Unapplied { error, begun, .. } = unapplied;
                    let passed = begun.is_none() && !memory.owed && self.passes(&error);
                    self.tell(dependent, unapplied.uid, What::Failed(error, begun));
                    return if passed {
                        Ending::Complete
                    } else {
                        Ending::Stuck
                    };
                }
            };
            uid = found.as_ref().and_then(|found| found.uid.clone());
            let uid = || uid.clone();
            match step {
                Step::Nothing(settled) => {
                    self.tell(dependent, uid(), What::Settled(settled, found));
                    return Ending::Complete;
                }
                Step::Wait => {}
                // It was only looked at: what scales comes after the delay, the rest at once.
                Step::ScaleDown { .. } | Step::ScaleUp { .. } if delay.is_some() => {
                    self.pause(delay.take().unwrap_or_default()).await;
                    continue;
                }
                Step::DropMark | Step::Release if delay.is_some() => {
                    delay = None;
                    continue;
                }
                Step::ScaleDown { .. } | Step::ScaleUp { .. } => {
                    memory.owed = true;
                    self.tell(dependent, uid(), What::Did(step, found));
                    pause = FIRST_LOOK;
                }
                Step::DropMark | Step::Release => {
                    self.tell(dependent, uid(), What::Did(step, found));
                }
            }
            let now = Instant::now();
            let deadline = *deadline.get_or_insert(now + scale.timeout);
            if now >= deadline {
                self.tell(dependent, uid(), What::Late(scale.timeout));
                return Ending::Complete;
            }
            self.pause(pause.min(deadline - now)).await;
            pause = (pause * 3 / 2).min(SELDOM);
        }
        Ending::Stopped
    }

    async fn look_and_act(
        &self,
        dependent: &Dependent,
        memory: Memory,
        only_look: bool,
    ) -> Result<Applied, Unapplied> {
        let decide = |found: Option<&Observed>| -> Result<Step, Refusal> {
            plan::step(self.aim, dependent.optional, self.restore, found, memory)
        };
        if only_look {
            let looked_at = async {
                let read = self.scaler.read(&dependent.reference);
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
            let applied = self
                .scaler
                .apply(&dependent.reference, &self.warrant, decide);
            applied.await
        }
    }

    /// Whether a scale-up goes on without a dependent to which nothing is known to be owed: what was
    /// never taken, and will not be there or readable soon, must not keep others at zero.
    fn passes(&self, error: &ScaleError) -> bool {
        self.aim == Aim::Restore
            && matches!(
                error,
                ScaleError::Refused(Refusal::Missing)
                    | ScaleError::UnknownKind(_)
                    | ScaleError::NotScalable(_)
                    | ScaleError::Forbidden { .. }
            )
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
