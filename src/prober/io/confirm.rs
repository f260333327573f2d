//! Reads a Cluster and a policy past every cache.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::{
    api::ProbePolicy,
    gardener::Cluster,
    prober::machine::Confirmation,
    runtime::seed::{CallError, Seed},
};

/// Asks whether the Cluster of this name and its policy are as they are known, by reads that take so long at
/// most.
pub(crate) type Confirm =
    Arc<dyn Fn(Arc<str>, Duration) -> BoxFuture<'static, Confirmation> + Send + Sync>;

/// A Cluster as it is.
pub(crate) enum Found {
    /// Of the resourceVersion that is known.
    AsKnown,
    /// Of another one.
    Changed(Box<Cluster>),
    Gone,
}

/// The Cluster of this name, of which this resourceVersion is known; `None` if it cannot be read.
pub(crate) async fn cluster(seed: &Seed, name: &str, known: &str) -> Option<Found> {
    let api: Api<Cluster> = Api::all(seed.client().clone());
    let found = async {
        let found = metadata(seed, &api, &this(name)).await?;
        let Some(metadata) = found.into_iter().next() else {
            return Ok(Found::Gone);
        };
        if metadata.resource_version.as_deref() == Some(known) {
            return Ok(Found::AsKnown);
        }
        // Hundreds of kilobytes.
        let found = seed.call(api.list(&this(name))).await?;
        let found = found.items.into_iter().next();
        Ok(found.map_or(Found::Gone, |it| Found::Changed(Box::new(it))))
    };
    read(name, found.await)
}

/// The metadata of all policies; `None` if they cannot be read.
pub(crate) async fn policies(seed: &Seed) -> Option<Vec<ObjectMeta>> {
    let api: Api<ProbePolicy> = Api::all(seed.client().clone());
    let found = metadata(seed, &api, &ListParams::default()).await;
    read("ProbePolicies", found)
}

async fn metadata<K>(
    seed: &Seed,
    api: &Api<K>,
    which: &ListParams,
) -> Result<Vec<ObjectMeta>, CallError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + Resource<DynamicType = ()>,
{
    let found = seed.call(api.list_metadata(which)).await?;
    Ok(found.items.into_iter().map(|it| it.metadata).collect())
}

/// A list needs no right that the watch does not need.
fn this(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

fn read<T>(name: &str, found: Result<T, CallError>) -> Option<T> {
    found
        .inspect_err(|error| {
            tracing::debug!(name, %error, "a Cluster or the policies could not be read anew");
        })
        .ok()
}
