//! The requests that write statuses, and the finalizer of policies. Events go by a way of their own.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    object::{Kind, Status, Weight},
    undeclared,
};
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

/// Set once it was logged that the definitions are older than the operator.
static OUTDATED: AtomicBool = AtomicBool::new(false);

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

/// Applies the status of an object, and returns its UID. Fields that the stored definition does not declare
/// are left out, at the price of a second request.
async fn write_status<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
    status: &impl Serialize,
) -> Applied {
    let mut fields = json!({"metadata": {"name": name}, "status": status});
    let send = |fields: Value| apply::<K>(seed, name, FIELD_MANAGER, Some("status"), fields);
    let refusal = match send(fields.clone()).await {
        Err(WriteError::Call(CallError::Refused(refusal))) => refusal,
        answer => return answer.map(|it| it.uid),
    };
    let mut paths = undeclared::paths(&refusal);
    paths.retain(|path| undeclared::remove(&mut fields, path));
    let kind = K::kind(&());
    if paths.is_empty() {
        let error = CallError::Refused(refusal);
        return Err(match error.code() {
            Some(422) => WriteError::Outdated {
                kind: kind.into_owned(),
                error,
            },
            _ => error.into(),
        });
    }
    let written = send(fields).await?;
    let fields = paths.join(", ");
    // Each status meets the same. Once suffices for those who read logs.
    if OUTDATED.swap(true, Ordering::Relaxed) {
        tracing::debug!(%kind, name, fields, "wrote the status without these fields");
    } else {
        tracing::warn!(
            %kind, name, fields,
            "wrote the status without fields that the CustomResourceDefinition does not declare: it is older \
             than this operator, so apply crds/ of the operator's version; the same is not logged again"
        );
    }
    Ok(written.uid)
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
    apply::<ClusterHealth>(seed, name, FIELD_MANAGER, None, fields).await?;
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
    let answer = apply::<ProbePolicy>(seed, name, FINALIZER_MANAGER, None, fields).await?;
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

/// Applies these fields of an object, or of a subresource of it, and returns the metadata in the answer.
/// Anything else that can be read is no proof that the object was written.
async fn apply<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
    manager: &str,
    subresource: Option<&str>,
    fields: Value,
) -> Result<ObjectMeta, WriteError> {
    let kind = K::kind(&());
    let mut patch = json!({"apiVersion": K::api_version(&()), "kind": kind});
    if let (Value::Object(patch), Value::Object(fields)) = (&mut patch, fields) {
        patch.extend(fields);
    }
    let params = PatchParams::apply(manager).force();
    let (api, patch) = (seed.objects::<K>(), Patch::Apply(patch));
    let answer = match subresource {
        Some(part) => {
            seed.call(api.patch_subresource(part, name, &params, &patch))
                .await?
        }
        None => seed.call(api.patch(name, &params, &patch)).await?,
    };
    match answer.types {
        Some(types) if types.kind == kind => Ok(answer.metadata),
        _ => Err(WriteError::Unproven(kind.into_owned())),
    }
}
