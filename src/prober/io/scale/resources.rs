//! The resource behind the kind of a dependent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use kube::{
    core::{ApiResource, GroupVersion, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};
use tokio::time::Instant;

use super::{Failure, ScaleError};
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

/// The resources behind kinds other than those of apps/v1, looked up once for all clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources(Arc<Mutex<HashMap<GroupVersionKind, Cell>>>);

/// Locked during a lookup, so that other callers wait for the same answer, which came then.
type Cell = Arc<tokio::sync::Mutex<Option<(Result<ApiResource, ScaleError>, Instant)>>>;

impl Resources {
    /// The resource behind a dependent's kind, looked up on this seed unless it is known; `again` if the seed did not
    /// serve it where it was found, unless that was just before.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or there can be no such dependent.
    pub(super) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
        again: bool,
    ) -> Result<(Family, ApiResource), ScaleError> {
        let kind = kind(dependent).ok_or_else(|| ScaleError::UnknownKind(dependent.to_string()))?;
        if let Some(resource) = workload(dependent) {
            return Ok((Family::Apps, resource));
        }
        let asked = Instant::now();
        let cell = self.cell(&kind);
        let mut known = cell.lock().await;
        // Whoever waited for a lookup that failed shares its failure: one after the other, each would fail too late.
        let stands = |(answer, at): &&(Result<_, ScaleError>, Instant)| match answer {
            Ok(_) => !again || at.elapsed() < REFUSED,
            Err(error) if error.is_about_the_kind() => at.elapsed() < REFUSED,
            Err(_) => asked <= *at,
        };
        let answer = match known.as_ref().filter(stands) {
            Some((answer, _)) => answer.clone(),
            None => {
                // Callers that act may wait for it.
                let answer = look_up(&seed.acting(), &kind).await;
                *known = Some((answer.clone(), Instant::now()));
                answer
            }
        };
        Ok((Family::Scalable, answer?))
    }

    fn cell(&self, kind: &GroupVersionKind) -> Cell {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(kind.clone()).or_default().clone()
    }
}

/// The kind of a dependent; `None` if its texts, which become a path and may come from a status, are none.
fn kind(dependent: &DependentRef) -> Option<GroupVersionKind> {
    let valid = Some(dependent).filter(|it| it.is_valid())?;
    let version: GroupVersion = valid.api_version.parse().ok()?;
    Some(version.with_kind(&dependent.kind))
}

async fn look_up(seed: &Seed, kind: &GroupVersionKind) -> Result<ApiResource, ScaleError> {
    seed.turn().await;
    let found = seed.call_at_turn(async {
        match pinned_kind(seed.client(), kind).await {
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            found => found.map(Some),
        }
    });
    let found = found.await;
    let found = found.map_err(|error| Failure::Call(error).explain("discovery"))?;
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
