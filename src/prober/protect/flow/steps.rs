//! The steps for one dependent: delay, write, wait, deadline.

use std::time::Duration;

use tokio::time::Instant;

use super::{Begun, Ending, Task, What};
use crate::{
    cluster::{Dependent, Scale},
    prober::{
        plan::{self, Aim, Observed, Purpose, Settled, Step},
        scale_error::ScaleError,
    },
};

/// One dependent's steps towards its aim: no client, no task.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Steps {
    task: Task,
    purpose: Purpose,
    /// Delay before anything is scaled. Until then the dependent is only read.
    delay: Option<Duration>,
    /// Until when it waits for the nodes.
    nodes_by: Option<Instant>,
    nodes_back: bool,
    /// The wait for nodes ended, and not all are ready.
    unready: bool,
    timeout: Duration,
    deadline: Option<Instant>,
}

/// How a dependent goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is read again after this time.
    After(Duration),
    /// It is read repeatedly until the deadline.
    Look {
        /// It was just scaled: the effect may soon be visible.
        written: bool,
        /// When it is late.
        deadline: Instant,
    },
    /// It is over.
    Ended(Ending),
}

impl Steps {
    /// Steps for this aim. The next level waits for the dependent at most for `patience`.
    pub(super) fn new(task: Task, purpose: Purpose, patience: Option<Duration>) -> Self {
        let dependent = &task.dependent;
        let scale = match purpose.aim {
            Aim::Protect => dependent.down,
            Aim::Restore => dependent.up,
            // Nothing is scaled, so there is nothing to wait for.
            Aim::Release | Aim::Look => Scale {
                initial_delay: Duration::ZERO,
                ..dependent.up
            },
        };
        let awaits = purpose.awaits.filter(|_| !scale.await_nodes.is_zero());
        Self {
            nodes_by: awaits.map(|since| since + scale.await_nodes),
            nodes_back: false,
            unready: false,
            task,
            purpose,
            delay: Some(scale.initial_delay).filter(|delay| !delay.is_zero()),
            timeout: patience.map_or(scale.timeout, |it| it.min(scale.timeout)),
            deadline: None,
        }
    }

    pub(super) fn dependent(&self) -> &Dependent {
        &self.task.dependent
    }

    /// Whether it is only read, not written.
    pub(super) fn only_looks(&mut self, now: Instant) -> bool {
        if self.delay.is_some() {
            return true;
        }
        let by = self.nodes_by.take();
        self.nodes_by = by.filter(|by| now < *by && !self.nodes_back);
        self.unready |= by.is_some() && self.nodes_by.is_none() && !self.nodes_back;
        self.nodes_by.is_some()
    }

    /// Sets whether the silent nodes are ready again; returns whether it waited for that alone.
    pub(super) fn nodes(&mut self, back: bool) -> bool {
        let waited = self.nodes_by.is_some() && self.delay.is_none() && !self.nodes_back;
        self.nodes_back = back;
        waited && back
    }

    /// The step for the state found.
    ///
    /// # Errors
    ///
    /// If that state forbids one.
    pub(super) fn decide(&self, found: Option<&Observed>) -> Result<Step, ScaleError> {
        let optional = self.task.dependent.optional;
        plan::step(self.purpose, optional, found, self.task.memory)
    }

    /// After a step carried out, or only decided [while it looks](Self::only_looks): what to report, and
    /// what is next.
    pub(super) fn carried_out(
        &mut self,
        step: Step,
        found: Option<Observed>,
        now: Instant,
    ) -> (Vec<What>, Next) {
        let mut told = Vec::new();
        match step {
            Step::Nothing(settled) => {
                told.push(What::Settled(settled, found));
                let ending = match (self.purpose.aim, settled) {
                    // It is owed its replicas again, before those of later levels.
                    (Aim::Restore, Settled::Down) => Ending::Stuck,
                    _ => Ending::Complete,
                };
                return (told, Next::Ended(ending));
            }
            Step::Wait => {
                if self.deadline.is_none() && self.task.waited.is_none() {
                    told.push(What::Waiting(self.purpose.aim, found));
                }
            }
            // It was only read: scaling waits for the delay, other steps do not.
            Step::ScaleDown { .. } | Step::ScaleUp { .. } if self.delay.is_some() => {
                let delay = self.delay.take().unwrap_or_default();
                let elapsed = match (step, self.task.delayed) {
                    (Step::ScaleUp { .. }, Some(since)) => now.saturating_duration_since(since),
                    (Step::ScaleUp { .. }, None) => {
                        told.push(What::Delayed);
                        Duration::ZERO
                    }
                    // Before a scale-down the outage has to last for all of the delay.
                    _ => Duration::ZERO,
                };
                return (told, Next::After(delay.saturating_sub(elapsed)));
            }
            Step::Record { .. } | Step::DropMarkAndRecord | Step::DropMark
                if self.delay.is_some() || self.nodes_by.is_some() =>
            {
                (self.delay, self.nodes_by) = (None, None);
                return (told, Next::After(Duration::ZERO));
            }
            Step::ScaleUp { .. } if let Some(by) = self.nodes_by => {
                return (told, Next::After(by.saturating_duration_since(now)));
            }
            Step::ScaleDown { .. } | Step::ScaleUp { .. } => {
                if std::mem::take(&mut self.unready) {
                    told.push(What::Unready(self.task.dependent.up.await_nodes));
                }
                self.task.memory.owed = true;
                self.task.memory.keeps_mark = matches!(step, Step::ScaleUp { .. });
                told.push(What::Did(step, found));
            }
            Step::Record { .. } | Step::DropMarkAndRecord | Step::DropMark => {
                told.push(What::Did(step, found));
            }
        }
        let deadline = match (self.deadline, step, self.task.waited) {
            (Some(deadline), ..) => deadline,
            // Flows that fail and begin anew do not extend it.
            (None, Step::Wait, Some(since)) => since + self.timeout,
            (None, ..) => now + self.timeout,
        };
        self.deadline = Some(deadline);
        if now >= deadline {
            told.push(What::Late(self.timeout));
            return (told, Next::Ended(Ending::Complete));
        }
        let written = matches!(step, Step::ScaleDown { .. } | Step::ScaleUp { .. });
        (told, Next::Look { written, deadline })
    }

    /// How the dependent ends when a step failed. `begun` is the step if it may have been written.
    pub(super) fn failed(&self, error: &ScaleError, begun: Option<Begun>) -> Ending {
        if begun.is_none() && !self.task.memory.owed && self.passes(error) {
            Ending::Complete
        } else if error.is_about_the_attempt() {
            Ending::Stuck
        } else {
            Ending::Refused
        }
    }

    /// Whether a restore skips a dependent that, as far as is known, is owed nothing: one that was never
    /// scaled down and cannot soon be found or read must not keep others at zero.
    fn passes(&self, error: &ScaleError) -> bool {
        let is_refused = matches!(error, ScaleError::Missing | ScaleError::Forbidden { .. });
        self.purpose.aim == Aim::Restore && (is_refused || error.is_about_the_kind())
    }
}
