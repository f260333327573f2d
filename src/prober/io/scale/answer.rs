//! Turns answers of the seed into observed dependents.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use crate::{
    prober::step::{Family, IGNORE, MARK, Observed, RECORD, Record},
    util::text::parse_bool,
};

/// A workload of apps/v1, or the metadata of an object of another kind.
#[derive(Deserialize)]
pub(super) struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Replicas,
    #[serde(default)]
    status: WorkloadStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    generation: i64,
    resource_version: String,
    uid: Option<String>,
}

#[derive(Default, Deserialize)]
struct Replicas {
    replicas: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkloadStatus {
    observed_generation: i64,
    replicas: i32,
    ready_replicas: i32,
}

/// A Scale.
#[derive(Default, Deserialize)]
pub(super) struct Scale {
    #[serde(default)]
    metadata: ScaleMetadata,
    #[serde(default)]
    spec: Replicas,
    #[serde(default)]
    status: Replicas,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScaleMetadata {
    /// resourceVersion of the object.
    resource_version: Option<String>,
}

impl Scale {
    /// Returns whether it is known to be of another version of the object.
    pub(super) fn is_of_another_version(&self, object: &Object) -> bool {
        let version = self.metadata.resource_version.as_ref();
        version.is_some_and(|version| *version != object.metadata.resource_version)
    }
}

impl Object {
    /// Observes a workload.
    pub(super) fn workload(self) -> Observed {
        let status = &self.status;
        let current = status.observed_generation >= self.metadata.generation;
        let any_left = !current || status.replicas > 0;
        let running = current && status.ready_replicas > 0;
        // The API server's default.
        let replicas = self.spec.replicas.unwrap_or(1);
        self.observed(Family::Apps, replicas, any_left, running)
    }

    /// Observes an object of any other kind by its Scale.
    pub(super) fn scalable(self, scale: &Scale) -> Observed {
        let present = scale.status.replicas.unwrap_or(0) > 0;
        // A Scale of zero replicas lacks the field.
        let replicas = scale.spec.replicas.unwrap_or(0);
        self.observed(Family::Scalable, replicas, present, present)
    }

    fn observed(self, family: Family, replicas: i32, any_left: bool, running: bool) -> Observed {
        let annotation = |name| self.metadata.annotations.get(name).map(String::as_str);
        Observed {
            family,
            uid: self.metadata.uid.as_deref().map(Arc::from),
            replicas,
            marked: annotation(MARK).is_some(),
            record: Record::parse(annotation(RECORD)),
            ignored: annotation(IGNORE).and_then(parse_bool) == Some(true),
            any_left,
            running,
            resource_version: self.metadata.resource_version.clone(),
        }
    }
}
