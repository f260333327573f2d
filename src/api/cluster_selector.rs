//! Which clusters a policy selects, and whose labels say so.

use std::collections::BTreeMap;

use garde::Validate;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::entries;
use super::selector::{
    LabelSelector, LabelSelectorRequirement, MAX_NAME, MAX_REQUIREMENTS, VALUE_PATTERN,
    check_labels, keys_rule,
};

/// Whose labels select a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSource {
    /// Those of the Cluster object alone: owners of a Shoot cannot change them.
    Cluster,
    /// Those of the Cluster object and of the Shoot inside it; the Cluster's own win.
    #[default]
    ClusterAndShoot,
}

/// Selects clusters by their labels. What is listed must hold together; without requirements it selects
/// every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Whose labels count: those of the Cluster alone, or those of the Shoot inside it, too, which the owners of the
    /// Shoot set.
    #[serde(default)]
    #[garde(skip)]
    pub from: LabelSource,

    // The two fields of a LabelSelector. Flattened, it would lose the paths in errors.
    /// Labels that must be there with exactly these values. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = MAX_REQUIREMENTS,
        "additionalProperties" = {"type": "string", "maxLength": MAX_NAME, "pattern": VALUE_PATTERN}
    ))]
    #[x_kube(validation = keys_rule())]
    #[garde(custom(entries(0, MAX_REQUIREMENTS)), custom(check_labels))]
    pub match_labels: BTreeMap<String, String>,

    /// Requirements on labels that must all hold. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REQUIREMENTS))]
    #[garde(custom(entries(0, MAX_REQUIREMENTS)), dive)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

impl ClusterSelector {
    /// What the labels must be.
    pub fn requirements(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
        }
    }
}
