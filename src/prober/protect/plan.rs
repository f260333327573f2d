//! What is to be done to each dependent, in which order, and with which writes.
//!
//! A step is decided from what is there: annotations, replicas, verdict.

mod writes;

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio::time::Instant;

pub use self::writes::Write;
use crate::{cluster::Dependent, prober::scale_error::ScaleError};

/// The mark: this operator scaled the object to zero and owes its replicas.
pub const MARK: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The recorded number of replicas. Alone it is no mark: the Go tool leaves it everywhere.
pub const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
/// Ignore this object.
pub const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// Replicas to restore if no number is known.
const DEFAULT_REPLICAS: i32 = 1;

/// Characters kept of an unreadable record: it may have 256 KiB.
const MAX_UNREADABLE: usize = 64;

/// What is wanted of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aim {
    /// Scaled to zero, and marked.
    Protect,
    /// Scaled back to what they were.
    Restore,
    /// Without marks, with whatever replicas they have: others decide about those now.
    Release,
    /// As they are: they are only read.
    Look,
}

/// What is wanted of the dependents, in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purpose {
    /// What they are to be.
    pub aim: Aim,
    /// Restored dependents keep their marks for now: a client that read the zero just before, and writes it
    /// later, does so under the mark, and is undone.
    pub keep_marks: bool,
    /// Since when it may be restored, if a dependent waits for the nodes.
    pub awaits: Option<Instant>,
}

impl Purpose {
    /// Without keeping marks.
    pub fn of(aim: Aim) -> Self {
        Self {
            aim,
            keep_marks: false,
            awaits: None,
        }
    }
}

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// apps/v1: one patch carries annotations, replicas and the precondition.
    Apps,
    /// Any other kind: annotations on the object, replicas through its `scale` subresource.
    Scalable,
}

/// A dependent as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    /// How it is written.
    pub family: Family,
    /// Its UID.
    pub uid: Option<Arc<str>>,
    /// Its resourceVersion, the precondition of what is decided from it.
    pub resource_version: String,
    /// `spec.replicas`.
    pub replicas: i32,
    /// Whether it carries the mark.
    pub marked: bool,
    /// The recorded number.
    pub record: Record,
    /// Whether it says `ignore-scaling`.
    pub ignored: bool,
    /// Whether replicas still exist, by its status.
    pub any_left: bool,
    /// Whether at least one replica is ready, or exists if only its scale is known.
    pub running: bool,
}

/// The recorded number of replicas, as found in the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// There is none.
    Absent,
    /// A whole number above zero.
    Replicas(i32),
    /// Something else, of which this is the beginning.
    Unreadable(String),
}

impl Record {
    /// Reads the annotation.
    pub fn parse(annotation: Option<&str>) -> Self {
        let Some(text) = annotation else {
            return Self::Absent;
        };
        match text.parse::<i32>() {
            Ok(replicas) if replicas > 0 => Self::Replicas(replicas),
            _ => Self::Unreadable(text.chars().take(MAX_UNREADABLE).collect()),
        }
    }
}

/// What is to be done to one dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Record the number, set the mark, scale to zero.
    ScaleDown {
        /// The number to record.
        from: i32,
    },
    /// Scale up, and leave the mark for now.
    ScaleUp {
        /// The number to restore.
        to: i32,
    },
    /// It was scaled to another number under its mark: record that one.
    Record {
        /// The number to record.
        replicas: i32,
    },
    /// It is back: keep the replicas, remove mark and record.
    DropMarkAndRecord,
    /// It is to be ignored, or left to gardenlet: remove the mark, keep record and replicas.
    DropMark,
    /// Nothing to write; earlier writes have yet to take effect.
    Wait,
    /// Nothing to do.
    Nothing(Settled),
}

/// In the words of the log.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaleDown { from } => write!(f, "scale down from {from}"),
            Self::ScaleUp { to } => write!(f, "scale up to {to}"),
            Self::Record { replicas } => write!(f, "record {replicas}"),
            Self::DropMarkAndRecord => f.write_str("drop mark and record"),
            Self::DropMark => f.write_str("drop the mark"),
            Self::Wait => f.write_str("wait"),
            Self::Nothing(_) => f.write_str("nothing"),
        }
    }
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settled {
    /// It does not exist, and need not.
    Missing,
    /// It says `ignore-scaling`.
    Ignored {
        /// And it is at zero.
        at_zero: bool,
    },
    /// At zero under our mark, with its replicas gone. If it was restored before, to do so again has to be
    /// confirmed.
    Down,
    /// At zero without our mark: another client's decision.
    NotOurs,
    /// It has the replicas that its user wants.
    Up,
    /// It carries no mark, and others decide about its replicas.
    Released,
    /// It was only read.
    Seen {
        /// And it carries the mark.
        marked: bool,
    },
}

