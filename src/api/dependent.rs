//! What a policy scales: references, order and waits.

use super::duration::{Bounds, Duration};
use super::forms::{API_VERSION, KIND, MAX_LABEL, MAX_NAME, NAME, Rule};
use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Waits longer than this hide a mistake rather than serve a purpose.
const INITIAL_DELAY: Bounds = Bounds("0s", "1h");
/// Nodes that are not ready by then have a reason of their own.
const AWAIT_NODES: Bounds = Bounds("0s", "1h");
/// A wait of less than a second would report every scaling as late.
const TIMEOUT: Bounds = Bounds("1s", "1h");

/// Characters of a DNS subdomain, a slash and a DNS label.
const MAX_API_VERSION: usize = MAX_NAME + 1 + MAX_LABEL;

const SCALE_DOWN: Rule<ScaleInfo> = Rule::new(
    "!has(self.awaitNodes)",
    "awaitNodes has no meaning in scaleDown, which waits for no nodes: write it in scaleUp",
    |info| info.await_nodes.is_none(),
);

/// A namespaced resource with a `scale` subresource, in the cluster's namespace.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Validate,
)]
#[serde(rename_all = "camelCase")]
pub struct DependentRef {
    /// API group and version of the resource, such as apps/v1.
    #[garde(length(min = 1, max = MAX_API_VERSION), pattern(API_VERSION))]
    pub api_version: String,

    /// Kind of the resource, such as Deployment. It must have a scale subresource.
    #[garde(length(min = 1, max = MAX_LABEL), pattern(KIND))]
    pub kind: String,

    /// Name of the resource.
    #[garde(length(min = 1, max = MAX_NAME), pattern(NAME))]
    pub name: String,
}

/// When a dependent is scaled, and how long that may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleInfo {
    /// The place in the order: levels are scaled one after the other, beginning with the lowest;
    /// dependents of one level are scaled together.
    #[garde(range(min = 0, max = i32::MAX))]
    pub level: i32,

    /// How long to wait before this dependent is scaled, counted from the moment its level is
    /// due. On the way up, the wait goes on while the cluster cannot be judged, and an outage
    /// restarts it. 0s to 1h.
    #[schemars(extend("x-kubernetes-validations" = [INITIAL_DELAY.rule()]))]
    #[garde(custom(INITIAL_DELAY.check()))]
    pub initial_delay: Duration,

    /// How long the next level waits for this dependent to be really scaled. A wait that takes
    /// longer is reported, and the next level goes ahead. 1s to 1h.
    #[schemars(extend("x-kubernetes-validations" = [TIMEOUT.rule()]))]
    #[garde(custom(TIMEOUT.check()))]
    pub timeout: Duration,

    /// Only in scaleUp: how long this dependent waits, after the verdict that allows the restore, for
    /// the nodes. Each must renew its lease and be Ready. Nodes that are
    /// gone or do not count are ignored. When the time is over the dependent is scaled up all the same. Runs
    /// at the same time as initialDelay. 0s to 1h; off when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration", extend("x-kubernetes-validations" = [AWAIT_NODES.rule()]))]
    #[garde(inner(custom(AWAIT_NODES.check())))]
    pub await_nodes: Option<Duration>,
}

/// One resource that is scaled to zero while a cluster is protected, and back afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[garde(allow_unvalidated)]
pub struct DependentResourceInfo {
    /// The resource, in the namespace of the cluster's control plane.
    #[garde(dive)]
    pub r#ref: DependentRef,

    /// true: control planes may lack this resource. false: if it is missing, that is an error: a
    /// scale-down stops at its level, and a restore skips and reports it.
    #[serde(default)]
    pub optional: bool,

    /// Order and waits when it is scaled back up.
    #[serde(default)]
    #[garde(dive)]
    pub scale_up: ScaleInfo,

    /// Order and waits when it is scaled down.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [SCALE_DOWN]))]
    #[garde(dive, custom(SCALE_DOWN.check()))]
    pub scale_down: ScaleInfo,
}

impl Default for ScaleInfo {
    fn default() -> Self {
        Self {
            level: 0,
            initial_delay: Duration::from_secs(0),
            timeout: Duration::from_secs(30),
            await_nodes: None,
        }
    }
}

impl fmt::Display for DependentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.api_version, self.kind, self.name)
    }
}

/// Deployments and StatefulSets that the probe itself needs on Gardener's seeds: it asks the API server, whose etcd has
/// the leases, by a token that the gardener-resource-manager renews.
const NEEDED_BY_PROBE: [&str; 3] = ["kube-apiserver", "etcd-main", "gardener-resource-manager"];

/// Returns a warning if the probe itself needs the dependent of this name: at zero it keeps the cluster from being
/// judged, and so from being restored.
pub fn needed_by_probe(name: &str) -> Option<String> {
    NEEDED_BY_PROBE.contains(&name).then(|| {
        format!(
            "the probe needs {name}: with it at zero the cluster may never be judged again, nor restored; name as \
             dependents only what acts on silent nodes"
        )
    })
}

impl DependentRef {
    /// Returns whether its texts have the form that the schema requires, also of a status.
    pub fn is_valid(&self) -> bool {
        self.validate().is_ok()
    }

    /// Returns the name that kubectl takes; of kinds that others may have too, with the group. It is printed in
    /// commands, which are pasted into a shell, so that texts which are no names do not get there.
    pub fn kubectl_name(&self) -> String {
        if !self.is_valid() {
            return "(not a name)".to_owned();
        }
        let (kind, name) = (self.kind.to_lowercase(), &self.name);
        match self.api_version.split_once('/') {
            Some(("apps", _)) | None => format!("{kind}/{name}"),
            Some((group, version)) => format!("{kind}.{version}.{group}/{name}"),
        }
    }
}
