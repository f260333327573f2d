//! What is known of one dependent.

use tokio::time::Instant;

use super::{
    given_up::Unscalable,
    problem::{Problem, TIMES},
};
use crate::{
    cluster::Dependent,
    prober::plan::{Aim, Memory},
};

/// One dependent.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Entry {
    pub(super) dependent: Dependent,
    pub(super) memory: Memory,
    pub(super) problem: Option<Problem>,
    /// A policy asks for it to be handled.
    pub(super) asked: bool,
    /// The policy that applies names it, asked for or not: nobody asks for any while the cluster is let
    /// go.
    pub(super) named: bool,
    /// It has been seen, so that a mark on it is known of: the process before may have ended
    /// between a write and its report, and what was given up may come about later.
    pub(super) looked_at: bool,
    /// When it was found scaled up by somebody else and taken down again.
    pub(super) contended: Vec<Instant>,
    /// When it was found scaled to zero by somebody else just after it was restored.
    pub(super) zeroed: Vec<Instant>,
    /// The last of those zeros has not been undone: it may be meant.
    pub(super) disputed: bool,
    /// Since when it is waited for to be where this aim wants it. It is not recalled after a restart.
    pub(super) waiting: Option<(Aim, Instant)>,
    /// Since when the `initialDelay` of the restore under way has been running. It is not recalled after a
    /// restart.
    pub(super) delayed: Option<Instant>,
    /// It is not asked for, and cannot be scaled.
    pub(super) unscalable: Option<Unscalable>,
}

impl Entry {
    pub(super) fn new(dependent: Dependent) -> Self {
        Self {
            dependent,
            ..Self::default()
        }
    }

    /// Whether nobody has any use for it: no policy asks for it, nothing is owed to it, and there is
    /// nothing to tell.
    pub(super) fn is_forgettable(&self) -> bool {
        let marked = self.memory.owed || self.memory.keeps_mark;
        !self.asked && self.looked_at && !marked && self.problem.is_none()
    }

    /// Whether somebody scales it to zero each time it is restored.
    pub(super) fn is_contended(&self) -> bool {
        self.disputed && self.zeroed.len() > TIMES
    }
}
