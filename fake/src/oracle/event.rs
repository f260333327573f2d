//! What may happen in a walk, and what makes up for it.

use crate::farm::Death;
use crate::oracle::policy::Edit;
use serde::Serialize;

/// What is done to the world.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Event {
    /// So many of a shoot's kubelets are cut off.
    Cut { shoot: usize, nodes: usize },
    /// Its kubelets are back.
    Restore { shoot: usize },
    /// The API server of a shoot dies.
    Kill { shoot: usize, how: Death },
    /// It is back.
    Revive { shoot: usize },
    /// A shoot is hibernated.
    Hibernate { shoot: usize },
    /// It wakes up, and Gardener gives its dependents their replicas.
    Wake { shoot: usize },
    /// Its Cluster is deleted.
    Remove { shoot: usize },
    /// Its Cluster is there again, and Gardener gives its dependents their replicas.
    Create { shoot: usize },
    /// A shoot gets a new token; the old one is refused.
    Rotate { shoot: usize },
    /// A human scales a dependent.
    Scale {
        shoot: usize,
        dependent: &'static str,
        replicas: i32,
    },
    /// A human annotates a dependent.
    Annotate {
        shoot: usize,
        dependent: &'static str,
    },
    /// A dependent is deleted and created anew.
    Replace {
        shoot: usize,
        dependent: &'static str,
    },
    /// A human has a dependent left alone.
    Ignore {
        shoot: usize,
        dependent: &'static str,
    },
    /// No more.
    Heed {
        shoot: usize,
        dependent: &'static str,
    },
    /// The policy is changed.
    Policy(Edit),
    /// Something is done to a process of the operator.
    Hurt(Hurt, Role),
    /// The one that was frozen goes on.
    Thaw,
    /// The seed's API server crashes and is started again.
    RestartSeed,
}

/// What is done to a process of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Hurt {
    /// SIGKILL, and started again.
    Kill,
    /// SIGTERM, and started again.
    Terminate,
    /// Frozen for so many seconds.
    Freeze(u64),
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Role {
    Leader,
    Follower,
}

impl Event {
    /// What makes up for it, if something has to.
    pub fn end(&self) -> Option<Self> {
        Some(match *self {
            Self::Cut { shoot, .. } => Self::Restore { shoot },
            Self::Kill { shoot, .. } => Self::Revive { shoot },
            Self::Hibernate { shoot } => Self::Wake { shoot },
            Self::Remove { shoot } => Self::Create { shoot },
            Self::Ignore { shoot, dependent } => Self::Heed { shoot, dependent },
            Self::Policy(Edit::Hold(_)) => Self::Policy(Edit::Release),
            Self::Hurt(Hurt::Freeze(_), _) => Self::Thaw,
            _ => return None,
        })
    }

    /// Its kind, without whom it is done to.
    pub fn kind(&self) -> String {
        match self {
            Self::Policy(Edit::Hold(hold)) => format!("policy: {hold:?}"),
            Self::Policy(edit) => {
                let edit = format!("{edit:?}");
                format!("policy: {}", edit.split('(').next().unwrap_or_default())
            }
            Self::Hurt(hurt, role) => format!("{role:?}: {hurt:?}"),
            Self::Kill { how, .. } => format!("API server of a shoot {how:?}"),
            other => {
                let text = format!("{other:?}");
                text.split(' ').next().unwrap_or_default().to_owned()
            }
        }
    }
}
