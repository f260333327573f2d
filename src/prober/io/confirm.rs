//! Reads a Cluster and its policy past every cache, and compares them with what their watches show.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
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

/// Has this seed asked, and the answers compared with this selection.
pub(in crate::prober) fn confirm(seed: Seed, selection: &Selection) -> Confirm {
    let index = selection.index.clone();
    let watches = [&selection.clusters, &selection.policies].map(WatchState::clone);
    Arc::new(move |name| {
        // A task, since a read that waits for its turn must be polled whatever the loop is doing.
        let asked = tokio::spawn(ask(seed.clone(), index.clone(), watches.clone(), name));
        let asked = AbortOnDropHandle::new(asked);
        asked.map(|it| it.unwrap_or(Confirmation::Unknown)).boxed()
    })
}

/// Reads the Cluster of this name and the policy that applies to it.
async fn ask(
    seed: Seed,
    index: SharedIndex,
    [clusters, policies]: [WatchState; 2],
    name: Arc<str>,
) -> Confirmation {
    let known = index.lock().version(&name);
    let Some((version, policy)) = known else {
        // The loop does not know yet.
        return Confirmation::Otherwise;
    };
    let cluster = async {
        let Some(metadata) = metadata::<Cluster>(&seed, &name).await? else {
            return Ok(false);
        };
        if metadata.resource_version.as_deref() == Some(&*version) {
            return Ok(true);
        }
        // Hundreds of kilobytes.
        let api: Api<Cluster> = Api::all(seed.client().clone());
        let mut found = seed.call(api.list(&named(&name))).await?;
        let found = found.items.pop();
        Ok(found.is_some_and(|cluster| index.lock().is_as_known(&cluster)))
    };
    let policy = async {
        let metadata = metadata::<ProbePolicy>(&seed, &policy).await?;
        Ok(metadata.is_some_and(|it| index.lock().is_policy_as_known(&it)))
    };
    let cluster = confirmation(cluster, &clusters);
    let (cluster, policy) = join(cluster, confirmation(policy, &policies)).await;
    // The least sure of the two.
    cluster.max(policy)
}

/// Reads the metadata of the object of this name, if it exists.
async fn metadata<K: Resource<DynamicType = ()>>(
    seed: &Seed,
    name: &str,
) -> Result<Option<ObjectMeta>, CallError> {
    let api = seed.objects::<K>();
    let mut found = seed.call(api.list_metadata(&named(name))).await?;
    Ok(found.items.pop().map(|it| it.metadata))
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
