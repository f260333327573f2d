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

/// A Cluster, as far as it is read.
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

/// The Shoot in `spec.shoot` (`core.gardener.cloud/v1beta1`), as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// `controlPlane` is set: the control plane runs on nodes of this pool.
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
        let shown = format!("{} {}", self.kind, self.state);
        match shown.trim() {
            "" => f.write_str("unset"),
            shown => f.write_str(shown),
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
        let shoot = match &shoot {
            Some(shoot) => Fields::of("spec.shoot".to_owned(), shoot),
            None => Err(Unreadable::new("spec.shoot is missing")),
        };
        let labels = shoot.as_ref().ok().and_then(|shoot| {
            let metadata = shoot.within("metadata").ok()?;
            metadata.get("labels").ok()?
        });
        Self {
            shoot_labels: labels.unwrap_or_default(),
            shoot: shoot.and_then(|shoot| Shoot::read(&shoot)),
            // Most of the metadata of a stored object, which would be kept of thousands.
            metadata: ObjectMeta {
                annotations: None,
                managed_fields: None,
                ..received.metadata
            },
        }
    }
}

/// The fields of an object of a Shoot, of which none is read yet. Each may be absent or null; only another type is an
/// error.
#[derive(Default)]
struct Fields<'a> {
    path: String,
    values: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Fields<'a> {
    fn of(path: String, object: &'a RawValue) -> Result<Self, Unreadable> {
        let values = read(&path, object)?;
        Ok(Self { path, values })
    }

    fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn get<T: Deserialize<'a>>(&self, field: &str) -> Result<Option<T>, Unreadable> {
        let value = self.values.get(field);
        value.map_or(Ok(None), |value| read(&self.path(field), value))
    }

    fn object(&self, field: &str) -> Result<Option<Self>, Unreadable> {
        let object = self.get(field)?;
        object
            .map(|object| Self::of(self.path(field), object))
            .transpose()
    }

    /// The fields of the object in this field; none if that is absent.
    fn within(&self, field: &str) -> Result<Self, Unreadable> {
        Ok(self.object(field)?.unwrap_or_default())
    }
}

fn read<'a, T: Deserialize<'a>>(path: &str, value: &'a RawValue) -> Result<T, Unreadable> {
    serde_json::from_str(value.get()).map_err(|error| {
        let why = error.to_string();
        // Without the line and column: they are of a text that nobody sees.
        let why = why.split(" at line ").next().unwrap_or_default();
        Unreadable::new(&format!("{path}: {why}"))
    })
}

impl Shoot {
    fn read(shoot: &Fields<'_>) -> Result<Self, Unreadable> {
        let metadata = shoot.within("metadata")?;
        let spec = shoot.within("spec")?;
        let status = shoot.within("status")?;
        let provider = spec.within("provider")?;
        let workers: Vec<&RawValue> = provider.get("workers")?.unwrap_or_default();
        let workers = workers.into_iter().enumerate();
        let manager = spec.within("kubernetes")?.within("kubeControllerManager")?;
        let generation: Option<i64> = metadata.get("generation")?;
        Ok(Self {
            deleting: metadata.get::<Time>("deletionTimestamp")?.is_some(),
            hibernation_enabled: spec.within("hibernation")?.get("enabled")? == Some(true),
            hibernated: status.get("hibernated")? == Some(true),
            workers: workers
                .map(|(at, worker)| {
                    let path = format!("{}[{at}]", provider.path("workers"));
                    Worker::read(&Fields::of(path, worker)?)
                })
                .collect::<Result<_, _>>()?,
            node_monitor_grace_period: manager.get("nodeMonitorGracePeriod")?,
            last_operation: match status.object("lastOperation")? {
                Some(operation) => Some(LastOperation {
                    kind: operation.get("type")?.unwrap_or_default(),
                    state: operation.get("state")?.unwrap_or_default(),
                }),
                None => None,
            },
            taken_up: status.get("observedGeneration")? == generation,
        })
    }
}

impl Worker {
    fn read(worker: &Fields<'_>) -> Result<Self, Unreadable> {
        let name = worker.get("name")?;
        let conditions = worker
            .within("machineControllerManager")?
            .get("nodeConditions")?;
        Ok(Self {
            name: name.ok_or_else(|| Unreadable::new(&format!("{}: no name", worker.path)))?,
            node_conditions: conditions.unwrap_or_default(),
            control_plane: worker.get::<IgnoredAny>("controlPlane")?.is_some(),
        })
    }
}

#[cfg(test)]
mod tests;
