//! A slim view of `Cluster` (`extensions.gardener.cloud/v1alpha1`) and of the Shoot inside it.
//!
//! A Cluster describes one hosted control plane; the namespace of its name holds it. It embeds the
//! CloudProfile, the Seed and the Shoot, hundreds of kilobytes of which a few fields matter: the
//! rest is dropped while decoding. The embedded objects have no schema on the seed, so a Shoot that
//! cannot be read is a value and not an error: one odd Cluster must not hide the others of the same
//! list.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    ClusterResourceScope, Metadata, Resource,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::api::LabelSource;

/// A Cluster, as far as it is read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Received")]
pub struct Cluster {
    /// Identity, labels and timestamps of the Cluster itself.
    pub metadata: ObjectMeta,
    /// `spec.shoot.metadata.labels`, kept apart so that policies select a cluster, and report it,
    /// even when the rest of its Shoot cannot be read.
    pub shoot_labels: BTreeMap<String, String>,
    /// The Shoot inside, or why it cannot be read: the field, and what came instead.
    pub shoot: Result<Shoot, String>,
}

/// The Shoot in `spec.shoot` (`core.gardener.cloud/v1beta1`), as far as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Shoot {
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.hibernation.enabled`: what is wanted.
    pub hibernation_enabled: bool,
    /// `status.hibernated`: what is.
    pub hibernated: bool,
    /// `spec.provider.workers`.
    pub workers: Vec<Worker>,
    /// `spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod`, as it was written.
    pub node_monitor_grace_period: Option<String>,
    /// `status.lastOperation.type`: `Create`, `Reconcile`, `Delete`, `Migrate`, `LiveMigrate`, `Restore`, or one of a
    /// later Gardener; empty until Gardener has taken up the Shoot.
    pub operation: String,
    /// `status.lastOperation.state`: `Pending`, `Processing`, `Succeeded`, `Failed`, `Error` or `Aborted`; empty when
    /// it is unset.
    pub operation_state: String,
    /// Gardenlet has taken up the spec as it is: `status.observedGeneration` is `metadata.generation`, or neither is
    /// there.
    pub taken_up: bool,
}

/// A worker pool of a Shoot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Name of the pool; its nodes carry it in the label `worker.gardener.cloud/pool`.
    pub name: String,
    /// Settings of the pool's machines.
    pub machine_controller_manager: Option<MachineSettings>,
    /// Set if the control plane runs on nodes of this pool.
    pub control_plane: Option<IgnoredAny>,
}

/// Settings of the machines of a worker pool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSettings {
    /// Conditions for which a node of this pool is replaced; without any, the default ones.
    pub node_conditions: Option<Vec<String>>,
}

/// The longest reason why a Shoot cannot be read that is kept, in characters: it ends up in a status, and what came
/// instead may be of any size.
const MAX_REASON: usize = 256;

impl Cluster {
    /// The labels that policies select by: those of these objects.
    pub fn labels(&self, source: LabelSource) -> BTreeMap<String, String> {
        let mut labels = match source {
            LabelSource::Cluster => BTreeMap::new(),
            // Overridden by the Cluster's own.
            LabelSource::ClusterAndShoot => self.shoot_labels.clone(),
        };
        labels.extend(self.metadata.labels.clone().unwrap_or_default());
        labels
    }
}

impl Resource for Cluster {
    const API_VERSION: &'static str = "extensions.gardener.cloud/v1alpha1";
    const GROUP: &'static str = "extensions.gardener.cloud";
    const KIND: &'static str = "Cluster";
    const VERSION: &'static str = "v1alpha1";
    const URL_PATH_SEGMENT: &'static str = "clusters";
    type Scope = ClusterResourceScope;
}

impl Metadata for Cluster {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
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
        let labels = shoot.as_ref().map(|shoot| field(shoot, "metadata.labels"));
        let missing = || "spec.shoot is missing".to_owned();
        Self {
            shoot_labels: labels.and_then(Result::ok).flatten().unwrap_or_default(),
            shoot: shoot.ok_or_else(missing).and_then(|it| Shoot::read(&it)),
            // Most of the metadata of a stored object, which would be kept of thousands.
            metadata: ObjectMeta {
                annotations: None,
                managed_fields: None,
                ..received.metadata
            },
        }
    }
}

/// Reads a field of a Shoot by its path: `None` if it, or an object on the way, is absent or null; only another type is
/// an error.
fn field<'a, T: Deserialize<'a>>(shoot: &'a RawValue, path: &str) -> Result<Option<T>, String> {
    let (mut value, mut place) = (shoot, "spec.shoot".to_owned());
    for name in path.split('.') {
        let fields: Option<BTreeMap<Cow<'_, str>, &RawValue>> = read(&place, value)?;
        let Some(within) = fields.and_then(|mut fields| fields.remove(name)) else {
            return Ok(None);
        };
        value = within;
        place = format!("{place}.{name}");
    }
    read(&place, value)
}

fn read<'a, T: Deserialize<'a>>(place: &str, value: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(value.get()).map_err(|error| {
        let why = error.to_string();
        // Without the line and column: they are of a text that nobody sees.
        let why = why.split(" at line ").next().unwrap_or_default();
        format!("{place}: {why}").chars().take(MAX_REASON).collect()
    })
}

impl Shoot {
    fn read(shoot: &RawValue) -> Result<Self, String> {
        let grace = "spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod";
        Ok(Self {
            deleting: field::<Time>(shoot, "metadata.deletionTimestamp")?.is_some(),
            hibernation_enabled: field(shoot, "spec.hibernation.enabled")? == Some(true),
            hibernated: field(shoot, "status.hibernated")? == Some(true),
            workers: field(shoot, "spec.provider.workers")?.unwrap_or_default(),
            node_monitor_grace_period: field(shoot, grace)?,
            operation: field(shoot, "status.lastOperation.type")?.unwrap_or_default(),
            operation_state: field(shoot, "status.lastOperation.state")?.unwrap_or_default(),
            taken_up: field::<i64>(shoot, "status.observedGeneration")?
                == field(shoot, "metadata.generation")?,
        })
    }
}

#[cfg(test)]
mod tests;
