//! Turns answers of the seed into observed dependents.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::PartialObjectMeta;
use serde::Deserialize;

use crate::{
    prober::step::{Family, IGNORE, MARK, Observed, RECORD, Record},
    util::text::parse_bool,
};

/// A workload of apps/v1.
#[derive(Deserialize)]
pub(super) struct Workload {
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
    /// That of the object.
    resource_version: Option<String>,
}

impl Scale {
    /// Whether it is known to be of another version of the object.
    pub(super) fn is_of_another_version(&self, object: &PartialObjectMeta) -> bool {
        let versions = self.metadata.resource_version.as_ref();
        let versions = versions.zip(object.metadata.resource_version.as_ref());
        versions.is_some_and(|(scale, object)| scale != object)
    }
}

/// What a workload says of itself.
pub(super) fn observed_workload(object: Workload) -> Observed {
    let current = object.status.observed_generation >= object.metadata.generation;
    let annotations = &object.metadata.annotations;
    Observed {
        family: Family::Apps,
        uid: object.metadata.uid.as_deref().map(Arc::from),
        // The API server's default.
        replicas: object.spec.replicas.unwrap_or(1),
        marked: annotations.contains_key(MARK),
        record: Record::parse(annotations.get(RECORD).map(String::as_str)),
        ignored: ignored(annotations),
        any_left: !current || object.status.replicas > 0,
        running: current && object.status.ready_replicas > 0,
        resource_version: object.metadata.resource_version,
    }
}

/// What an object of any other kind, and its Scale, say.
pub(super) fn observed_scalable(object: PartialObjectMeta, scale: &Scale) -> Observed {
    let annotations = object.metadata.annotations.unwrap_or_default();
    let present = scale.status.replicas.unwrap_or(0) > 0;
    Observed {
        family: Family::Scalable,
        uid: object.metadata.uid.as_deref().map(Arc::from),
        // A Scale of zero replicas lacks the field.
        replicas: scale.spec.replicas.unwrap_or(0),
        marked: annotations.contains_key(MARK),
        record: Record::parse(annotations.get(RECORD).map(String::as_str)),
        ignored: ignored(&annotations),
        any_left: present,
        running: present,
        resource_version: object.metadata.resource_version.unwrap_or_default(),
    }
}

fn ignored(annotations: &BTreeMap<String, String>) -> bool {
    annotations
        .get(IGNORE)
        .and_then(|text| parse_bool(text))
        .unwrap_or(false)
}
