//! The resource behind the kind of a dependent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::{
    core::{ApiResource, GroupVersion, GroupVersionKind},
    discovery::{self, Scope},
};

use super::{Failure, ScaleError};
use crate::{
    api::DependentRef,
    prober::plan::Family,
    runtime::seed::{CallError, Seed},
};

const APPS: &str = "apps/v1";
const APPS_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// The resources behind kinds other than those of apps/v1, looked up once for all clusters.
#[derive(Clone, Debug, Default)]
pub struct Resources(Arc<Mutex<HashMap<GroupVersionKind, ApiResource>>>);

impl Resources {
    /// The resource behind a dependent's kind, looked up on this seed unless it is known.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or cannot be scaled.
    pub(crate) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
    ) -> Result<(Family, ApiResource), ScaleError> {
        let version: GroupVersion = dependent
            .api_version
            .parse()
            .map_err(|error| ScaleError::UnknownKind(format!("{error}")))?;
        let kind = version.with_kind(&dependent.kind);
        if dependent.api_version == APPS && APPS_KINDS.contains(&&*dependent.kind) {
            return Ok((Family::Apps, ApiResource::from_gvk(&kind)));
        }
        if let Some(resource) = self.get(&kind) {
            return Ok((Family::Scalable, resource));
        }
        let looked_up = discovery::pinned_kind(seed.client(), &kind);
        let looked_up = seed.call(looked_up).await.map_err(Failure::Call);
        let (resource, capabilities) = match looked_up {
            Err(Failure::Call(CallError::Failed(error @ kube::Error::Discovery(_)))) => {
                return Err(ScaleError::UnknownKind(error.to_string()));
            }
            Err(failure) if failure.code() == Some(404) => {
                return Err(ScaleError::UnknownKind(dependent.api_version.clone()));
            }
            other => other.map_err(|failure| failure.explain("discovery"))?,
        };
        if capabilities.scope == Scope::Cluster {
            return Err(ScaleError::NotScalable("the kind is cluster-scoped"));
        }
        let scale = format!("{}/scale", resource.plural);
        let scalable = capabilities
            .subresources
            .iter()
            .any(|(subresource, _)| subresource.plural == "scale" || subresource.plural == scale);
        if !scalable {
            return Err(ScaleError::NotScalable("the kind has no scale subresource"));
        }
        self.put(kind, resource.clone());
        Ok((Family::Scalable, resource))
    }

    fn get(&self, kind: &GroupVersionKind) -> Option<ApiResource> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(kind).cloned()
    }

    fn put(&self, kind: GroupVersionKind, resource: ApiResource) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind, resource);
    }
}
