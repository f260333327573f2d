//! Next step for one dependent, decided from what is there: annotations, replicas, order. Each step is one request.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{cluster::Dependent, prober::scale_error::ScaleError};

/// The mark: this operator scaled the object to zero and owes its replicas.
pub const MARK: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The recorded number of replicas. Alone it is no mark: the Go tool leaves it everywhere.
pub const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
/// Ignore this object.
pub const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// Time for which a restored dependent keeps its mark. gardenlet decides about replicas in one step of a
/// reconciliation, and writes them in another without a precondition.
pub const PROBATION: Duration = Duration::from_secs(60);

/// Replicas to restore if no number is known.
const DEFAULT_REPLICAS: i32 = 1;

/// Characters kept of an unreadable record: it may have 256 KiB.
const MAX_UNREADABLE: usize = 64;

/// State that is wanted of a dependent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Aim {
    /// As it is: it is only read, and a mark falls that is due.
    #[default]
    Leave,
    /// Scaled to zero, and marked.
    Down,
    /// Scaled back to what it was.
    Up,
    /// Without a mark, with whatever replicas it has: others decide about those now.
    Release,
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
    /// Tells whether it carries the mark.
    pub marked: bool,
    /// The recorded number.
    pub record: Record,
    /// Tells whether it says `ignore-scaling`.
    pub ignored: bool,
    /// Tells whether replicas still exist, by its status.
    pub any_left: bool,
    /// Tells whether at least one replica is ready, or exists if only its scale is known.
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

    /// The number, if it is one.
    pub(crate) fn replicas(&self) -> Option<i32> {
        match self {
            Self::Replicas(replicas) => Some(*replicas),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

/// Memory of a dependent besides its annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// It was scaled down by us and has not been seen back since.
    pub owed: bool,
    /// The number found when it was scaled down.
    pub replicas: Option<i32>,
    /// When the mark falls that it keeps, since it was restored.
    pub unmark_at: Option<Instant>,
}

/// One request that changes a dependent. It is refused if anything has changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Set the mark and record the number, of a kind that is scaled by another request.
    Mark {
        /// The number to record.
        from: i32,
    },
    /// Scale to zero; a workload of apps/v1 is marked in the same request, others were before.
    ScaleDown {
        /// The number that is, or was, recorded.
        from: i32,
    },
    /// Scale up, and leave the mark for now.
    ScaleUp {
        /// The number to restore.
        to: i32,
    },
    /// Record another number: it was scaled under its mark.
    Record {
        /// The number to record.
        replicas: i32,
    },
    /// Remove the mark, and keep the replicas.
    Unmark {
        /// And remove the record: they are back. Otherwise it stays, the last that is known of what a user wanted.
        with_record: bool,
    },
}

/// In the words of the log.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mark { from } => write!(f, "mark, and record {from}"),
            Self::ScaleDown { from } => write!(f, "scale down from {from}"),
            Self::ScaleUp { to } => write!(f, "scale up to {to}"),
            Self::Record { replicas } => write!(f, "record {replicas}"),
            Self::Unmark { with_record: true } => f.write_str("drop mark and record"),
            Self::Unmark { with_record: false } => f.write_str("drop the mark"),
        }
    }
}

/// Next thing for a dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Write this.
    Do(Step),
    /// Nothing to write: earlier writes have yet to take effect.
    Wait,
    /// It is as it is wanted, or somebody else decides about it.
    Reached,
}

/// Decides what is next for one dependent; `found` is `None` if it does not exist. `unmarks`: a mark falls from what is
/// above zero.
///
/// # Errors
///
/// If what was found forbids a step.
pub fn next(
    aim: Aim,
    optional: bool,
    found: Option<&Observed>,
    memory: Memory,
    unmarks: bool,
) -> Result<Next, ScaleError> {
    let Some(found) = found else {
        let may_be_gone = match aim {
            Aim::Down => optional,
            // What is deleted is owed nothing, so it keeps no other at zero.
            Aim::Up => optional || memory.owed || memory.unmark_at.is_some(),
            Aim::Release | Aim::Leave => true,
        };
        return if may_be_gone {
            Ok(Next::Reached)
        } else {
            Err(ScaleError::Missing)
        };
    };
    if aim == Aim::Leave && !(unmarks && found.replicas > 0) {
        return Ok(Next::Reached);
    }
    if found.ignored && found.marked {
        return Ok(Next::Do(Step::Unmark { with_record: false }));
    }
    Ok(match (aim, found.replicas, found.marked) {
        _ if found.ignored => Next::Reached,
        (Aim::Down, 0, true) if found.any_left => Next::Wait,
        // Ours, or somebody else's.
        (Aim::Down, 0, _) => Next::Reached,
        (Aim::Down, from, marked) => match found.family {
            Family::Scalable if !marked || found.record != Record::Replicas(from) => {
                Next::Do(Step::Mark { from })
            }
            _ => Next::Do(Step::ScaleDown { from }),
        },
        (Aim::Release, 0, true) => Next::Do(Step::Unmark { with_record: false }),
        (Aim::Up, 0, true) => Next::Do(Step::ScaleUp {
            to: restored(&found.record, memory)?,
        }),
        (Aim::Release, _, true) => Next::Do(Step::Unmark { with_record: true }),
        (Aim::Up | Aim::Leave, _, true) if unmarks => Next::Do(Step::Unmark { with_record: true }),
        (Aim::Up, 1.., _) if memory.owed && !found.running => Next::Wait,
        (Aim::Up, replicas, true) if found.record != Record::Replicas(replicas) => {
            Next::Do(Step::Record { replicas })
        }
        _ => Next::Reached,
    })
}

