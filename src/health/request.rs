//! The requests that write statuses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    api::ClusterHealth,
    gardener::Cluster,
    runtime::seed::{CallError, FIELD_MANAGER, Seed},
};

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The request came to nothing.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer is no proof that anything was written.
    #[error("the seed answered with something else than a {0}")]
    Unproven(String),
}

impl WriteError {
    /// Whether the object is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Call(error) if error.code() == Some(404))
    }
}

/// Applies the status of an object.
pub(super) async fn write_status<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
    status: &impl Serialize,
) -> Result<(), WriteError> {
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let api = objects::<K>(seed);
    let answer = seed
        .call(api.patch_status(name, &params, &Patch::Apply(patch)))
        .await?;
    written::<K>(&answer)
}

/// Creates the ClusterHealth of a Cluster with this UID.
pub(super) async fn create(seed: &Seed, name: &str, uid: &str) -> Result<(), WriteError> {
    let owner = OwnerReference {
        api_version: Cluster::api_version(&()).into_owned(),
        kind: Cluster::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let patch = json!({
        "apiVersion": ClusterHealth::api_version(&()),
        "kind": ClusterHealth::kind(&()),
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {},
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let api = objects::<ClusterHealth>(seed);
    let answer = seed
        .call(api.patch(name, &params, &Patch::Apply(patch)))
        .await?;
    written::<ClusterHealth>(&answer)
}

/// Deletes a ClusterHealth.
pub(super) async fn delete(seed: &Seed, name: &str) -> Result<(), WriteError> {
    let api = objects::<ClusterHealth>(seed);
    seed.call(api.delete(name, &DeleteParams::default()))
        .await?;
    Ok(())
}

/// Whether the answer is the object that was written: anything else that can be read is no proof
/// that it was.
fn written<K: Resource<DynamicType = ()>>(answer: &DynamicObject) -> Result<(), WriteError> {
    let kind = K::kind(&());
    match &answer.types {
        Some(types) if types.kind == kind => Ok(()),
        _ => Err(WriteError::Unproven(kind.into_owned())),
    }
}

/// Objects of a kind, undecoded: of what the server answers, only the kind is needed.
fn objects<K: Resource<DynamicType = ()>>(seed: &Seed) -> Api<DynamicObject> {
    Api::all_with(seed.client().clone(), &ApiResource::erase::<K>(&()))
}
