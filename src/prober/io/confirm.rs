//! Reads a Cluster and its policy past every cache, and compares them with what their watches show.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api::ProbePolicy,
    gardener::Cluster,
    prober::{
        decide::Confirmation,
        io::named,
        selection::{Selection, SharedIndex},
    },
    runtime::{
        seed::{CallError, Seed},
        watch::WatchState,
    },
};

/// Time limit of the reads. Judgement: a question comes up to two thirds of a renewal period, of 10 s by
/// default, before its answer is needed.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks whether the Cluster of this name and its policy are as they are known.
pub(crate) type Confirm = Arc<dyn Fn(Arc<str>) -> BoxFuture<'static, Confirmation> + Send + Sync>;

/// Means of asking, and what answers are compared with.
#[derive(Clone)]
struct Sources {
    seed: Seed,
    index: SharedIndex,
    /// The watch of Clusters.
    clusters: WatchState,
    /// The watch of policies.
    policies: WatchState,
}

/// Has this seed asked, and the answers compared with this selection.
pub(in crate::prober) fn confirm(seed: Seed, selection: &Selection) -> Confirm {
    let sources = Sources {
        seed,
        index: selection.index.clone(),
        clusters: selection.clusters.clone(),
        policies: selection.policies.clone(),
    };
    Arc::new(move |name| {
        // A task, since a read that waits for its turn must be polled whatever the loop is doing.
        let asked = tokio::spawn(sources.clone().ask(name));
        let asked = AbortOnDropHandle::new(asked);
        asked.map(|it| it.unwrap_or(Confirmation::Unknown)).boxed()
    })
}

impl Sources {
    /// Reads the Cluster of this name and the policy that applies to it.
    async fn ask(self, name: Arc<str>) -> Confirmation {
        let known = self.index.lock().version(&name);
        let Some((version, policy)) = known else {
            // The loop does not know yet.
            return Confirmation::Otherwise;
        };
        let cluster = confirmation(self.cluster(&name, &version), &self.clusters);
        let policy = confirmation(self.policy(&policy), &self.policies);
        let (cluster, policy) = join(cluster, policy).await;
        // The least sure of the two.
        cluster.max(policy)
    }

    /// Tells whether the Cluster of this name comes to what is known, which has this resourceVersion.
    async fn cluster(&self, name: &str, version: &str) -> Result<bool, CallError> {
        let api: Api<Cluster> = Api::all(self.seed.client().clone());
        let Some(metadata) = self.metadata(&api, name).await? else {
            return Ok(false);
        };
        if metadata.resource_version.as_deref() == Some(version) {
            return Ok(true);
        }
        // Hundreds of kilobytes.
        let mut found = self.seed.call(api.list(&named(name))).await?;
        let found = found.items.pop();
        Ok(found.is_some_and(|cluster| self.index.lock().is_as_known(&cluster)))
    }

    /// Tells whether the policy of this name says what is known.
    async fn policy(&self, name: &str) -> Result<bool, CallError> {
        let api: Api<ProbePolicy> = Api::all(self.seed.client().clone());
        let metadata = self.metadata(&api, name).await?;
        Ok(metadata.is_some_and(|it| self.index.lock().is_policy_as_known(&it)))
    }

    async fn metadata<K>(&self, api: &Api<K>, name: &str) -> Result<Option<ObjectMeta>, CallError>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug + Resource<DynamicType = ()>,
    {
        let mut found = self.seed.call(api.list_metadata(&named(name))).await?;
        Ok(found.items.pop().map(|it| it.metadata))
    }
}

/// Decides by a read if it is answered in time, otherwise by the watch, unless that is broken.
async fn confirmation(
    is_as_known: impl Future<Output = Result<bool, CallError>>,
    watch: &WatchState,
) -> Confirmation {
    match timeout(LIMIT, is_as_known).await {
        Ok(Ok(true)) => Confirmation::AsKnown,
        Ok(Ok(false)) => Confirmation::Otherwise,
        _ if watch.works() => Confirmation::AsKnown,
        _ => Confirmation::Unknown,
    }
}
