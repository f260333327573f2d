//! What becomes of the Deployments and Etcds of a cluster, version by version, as an administrator
//! sees it who goes past the proxies; and the controller of Etcds, played.

use anyhow::Result;
use fake::chaos::Seen;
use futures::TryStreamExt as _;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{task::JoinSet, time::sleep};

/// After a status that could not be written.
const AGAIN: Duration = Duration::from_millis(200);

/// Sees all versions from its start on. It ends with this value.
pub(super) struct Watching {
    seen: Arc<Mutex<Vec<Seen>>>,
    apis: Vec<Api<DynamicObject>>,
    _tasks: JoinSet<()>,
}

impl Watching {
    /// Starts it in this namespace.
    pub(super) fn start(client: &Client, namespace: &str) -> Self {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let mut tasks = JoinSet::new();
        let mut apis = Vec::new();
        for (kind, played) in [(deployments(), false), (etcds(), true)] {
            let api = Api::namespaced_with(client.clone(), namespace, &kind);
            tasks.spawn(watch(api.clone(), kind, played, Arc::clone(&seen)));
            apis.push(api);
        }
        Self {
            seen,
            apis,
            _tasks: tasks,
        }
    }

    /// Sees what there is now, also if its watches are behind.
    pub(super) async fn catch_up(&self) -> Result<()> {
        for api in &self.apis {
            let found = api.list(&ListParams::default()).await?;
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(found.iter().map(version_of));
        }
        Ok(())
    }

    /// Every version so far, in order.
    pub(super) fn history(&self) -> Vec<Seen> {
        let mut seen = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        seen.sort_by_key(|seen| seen.version);
        seen.dedup();
        seen
    }
}

async fn watch(
    api: Api<DynamicObject>,
    kind: ApiResource,
    played: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
) {
    let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    let mut settling = JoinSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => {
                let version = version_of(&found);
                if played && version.actual != version.replicas {
                    settling.spawn(settle(api.clone(), version.name.clone()));
                }
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push(version);
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::debug!("watch of {}: {error}", kind.plural),
        }
    }
}

/// Brings the members in line with what there should be, however often that takes.
async fn settle(api: Api<DynamicObject>, name: String) {
    let once = async || -> Result<()> {
        let Some(found) = api.get_opt(&name).await? else {
            return Ok(());
        };
        let version = version_of(&found);
        if version.actual != version.replicas {
            let patch = Patch::Merge(json!({"status": {"replicas": version.replicas}}));
            let params = PatchParams::default();
            api.patch_status(&name, &params, &patch).await?;
        }
        Ok(())
    };
    while let Err(error) = once().await {
        tracing::debug!("the status of {name} was not written: {error:#}");
        sleep(AGAIN).await;
    }
}

fn version_of(object: &DynamicObject) -> Seen {
    Seen::of(&serde_json::to_value(object).unwrap_or_default())
}

fn deployments() -> ApiResource {
    ApiResource {
        group: "apps".into(),
        version: "v1".into(),
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        plural: "deployments".into(),
    }
}

/// The kind of which the annotations and the replicas are written apart.
pub(super) fn etcds() -> ApiResource {
    ApiResource {
        group: "druid.gardener.cloud".into(),
        version: "v1alpha1".into(),
        api_version: "druid.gardener.cloud/v1alpha1".into(),
        kind: "Etcd".into(),
        plural: "etcds".into(),
    }
}
