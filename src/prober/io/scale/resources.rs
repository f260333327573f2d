//! The resource behind the kind of a dependent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use kube::{
    core::{ApiResource, GroupVersion, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};
use tokio::time::Instant;

use super::{ScaleError, explain};
use crate::{
    api::DependentRef,
    prober::{scale_error::REFUSED, step::Family},
    runtime::seed::Seed,
};

const APPS: &str = "apps/v1";
const APPS_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// The resource behind a dependent that is a workload of apps/v1, whose plural needs no lookup.
pub(crate) fn workload(dependent: &DependentRef) -> Option<ApiResource> {
    let is_one = dependent.api_version == APPS && APPS_KINDS.contains(&&*dependent.kind);
    let kind = GroupVersionKind::gvk("apps", "v1", &dependent.kind);
    is_one.then(|| ApiResource::from_gvk(&kind))
}

/// The resources behind kinds other than those of apps/v1, each looked up once for all clusters.
#[derive(Clone, Default)]
pub(super) struct Resources(Arc<Mutex<HashMap<GroupVersionKind, (Instant, Lookup)>>>);

/// A lookup, and when it began. All that ask meanwhile share its answer: one after the other, each would fail too
/// late.
type Lookup = Shared<BoxFuture<'static, Result<ApiResource, ScaleError>>>;

impl Resources {
    /// The resource behind a dependent's kind, looked up on this seed unless it is known.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or there can be no such dependent.
    pub(super) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
    ) -> Result<(Family, ApiResource), ScaleError> {
        let kind = kind(dependent).ok_or_else(|| ScaleError::UnknownKind(dependent.to_string()))?;
        match workload(dependent) {
            Some(resource) => Ok((Family::Apps, resource)),
            None => Ok((Family::Scalable, self.lookup(seed, kind).await?)),
        }
    }

    /// Has this kind looked up anew, unless that was done just before.
    pub(super) fn forget(&self, dependent: &DependentRef) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kind(dependent);
        known.retain(|it, (began, _)| kind.as_ref() != Some(it) || began.elapsed() < REFUSED);
    }

    fn lookup(&self, seed: &Seed, kind: GroupVersionKind) -> Lookup {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = |(began, lookup): &&(Instant, Lookup)| match lookup.peek() {
            Some(Err(error)) => error.is_about_the_kind() && began.elapsed() < REFUSED,
            _ => true,
        };
        if let Some((_, lookup)) = known.get(&kind).filter(stands) {
            return lookup.clone();
        }
        // Callers that act may wait for it.
        let lookup = look_up(seed.acting(), kind.clone()).boxed().shared();
        known.insert(kind, (Instant::now(), lookup.clone()));
        lookup
    }
}

/// The kind of a dependent; `None` if its texts, which become a path and may come from a status, are none.
fn kind(dependent: &DependentRef) -> Option<GroupVersionKind> {
    let valid = Some(dependent).filter(|it| it.is_valid())?;
    let version: GroupVersion = valid.api_version.parse().ok()?;
    Some(version.with_kind(&dependent.kind))
}

async fn look_up(seed: Seed, kind: GroupVersionKind) -> Result<ApiResource, ScaleError> {
    seed.turn().await;
    let found = seed.call_at_turn(async {
        match pinned_kind(seed.client(), &kind).await {
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            found => found.map(Some),
        }
    });
    let found = found.await;
    let found = found.map_err(|error| explain(error, "discovery"))?;
    let Some((resource, capabilities)) = found else {
        let (version, kind) = (kind.api_version(), &kind.kind);
        return Err(ScaleError::UnknownKind(format!("{version} {kind}")));
    };
    if capabilities.scope == Scope::Cluster {
        return Err(ScaleError::ClusterScoped);
    }
    let scale = format!("{}/scale", resource.plural);
    let mut subresources = capabilities.subresources.iter();
    match subresources.any(|(it, _)| it.plural == "scale" || it.plural == scale) {
        true => Ok(resource),
        false => Err(ScaleError::NotScalable),
    }
}
