//! Whether a policy is carried out: the same word for all policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whether the operator acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Observe, judge, report and act.
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

/// Remedy for a policy without a mode.
pub const MODE_MESSAGE: &str = "must be set: write DryRun to observe only, or Enforce to also act";

/// Requires the field `mode` of a spec, in the place of its schema: see [`super::crd`].
pub(super) fn mode() -> Value {
    json!({
        "rule": "has(self.mode)", "message": MODE_MESSAGE,
        "fieldPath": ".mode", "reason": "FieldValueRequired",
    })
}