/// What is remembered of a dependent besides its annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// It was scaled down by us and has not been seen back since.
    pub owed: bool,
    /// It was restored, and keeps the mark for now.
    pub keeps_mark: bool,
    /// The number found when it was scaled down.
    pub replicas: Option<i32>,
}

/// Decides one dependent's step; `found` is `None` if it does not exist.
pub fn step(
    purpose: Purpose,
    optional: bool,
    found: Option<&Observed>,
    memory: Memory,
) -> Result<Step, ScaleError> {
    let aim = purpose.aim;
    let Some(found) = found else {
        let may_be_gone = match aim {
            Aim::Protect => optional,
            // A deleted dependent is owed nothing, so it keeps no other at zero.
            Aim::Restore => optional || memory.owed || memory.keeps_mark,
            Aim::Release | Aim::Look => true,
        };
        return if may_be_gone {
            Ok(Step::Nothing(Settled::Missing))
        } else {
            Err(ScaleError::Missing)
        };
    };
    if aim == Aim::Look {
        return Ok(Step::Nothing(Settled::Seen {
            marked: found.marked,
        }));
    }
    if found.ignored {
        return Ok(if found.marked {
            Step::DropMark
        } else {
            Step::Nothing(Settled::Ignored {
                at_zero: found.replicas == 0,
            })
        });
    }
    match aim {
        Aim::Protect => Ok(step_down(found)),
        Aim::Restore => step_up(purpose, found, memory),
        Aim::Release | Aim::Look => Ok(step_release(found)),
    }
}

fn step_release(found: &Observed) -> Step {
    match (found.replicas, found.marked) {
        // The record stays: it is the last that is known of what its user wanted.
        (0, true) => Step::DropMark,
        (_, true) => Step::DropMarkAndRecord,
        (_, false) => Step::Nothing(Settled::Released),
    }
}

fn step_down(found: &Observed) -> Step {
    match (found.replicas, found.marked) {
        (0, false) => Step::Nothing(Settled::NotOurs),
        (0, true) if found.any_left => Step::Wait,
        (0, true) => Step::Nothing(Settled::Down),
        (replicas, _) => Step::ScaleDown { from: replicas },
    }
}

fn step_up(purpose: Purpose, found: &Observed, memory: Memory) -> Result<Step, ScaleError> {
    let comes_up = memory.owed && !found.running;
    match (found.replicas, found.marked) {
        (0, true) if memory.keeps_mark => Ok(Step::Nothing(Settled::Down)),
        (0, true) => match &found.record {
            Record::Replicas(to) => Ok(Step::ScaleUp { to: *to }),
            Record::Absent => Ok(Step::ScaleUp {
                to: memory
                    .replicas
                    .filter(|replicas| *replicas > 0)
                    .unwrap_or(DEFAULT_REPLICAS),
            }),
            Record::Unreadable(text) => Err(ScaleError::UnreadableRecord(text.clone())),
        },
        (0, false) => Ok(Step::Nothing(Settled::NotOurs)),
        (_, true) if !purpose.keep_marks => Ok(Step::DropMarkAndRecord),
        _ if comes_up => Ok(Step::Wait),
        (replicas, true) if found.record != Record::Replicas(replicas) => {
            Ok(Step::Record { replicas })
        }
        _ => Ok(Step::Nothing(Settled::Up)),
    }
}

/// The level of a dependent; levels are worked through in ascending order. Where nothing is scaled there is
/// only one.
pub fn level(dependent: &Dependent, aim: Aim) -> u32 {
    match aim {
        Aim::Protect => dependent.down.level,
        Aim::Restore => dependent.up.level,
        Aim::Release | Aim::Look => 0,
    }
}

/// Groups the dependents by their level, ascending.
pub fn levels(dependents: &[Dependent], aim: Aim) -> Vec<(u32, Vec<&Dependent>)> {
    let mut by_level: BTreeMap<u32, Vec<&Dependent>> = BTreeMap::new();
    for dependent in dependents {
        let level = by_level.entry(level(dependent, aim));
        level.or_default().push(dependent);
    }
    by_level.into_iter().collect()
}

#[cfg(test)]
mod tests;
