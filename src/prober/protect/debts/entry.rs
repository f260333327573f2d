//! What is known of one dependent.

use tokio::time::Instant;

use super::problem::Problem;
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
    /// It was read, so that a mark is known: an earlier process may have ended between a write and its
    /// report, and a given-up write may take effect later.
    pub(super) looked_at: bool,
    /// How often it was found at zero under the mark that it kept after a restore.
    pub(super) again: u32,
    /// When the mark falls that it keeps after a restore.
    pub(super) unmarked_at: Option<Instant>,
    /// Since when it is waited for with this aim. Lost in a restart.
    pub(super) waiting: Option<(Aim, Instant)>,
    /// Start of the `initialDelay` of the restore under way. Lost in a restart.
    pub(super) delayed: Option<Instant>,
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
        let is_quiet = self.problem.is_none() || self.is_passed_by();
        !self.asked && self.looked_at && !marked && is_quiet
    }

    /// Whether no other waits for it: no policy asks for it, and the seed does not serve its kind as it must.
    pub(super) fn is_passed_by(&self) -> bool {
        let problem = self.problem.as_ref();
        !self.asked && problem.is_some_and(Problem::is_about_the_kind)
    }
}
