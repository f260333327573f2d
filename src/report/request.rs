//! The requests that write statuses, and the finalizer of policies. Events go by a way of their own.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::object::{Kind, Status, Weight};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, FINALIZER, ProbePolicy, WeedPolicy},
    gardener::Cluster,
    runtime::seed::{CallError, FIELD_MANAGER, Seed},
};

/// Under this name the operator owns the finalizer, and nothing else, so that it can be taken off
/// without a word about the other fields that the operator owns.
const FINALIZER_MANAGER: &str = "dependency-watchdog-finalizer";

/// The recommended labels that each ClusterHealth has. A label cannot hold the name of every policy, which may
/// be longer than 63 characters: policies are selected by field.
const NAME: &str = "app.kubernetes.io/name";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The request came to nothing.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer is no proof that anything was written.
    #[error("the seed answered with something else than a {0}")]
    Unproven(String),
    /// The definition of the kind refuses a value.
    #[error(
        "{error}; if the CustomResourceDefinition of {kind} is older than this operator, apply crds/ of the \
         operator's version"
    )]
    Outdated {
        /// The kind.
        kind: String,
        /// The refusal.
        error: CallError,
    },
    /// The finalizer was taken off, and is still there.
    #[error(
        "the finalizer {FINALIZER} stays, since another field manager owns it too: take it out of \
         what is applied by that one, or edit it away"
    )]
    Shared,
}

/// The UID of an object whose status was written.
pub(super) type Applied = Result<Option<String>, WriteError>;

impl WriteError {
    /// Returns whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Call(error) if error.code() == Some(404))
    }
}

/// A write of one object.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// UID of the policy, or of the Cluster that is to own the ClusterHealth.
    pub(super) uid: Arc<str>,
    /// `None` deletes the ClusterHealth.
    pub(super) status: Option<Status>,
    /// True if the ClusterHealth is there, and owned by its Cluster.
    pub(super) established: bool,
    /// Weight of what is new.
    pub(super) weight: Option<Weight>,
}

impl Write {
    /// Carries it out, and returns the UID of the object.
    pub(super) async fn carry_out(&self, seed: &Seed) -> Applied {
        let (name, uid) = (&*self.name, &*self.uid);
        match &self.status {
            None => delete(seed, name).await.map(|()| None),
            Some(Status::Cluster(status)) => {
                write_health(seed, name, uid, self.established, status).await
            }
            Some(Status::Probe(status)) => write_status::<ProbePolicy>(seed, name, status).await,
            Some(Status::Weed(status)) => write_status::<WeedPolicy>(seed, name, status).await,
            Some(Status::Finalizer(on)) => {
                let set = set_finalizer(seed, name, uid, *on).await;
                set.map(|()| None)
            }
        }
    }
}

/// Says that a write failed; what is tried again and again is told once.
pub(super) fn complain(write: &Write, again: bool, error: &WriteError) {
    let (kind, name) = (write.kind.name(), &*write.name);
    let tried = match write.status {
        None => "delete",
        Some(Status::Finalizer(true)) => "put the finalizer on",
        Some(Status::Finalizer(false)) => "take the finalizer off",
        Some(_) => "write the status of",
    };
    if again {
        tracing::debug!(kind, name, %error, "could still not {tried} it");
    } else {
        tracing::warn!(kind, name, %error, "could not {tried} it; that is tried again");
    }
}

/// Writes the status of an object in place of what was there, and returns its UID. The API server leaves fields out that
/// the stored definition does not declare: what is marked and owed is not lost to an upgrade in the wrong order.
async fn write_status<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
    status: &impl Serialize,
) -> Applied {
    let operation = json!([{"op": "add", "path": "/status", "value": status}]);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let api = seed.objects::<K>();
    let written = async {
        let patch = serde_json::from_value(operation).map_err(kube::Error::SerdeError)?;
        let patch = Patch::Json::<()>(patch);
        api.patch_subresource("status", name, &params, &patch).await
    };
    match seed.call(written).await {
        Err(error) if error.code() == Some(422) => Err(WriteError::Outdated {
            kind: K::kind(&()).into_owned(),
            error,
        }),
        answer => proven::<K>(answer?).map(|it| it.uid),
    }
}

/// Writes the status of a ClusterHealth, which is created first, and given this Cluster as its owner, unless
/// that is done.
async fn write_health(
    seed: &Seed,
    name: &str,
    uid: &str,
    established: bool,
    status: &ClusterHealthStatus,
) -> Applied {
    if !established {
        establish(seed, name, uid).await?;
    }
    let written = write_status::<ClusterHealth>(seed, name, status).await;
    if !written.as_ref().is_err_and(WriteError::is_not_found) {
        return written;
    }
    // Somebody has just deleted it.
    establish(seed, name, uid).await?;
    write_status::<ClusterHealth>(seed, name, status).await
}

/// Creates the ClusterHealth of a Cluster with this UID, or makes that Cluster its owner.
async fn establish(seed: &Seed, name: &str, uid: &str) -> Result<(), WriteError> {
    let (version, kind) = (Cluster::api_version(&()), Cluster::kind(&()));
    let owner = json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid});
    let labels = json!({NAME: FIELD_MANAGER, MANAGED_BY: FIELD_MANAGER});
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
    let fields = json!({"metadata": metadata, "spec": {}});
    apply::<ClusterHealth>(seed, name, FIELD_MANAGER, fields).await?;
    Ok(())
}

/// Puts the finalizer on the policy with this UID, or takes it off; those of others stay. A policy
/// that is gone is not created anew: the API server refuses a UID that is not there.
///
/// # Errors
///
/// If it cannot be written, or stays since somebody else has put it on too.
pub async fn set_finalizer(seed: &Seed, name: &str, uid: &str, on: bool) -> Result<(), WriteError> {
    let metadata = match on {
        true => json!({"name": name, "uid": uid, "finalizers": [FINALIZER]}),
        false => json!({"name": name, "uid": uid}),
    };
    let fields = json!({"metadata": metadata});
    let answer = apply::<ProbePolicy>(seed, name, FINALIZER_MANAGER, fields).await?;
    let mut there = answer.finalizers.iter().flatten();
    if !on && there.any(|finalizer| finalizer == FINALIZER) {
        return Err(WriteError::Shared);
    }
    Ok(())
}

/// Deletes a ClusterHealth, if it is there.
async fn delete(seed: &Seed, name: &str) -> Result<(), WriteError> {
    let api = seed.objects::<ClusterHealth>();
    let deleted = seed.call(api.delete(name, &DeleteParams::default())).await;
    match deleted.map_err(WriteError::from) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Applies these fields of an object, and returns the metadata in the answer.
async fn apply<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
    manager: &str,
    fields: Value,
) -> Result<ObjectMeta, WriteError> {
    let mut patch = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&())});
    if let (Value::Object(patch), Value::Object(fields)) = (&mut patch, fields) {
        patch.extend(fields);
    }
    let params = PatchParams::apply(manager).force();
    let (api, patch) = (seed.objects::<K>(), Patch::Apply(patch));
    proven::<K>(seed.call(api.patch(name, &params, &patch)).await?)
}

/// Returns the metadata in the answer to a write. Anything else that can be read is no proof that the object was written.
fn proven<K: Resource<DynamicType = ()>>(answer: DynamicObject) -> Result<ObjectMeta, WriteError> {
    let kind = K::kind(&());
    match answer.types {
        Some(types) if types.kind == kind => Ok(answer.metadata),
        _ => Err(WriteError::Unproven(kind.into_owned())),
    }
}
