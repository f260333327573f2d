//! What a policy's status says of rights that the operator lacks, and how a successor finds it
//! there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::{DEGRADED, find, listed};

/// Why a policy is degraded while rights are missing.
pub(crate) const RIGHTS_MISSING: &str = "RightsMissing";
/// How many rights are named.
const NAMED: usize = 8;

/// The words of one component.
pub(crate) struct Rights {
    /// How it begins. It stands in a condition with other parts, which are divided by semicolons.
    pub(crate) lacks: &'static str,
    /// How they are granted.
    pub(crate) grant: &'static str,
    /// What is said when none is missing any more.
    pub(crate) suffice: &'static str,
}

impl Rights {
    /// What is to be said of rights that are missing; `None` if none is.
    pub(crate) fn lacking(&self, missing: &[String]) -> Option<String> {
        if missing.is_empty() {
            return None;
        }
        let (lacks, grant, named) = (self.lacks, self.grant, listed(missing, NAMED));
        let text = format!("{lacks}, grant them to its ServiceAccount as {grant}: {named}");
        Some(text)
    }

    /// What the conditions of a policy say of rights that are missing.
    pub(crate) fn told<'a>(&self, conditions: &'a [Condition]) -> Option<&'a str> {
        find(conditions, DEGRADED).and_then(|degraded| self.part(degraded))
    }

    /// The part of the condition Degraded that says it.
    pub(crate) fn part<'a>(&self, degraded: &'a Condition) -> Option<&'a str> {
        let mut parts = degraded.message.split("; ");
        parts.find(|part| part.starts_with(self.lacks))
    }
}
