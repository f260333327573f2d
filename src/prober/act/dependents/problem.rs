//! Why a dependent is not where it should be, and what to do about it.

use std::time::Duration;

use crate::{
    api::DependentRef,
    cluster::Dependent,
    prober::{
        scale_error::{
            DEPENDENT_MISSING, KIND_UNKNOWN, NOT_SCALABLE, SCALING_CONFLICTS, SCALING_FAILED,
            ScaleError,
        },
        step::{Memory, Observed},
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
    /// Tells whether the seed does not serve the kind as it must.
    pub(super) fn is_about_the_kind(&self) -> bool {
        [KIND_UNKNOWN, NOT_SCALABLE].contains(&self.reason)
    }

    /// Tells whether another try may succeed at once.
    pub(super) fn is_about_the_attempt(&self) -> bool {
        [SCALING_CONFLICTS, SCALING_FAILED].contains(&self.reason)
    }

    pub(super) fn failed(reference: &DependentRef, error: &ScaleError) -> Self {
        Self {
            dependent: reference.clone(),
            reason: error.reason(),
            message: format!("{reference}: {error}"),
        }
    }

    pub(super) fn late(reference: &DependentRef, timeout: Duration) -> Self {
        Self {
            dependent: reference.clone(),
            reason: "ScalingLate",
            message: format!("{reference} was not scaled within {timeout:?}"),
        }
    }

    /// The problem of a dependent that was found so and stays unrestored; `memory` is of before.
    pub(super) fn left_behind(
        found: Option<&Observed>,
        memory: Memory,
        dependent: &Dependent,
    ) -> Option<Self> {
        let reference = &dependent.reference;
        let Some(found) = found else {
            return (memory.owed && !dependent.optional).then(|| Self {
                dependent: reference.clone(),
                reason: DEPENDENT_MISSING,
                message: format!(
                    "{reference} was scaled to zero, and has been deleted since, so that it cannot be \
                     restored: {}",
                    ScaleError::Missing
                ),
            });
        };
        let recorded = found.record.replicas().or(memory.replicas);
        let (reason, why) = match found {
            it if it.replicas > 0 || it.marked => return None,
            it if it.ignored && (memory.owed || recorded.is_some()) => {
                ("IgnoredAtZero", "it says ignore-scaling")
            }
            it if !it.ignored && memory.owed => {
                ("MarkRemoved", "its mark was removed by somebody else")
            }
            _ => return None,
        };
        let replicas = recorded.unwrap_or(1);
        Some(Self {
            dependent: reference.clone(),
            reason,
            message: format!(
                "{reference} is at 0 replicas and is not restored, since {why}; to have it back: \
                 kubectl scale {} --replicas={replicas} in the cluster's namespace",
                reference.kubectl_name()
            ),
        })
    }
}
