//! The resource behind the kind of a dependent.

use std::{collections::HashMap, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use kube::{
    core::{ApiResource, GroupVersion, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ScaleError, explain};
use crate::{api::DependentRef, prober::scale_error::REFUSED, runtime::seed::Seed};

const APPS: &str = "apps/v1";
const APPS_KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// The resource behind a dependent that is a workload of apps/v1, whose plural needs no lookup.
pub(crate) fn workload(dependent: &DependentRef) -> Option<ApiResource> {
    let is_one = dependent.api_version == APPS && APPS_KINDS.contains(&&*dependent.kind);
    let kind = kind(dependent).filter(|_| is_one)?;
    Some(ApiResource::from_gvk(&kind))
}

/// The resources behind kinds other than those of apps/v1, each looked up once for all clusters.
#[derive(Clone, Default)]
pub(super) struct Kinds(Arc<Mutex<Lookups>>);

/// Lookups, and when each began.
type Lookups = HashMap<GroupVersionKind, (Instant, Lookup)>;
/// A lookup. All that ask meanwhile share its answer: one after the other, each would fail too late.
type Lookup = Shared<BoxFuture<'static, Result<ApiResource, ScaleError>>>;

impl Kinds {
    /// The resource behind a dependent's kind. It is looked up on this seed unless it is known, and anew if that is
    /// doubted, unless that was done just before.
    ///
    /// # Errors
    ///
    /// If it cannot be looked up, or there can be no such dependent.
    pub(super) async fn find(
        &self,
        seed: &Seed,
        dependent: &DependentRef,
        doubted: bool,
    ) -> Result<ApiResource, ScaleError> {
        if let Some(resource) = workload(dependent) {
            return Ok(resource);
        }
        let kind = kind(dependent).ok_or_else(|| ScaleError::UnknownKind(dependent.to_string()))?;
        let lookup = {
            let mut lookups = self.0.lock();
            let stands = |(began, lookup): &&(Instant, Lookup)| {
                let is_recent = began.elapsed() < REFUSED;
                match lookup.peek() {
                    Some(Err(error)) => error.is_about_the_kind() && is_recent,
                    _ => is_recent || !doubted,
                }
            };
            let known = lookups.get(&kind).filter(stands).cloned();
            // A task: if all who wait for it give up, it would stay in the queue of requests, and hold up others.
            let begin = || {
                let lookup = look_up(seed.clone(), kind.clone()).boxed().shared();
                tokio::spawn(lookup.clone());
                lookup
            };
            let known = known.unwrap_or_else(|| (Instant::now(), begin()));
            lookups.insert(kind, known.clone());
            known.1
        };
        lookup.await
    }
}

/// The kind of a dependent; `None` if its texts, which become a path and may come from a status, are none.
fn kind(dependent: &DependentRef) -> Option<GroupVersionKind> {
    let valid = Some(dependent).filter(|it| it.is_valid())?;
    let version: GroupVersion = valid.api_version.parse().ok()?;
    Some(version.with_kind(&dependent.kind))
}

async fn look_up(seed: Seed, kind: GroupVersionKind) -> Result<ApiResource, ScaleError> {
    let found = seed.call(async {
        match pinned_kind(seed.client(), &kind).await {
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            found => found.map(Some),
        }
    });
    let found = found.await.map_err(|error| explain(error, "discovery"))?;
    let Some((resource, capabilities)) = found else {
        let (version, kind) = (kind.api_version(), &kind.kind);
        return Err(ScaleError::UnknownKind(format!("{version} {kind}")));
    };
    let mut subresources = capabilities.subresources.iter();
    let has_scale = subresources.any(|(it, _)| it.plural == "scale");
    match has_scale && capabilities.scope == Scope::Namespaced {
        true => Ok(resource),
        false => Err(ScaleError::NotScalable),
    }
}
