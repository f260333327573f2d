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
    /// The policy that applies names it, even if `asked` is false, as while the cluster is let go.
    pub(super) named: bool,
    /// It was read, so that a mark is known: an earlier process may have ended between a write and its
    /// report, and a given-up write may take effect later.
    pub(super) looked_at: bool,
    /// When others had scaled it up, and it was scaled down again.
    pub(super) contended: Vec<Instant>,
    /// When others had scaled it to zero just after its restore.
    pub(super) zeroed: Vec<Instant>,
    /// The last such zero was not undone: it may be intended.
    pub(super) disputed: bool,
    /// Since when it is waited for with this aim. Lost in a restart.
    pub(super) waiting: Option<(Aim, Instant)>,
    /// Start of the `initialDelay` of the restore under way. Lost in a restart.
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

    /// Whether it can be forgotten: no policy asks for it, it is owed nothing, and there is nothing to
    /// report.
    pub(super) fn is_forgettable(&self) -> bool {
        let marked = self.memory.owed || self.memory.keeps_mark;
        !self.asked && self.looked_at && !marked && self.problem.is_none()
    }

    /// Whether others scale it to zero each time it is restored.
    pub(super) fn is_contended(&self) -> bool {
        self.disputed && self.zeroed.len() > TIMES
    }
}