/// The number to restore.
fn restored(record: &Record, memory: Memory) -> Result<i32, ScaleError> {
    let remembered = memory.replicas.filter(|replicas| *replicas > 0);
    match record {
        Record::Replicas(to) => Ok(*to),
        Record::Absent => Ok(remembered.unwrap_or(DEFAULT_REPLICAS)),
        Record::Unreadable(text) => Err(ScaleError::UnreadableRecord(text.clone())),
    }
}

/// The level of a dependent; levels are worked through in ascending order. Where nothing is scaled there is
/// only one.
pub fn level(dependent: &Dependent, aim: Aim) -> u32 {
    match aim {
        Aim::Down => dependent.down.level,
        Aim::Up => dependent.up.level,
        Aim::Release | Aim::Leave => 0,
    }
}

/// The body of one request that changes a dependent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A merge patch of the object.
    Object(Value),
    /// A merge patch of its `scale` subresource.
    ScaleMerge(Value),
}

impl Step {
    /// The request that carries it out, refused if anything has changed since the dependent was `found` so.
    pub fn write(self, found: &Observed) -> Write {
        let (annotations, replicas) = match self {
            Self::Mark { from } => (Some(marks(from)), None),
            Self::ScaleDown { from } => {
                let marks = (found.family == Family::Apps).then(|| marks(from));
                (marks, Some(0))
            }
            Self::ScaleUp { to } => (None, Some(to)),
            Self::Record { replicas } => (Some(json!({RECORD: replicas.to_string()})), None),
            Self::Unmark { with_record: true } => (Some(json!({MARK: null, RECORD: null})), None),
            Self::Unmark { with_record: false } => (Some(json!({MARK: null})), None),
        };
        Write::new(found, annotations, replicas)
    }

    /// The request of a user who overrules the operator. A restore also has the operator ignore the
    /// dependent, which it would scale down again in an outage.
    pub fn overruling_write(self, found: &Observed) -> Write {
        // Annotations that hand a dependent over to its user.
        let handed_over = json!({MARK: null, RECORD: null, IGNORE: "true"});
        let (annotations, replicas) = match self {
            Self::ScaleUp { to } if found.family == Family::Apps => (handed_over, Some(to)),
            // First, so that at no moment it is up and not ignored. The mark stays meanwhile.
            Self::ScaleUp { .. } if !found.ignored => (json!({IGNORE: "true"}), None),
            Self::Unmark { with_record: true } => (handed_over, None),
            _ => return self.write(found),
        };
        Write::new(found, Some(annotations), replicas)
    }
}

fn marks(from: i32) -> Value {
    json!({MARK: "", RECORD: from.to_string()})
}

impl Write {
    /// Changes these annotations and the number of replicas.
    fn new(found: &Observed, annotations: Option<Value>, replicas: Option<i32>) -> Self {
        let version = &found.resource_version;
        let patch = match (annotations, replicas) {
            (Some(annotations), Some(replicas)) => json!({
                "metadata": {"resourceVersion": version, "annotations": annotations},
                "spec": {"replicas": replicas},
            }),
            (Some(annotations), None) => {
                json!({"metadata": {"resourceVersion": version, "annotations": annotations}})
            }
            (None, replicas) => {
                let patch = json!({
                    "metadata": {"resourceVersion": version},
                    "spec": {"replicas": replicas},
                });
                if found.family == Family::Scalable {
                    return Self::ScaleMerge(patch);
                }
                patch
            }
        };
        Self::Object(patch)
    }
}

#[cfg(test)]
mod tests;
