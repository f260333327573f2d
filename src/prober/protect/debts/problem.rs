//! Why a dependent is not where it should be, and what to do about it.

use crate::{
    api::DependentRef,
    cluster::Dependent,
    prober::{
        plan::{Memory, Observed, Record, Settled},
        scale_error::{
            DEPENDENT_MISSING, KIND_UNKNOWN, NOT_SCALABLE, SCALING_CONFLICTS, SCALING_FAILED,
            SCALING_FORBIDDEN, ScaleError,
        },
    },
};

/// Why a dependent is not where it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The dependent.
    pub dependent: DependentRef,
    /// CamelCase, for conditions.
    pub reason: &'static str,
    /// For people: names the dependent and the remedy.
    pub message: String,
}

impl Problem {
    /// Whether the message quotes the seed, whose words may vary.
    pub fn quotes_the_seed(&self) -> bool {
        [SCALING_FORBIDDEN, SCALING_CONFLICTS, SCALING_FAILED].contains(&self.reason)
    }

    /// Whether the seed does not serve the kind as it must.
    pub(super) fn is_about_the_kind(&self) -> bool {
        [KIND_UNKNOWN, NOT_SCALABLE].contains(&self.reason)
    }
}

/// The problem of a dependent that stays unrestored.
pub(super) fn left_behind(
    settled: Settled,
    found: Option<&Observed>,
    memory: Memory,
    dependent: &Dependent,
) -> Option<Problem> {
    let reference = &dependent.reference;
    if settled == Settled::Missing {
        return (memory.owed && !dependent.optional).then(|| Problem {
            dependent: reference.clone(),
            reason: DEPENDENT_MISSING,
            message: format!(
                "{reference} was scaled to zero, and has been deleted since, so that it cannot be restored: \
                 {}",
                ScaleError::Missing
            ),
        });
    }
    let recorded = match found.map(|found| &found.record) {
        Some(Record::Replicas(replicas)) => Some(*replicas),
        _ => memory.replicas,
    };
    let at_zero = found.is_none_or(|found| found.replicas == 0);
    let (reason, why) = match settled {
        Settled::NotOurs | Settled::Seen { marked: false } if memory.owed && at_zero => {
            ("MarkRemoved", "its mark was removed by somebody else")
        }
        Settled::Ignored { at_zero: true } if memory.owed || recorded.is_some() => {
            ("IgnoredAtZero", "it says ignore-scaling")
        }
        _ => return None,
    };
    let replicas = recorded.unwrap_or(1);
    Some(Problem {
        dependent: reference.clone(),
        reason,
        message: format!(
            "{reference} is at 0 replicas and is not restored, since {why}; to have it back: \
             kubectl scale {} --replicas={replicas} in the cluster's namespace",
            reference.kubectl_name()
        ),
    })
}
