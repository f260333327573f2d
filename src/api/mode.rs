//! Whether a policy is carried out: the same word for all policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the operator acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Observe, judge, report and act.
    #[default]
    Enforce,
    /// Observe, judge and report; scale no dependent and delete no pod.
    DryRun,
}

impl Mode {
    /// This one, unless all policies are taken for ones in dry run.
    #[must_use]
    pub fn or_dry_run(self, dry_run: bool) -> Self {
        match dry_run {
            true => Self::DryRun,
            false => self,
        }
    }
}
