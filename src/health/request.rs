//! The requests that write statuses.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;
use tokio::time::timeout;

use crate::{api::ClusterHealth, gardener::Cluster};

/// The field manager of every status.
const FIELD_MANAGER: &str = "dependency-watchdog";
/// The time that one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The object is not there.
    #[error("it does not exist")]
    NotFound,
    /// It failed.
    #[error("the seed answered {0}")]
    Api(String),
    /// No answer in time.
    #[error("the seed did not answer within {REQUEST_LIMIT:?}")]
    Late,
}

/// Applies the status of an object.
pub(super) async fn write_status<K: Resource<DynamicType = ()>>(
    client: &Client,
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
    let api = objects::<K>(client);
    let answer = limited(api.patch_status(name, &params, &Patch::Apply(patch))).await?;
    written::<K>(&answer)
}

/// Creates the ClusterHealth of a Cluster with this UID.
pub(super) async fn create(client: &Client, name: &str, uid: &str) -> Result<(), WriteError> {
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
    let api = objects::<ClusterHealth>(client);
    let answer = limited(api.patch(name, &params, &Patch::Apply(patch))).await?;
    written::<ClusterHealth>(&answer)
}

/// Deletes a ClusterHealth.
pub(super) async fn delete(client: &Client, name: &str) -> Result<(), WriteError> {
    let api = objects::<ClusterHealth>(client);
    limited(api.delete(name, &DeleteParams::default()))
        .await
        .map(drop)
}

/// Whether the answer is the object that was written: anything else that can be read is no proof
/// that it was.
fn written<K: Resource<DynamicType = ()>>(answer: &DynamicObject) -> Result<(), WriteError> {
    let kind = K::kind(&());
    match &answer.types {
        Some(types) if types.kind == kind => Ok(()),
        _ => Err(WriteError::Api(format!(
            "with something else than a {kind}"
        ))),
    }
}

/// Objects of a kind, undecoded: of what the server answers, only the kind is needed.
fn objects<K: Resource<DynamicType = ()>>(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<K>(&()))
}

async fn limited<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
    match timeout(REQUEST_LIMIT, request).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(WriteError::NotFound),
        Ok(Err(kube::Error::Api(status))) => Err(WriteError::Api(format!(
            "{}: {}",
            status.code, status.message
        ))),
        Ok(Err(error)) => Err(WriteError::Api(error.to_string())),
        Err(_) => Err(WriteError::Late),
    }
}
