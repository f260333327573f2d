//! A slim view of `Cluster` (`extensions.gardener.cloud/v1alpha1`) and of the Shoot inside it.
//!
//! A Cluster describes one hosted control plane; the namespace of its name holds it. It embeds the
//! CloudProfile, the Seed and the Shoot, hundreds of kilobytes of which a few fields matter: the
//! rest is dropped while decoding. The embedded objects have no schema on the seed, so a Shoot that
//! cannot be read is a value, [`Unreadable`], and not an error: one odd Cluster must not hide the
//! others of the same list.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::{
    ClusterResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::api::LabelSource;

/// What is read of a Cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Received")]
pub struct Cluster {
    /// Identity, labels and timestamps of the Cluster itself.
    pub metadata: ObjectMeta,
    /// `spec.shoot.metadata.labels`, kept apart so that policies select a cluster, and report it,
    /// even when the rest of its Shoot cannot be read.
    pub shoot_labels: BTreeMap<String, String>,
    /// The Shoot inside, or why it cannot be read.
    pub shoot: Result<Shoot, Unreadable>,
}

/// What is read of the Shoot in `spec.shoot` (`core.gardener.cloud/v1beta1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shoot {
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.hibernation.enabled`: what is wanted.
    pub hibernation_enabled: bool,
    /// `status.hibernated`: what is.
    pub hibernated: bool,
    /// `spec.provider.workers`.
    pub workers: Vec<Worker>,
    /// `spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod`, as it was written.
    pub node_monitor_grace_period: Option<String>,
    /// `status.lastOperation`; `None` until Gardener has taken up the Shoot.
    pub last_operation: Option<LastOperation>,
    /// Gardenlet has taken up the spec as it is: `status.observedGeneration` is `metadata.generation`, or neither is
    /// there.
    pub taken_up: bool,
}

/// A worker pool of a Shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The pool's name; its nodes carry it in the label `worker.gardener.cloud/pool`.
    pub name: String,
    /// `machineControllerManager.nodeConditions`: the conditions for which a node of this pool is
    /// replaced; empty means the default.
    pub node_conditions: Vec<String>,
    /// Whether `controlPlane` is set: the control plane runs on nodes of this pool.
    pub control_plane: bool,
}

/// The last operation that Gardener ran on a Shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOperation {
    /// `type`: `Create`, `Reconcile`, `Delete`, `Migrate`, `LiveMigrate`, `Restore`, or one of a later
    /// Gardener; empty when it is unset.
    pub kind: String,
    /// `Pending`, `Processing`, `Succeeded`, `Failed`, `Error` or `Aborted`; empty when unset.
    pub state: String,
}

impl fmt::Display for LastOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind.as_str(), self.state.as_str()) {
            ("", "") => f.write_str("unset"),
            ("", state) => write!(f, "of no type, {state}"),
            (kind, "") => f.write_str(kind),
            (kind, state) => write!(f, "{kind} {state}"),
        }
    }
}

/// Why the Shoot in a Cluster cannot be read: the field, and what came instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// The longest reason that is kept, in characters: it ends up in a status, and what came instead
/// may be of any size.
const MAX_REASON: usize = 256;

impl Unreadable {
    pub(crate) fn new(reason: &str) -> Self {
        Self(reason.chars().take(MAX_REASON).collect())
    }
}

/// The labels that policies select a cluster by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLabels {
    cluster: BTreeMap<String, String>,
    /// The Shoot's, overridden by the Cluster's own.
    both: BTreeMap<String, String>,
}

impl ClusterLabels {
    /// Labels of these objects.
    pub fn of(&self, source: LabelSource) -> &BTreeMap<String, String> {
        match source {
            LabelSource::Cluster => &self.cluster,
            LabelSource::ClusterAndShoot => &self.both,
        }
    }
}

impl Cluster {
    /// The labels that policies select by.
    pub fn labels(&self) -> ClusterLabels {
        let cluster = self.metadata.labels.clone().unwrap_or_default();
        let mut both = self.shoot_labels.clone();
        both.extend(cluster.clone());
        ClusterLabels { cluster, both }
    }
}

impl Resource for Cluster {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Cluster".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "extensions.gardener.cloud".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
struct Received {
    metadata: ObjectMeta,
    spec: Option<ReceivedSpec>,
}

/// The Shoot is taken as it comes, however deep, and read by itself: an error in it must not fail the list around it.
#[derive(Default, Deserialize)]
struct ReceivedSpec {
    shoot: Option<Box<RawValue>>,
}

impl From<Received> for Cluster {
    fn from(received: Received) -> Self {
        let shoot = received.spec.unwrap_or_default().shoot;
        let shoot = shoot.as_deref().map(RawValue::get);
        Self {
            // Most of the metadata of a stored object, which would be kept of thousands.
            metadata: ObjectMeta {
                annotations: None,
                managed_fields: None,
                ..received.metadata
            },
            shoot_labels: shoot.map(labels).unwrap_or_default(),
            shoot: match shoot {
                Some(shoot) => read(shoot),
                None => Err(Unreadable::new("spec.shoot is missing")),
            },
        }
    }
}

fn labels(shoot: &str) -> BTreeMap<String, String> {
    let shoot = serde_json::from_str::<wire::Labelled>(shoot).ok();
    let labels = shoot.and_then(|it| it.metadata?.labels);
    labels.unwrap_or_default()
}

fn read(shoot: &str) -> Result<Shoot, Unreadable> {
    let mut shoot = serde_json::Deserializer::from_str(shoot);
    let read = serde_path_to_error::deserialize::<_, wire::Shoot>(&mut shoot);
    read.map(Shoot::from).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => format!(".{path}"),
        };
        let why = error.inner().to_string();
        // Without the line and column: they are of a text that nobody sees.
        let why = why.split(" at line ").next().unwrap_or_default();
        Unreadable::new(&format!("spec.shoot{path}: {why}"))
    })
}

/// The Shoot as it is written. Every field may be absent or null; only another type is an error.
mod wire {
    use super::{BTreeMap, Deserialize, IgnoredAny, Time};

    #[derive(Deserialize)]
    pub(super) struct Labelled {
        pub(super) metadata: Option<Labels>,
    }

    #[derive(Deserialize)]
    pub(super) struct Labels {
        pub(super) labels: Option<BTreeMap<String, String>>,
    }

    #[derive(Deserialize)]
    pub(super) struct Shoot {
        pub(super) metadata: Option<Metadata>,
        pub(super) spec: Option<Spec>,
        pub(super) status: Option<Status>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Metadata {
        pub(super) deletion_timestamp: Option<Time>,
        pub(super) generation: Option<i64>,
    }

    #[derive(Default, Deserialize)]
    pub(super) struct Spec {
        pub(super) hibernation: Option<Hibernation>,
        pub(super) provider: Option<Provider>,
        pub(super) kubernetes: Option<Kubernetes>,
    }

    #[derive(Deserialize)]
    pub(super) struct Hibernation {
        pub(super) enabled: Option<bool>,
    }

    #[derive(Deserialize)]
    pub(super) struct Provider {
        pub(super) workers: Option<Vec<Worker>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Worker {
        pub(super) name: String,
        pub(super) machine_controller_manager: Option<MachineControllerManager>,
        pub(super) control_plane: Option<IgnoredAny>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct MachineControllerManager {
        pub(super) node_conditions: Option<Vec<String>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Kubernetes {
        pub(super) kube_controller_manager: Option<KubeControllerManager>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct KubeControllerManager {
        pub(super) node_monitor_grace_period: Option<String>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Status {
        pub(super) hibernated: Option<bool>,
        pub(super) last_operation: Option<LastOperation>,
        pub(super) observed_generation: Option<i64>,
    }

    #[derive(Deserialize)]
    pub(super) struct LastOperation {
        pub(super) r#type: Option<String>,
        pub(super) state: Option<String>,
    }
}

impl From<wire::Shoot> for Shoot {
    fn from(shoot: wire::Shoot) -> Self {
        let spec = shoot.spec.unwrap_or_default();
        let status = shoot.status.unwrap_or_default();
        let metadata = shoot.metadata.unwrap_or_default();
        let hibernation = spec.hibernation.and_then(|it| it.enabled);
        let workers = spec.provider.and_then(|it| it.workers).unwrap_or_default();
        let last_operation = status.last_operation.map(|it| LastOperation {
            kind: it.r#type.unwrap_or_default(),
            state: it.state.unwrap_or_default(),
        });
        Self {
            deleting: metadata.deletion_timestamp.is_some(),
            hibernation_enabled: hibernation.unwrap_or_default(),
            hibernated: status.hibernated.unwrap_or_default(),
            workers: workers.into_iter().map(Worker::from).collect(),
            node_monitor_grace_period: spec
                .kubernetes
                .and_then(|it| it.kube_controller_manager)
                .and_then(|it| it.node_monitor_grace_period),
            last_operation,
            taken_up: status.observed_generation == metadata.generation,
        }
    }
}

impl From<wire::Worker> for Worker {
    fn from(worker: wire::Worker) -> Self {
        Self {
            name: worker.name,
            node_conditions: worker
                .machine_controller_manager
                .and_then(|it| it.node_conditions)
                .unwrap_or_default(),
            control_plane: worker.control_plane.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;
