//! A stand-in for the Deployment controller of a seed: the status of a Deployment follows its
//! spec, at once or after a while, or not at all.

use anyhow::Result;
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::task::AbortOnDropHandle;

/// After a status that could not be written.
const AGAIN: Duration = Duration::from_millis(200);

type Behaviours = BTreeMap<String, Behaviour>;

/// How Deployments of one namespace behave.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    delay: Duration,
    paused: bool,
}

/// The stand-in; it ends with this value.
#[derive(Debug)]
pub struct DeploymentController {
    behaviours: watch::Sender<Behaviours>,
    _task: AbortOnDropHandle<()>,
}

impl DeploymentController {
    /// Starts it for all namespaces.
    pub(crate) fn start(client: &Client) -> Self {
        let behaviours = watch::Sender::new(Behaviours::new());
        let task = tokio::spawn(run(client.clone(), behaviours.subscribe()));
        Self {
            behaviours,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// From now on pods of this namespace take so long to come and to go.
    pub fn delay(&self, namespace: &str, delay: Duration) {
        self.change(namespace, |behaviour| behaviour.delay = delay);
    }

    /// From now on pods of this namespace neither come nor go.
    pub fn pause(&self, namespace: &str) {
        self.change(namespace, |behaviour| behaviour.paused = true);
    }

    /// Ends a pause: what has changed meanwhile is caught up with.
    pub fn resume(&self, namespace: &str) {
        self.change(namespace, |behaviour| behaviour.paused = false);
    }

    /// Back to no delay and no pause.
    pub(crate) fn forget(&self, namespace: &str) {
        self.behaviours
            .send_if_modified(|all| all.remove(namespace).is_some());
    }

    fn change(&self, namespace: &str, change: impl FnOnce(&mut Behaviour)) {
        self.behaviours
            .send_modify(|all| change(all.entry(namespace.to_owned()).or_default()));
    }
}

async fn run(client: Client, mut behaviours: watch::Receiver<Behaviours>) {
    let all: Api<Deployment> = Api::all(client.clone());
    let mut events = pin!(watcher(all, watcher::Config::default()).default_backoff());
    let mut known = BTreeSet::new();
    let mut pending = JoinSet::new();
    loop {
        tokio::select! {
            event = events.try_next() => match event {
                Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => {
                    let key = (found.namespace().unwrap_or_default(), found.name_any());
                    known.insert(key.clone());
                    if settled(&found).is_some() {
                        pending.spawn(settle(client.clone(), behaviours.clone(), key));
                    }
                }
                Ok(Some(watcher::Event::Delete(gone))) => {
                    known.remove(&(gone.namespace().unwrap_or_default(), gone.name_any()));
                }
                Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => {}
                Ok(None) => return,
                Err(error) => tracing::debug!("watch of Deployments: {error}"),
            },
            changed = behaviours.changed() => {
                if changed.is_err() {
                    return;
                }
                for key in &known {
                    pending.spawn(settle(client.clone(), behaviours.clone(), key.clone()));
                }
            }
            Some(_) = pending.join_next() => {}
        }
    }
}

/// Brings the status in line with the spec, also if the API server is away for a while.
async fn settle(client: Client, behaviours: watch::Receiver<Behaviours>, key: (String, String)) {
    while let Err(error) = try_to_settle(&client, &behaviours, &key).await {
        tracing::debug!("a Deployment's status was not written: {error:#}");
        sleep(AGAIN).await;
    }
}

/// Waits the delay, then brings the status in line with the spec of that moment.
async fn try_to_settle(
    client: &Client,
    behaviours: &watch::Receiver<Behaviours>,
    (namespace, name): &(String, String),
) -> Result<()> {
    let behaviour = || {
        behaviours
            .borrow()
            .get(namespace)
            .copied()
            .unwrap_or_default()
    };
    sleep(behaviour().delay).await;
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    // Several may be under way for one Deployment: each looks again.
    let Some(status) = api.get_opt(name).await?.as_ref().and_then(settled) else {
        return Ok(());
    };
    if !behaviour().paused {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}

/// The status that is in line with the spec, unless it is already.
fn settled(deployment: &Deployment) -> Option<serde_json::Value> {
    let generation = deployment.metadata.generation;
    let replicas = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let status = deployment.status.as_ref();
    let count = |of: fn(&DeploymentStatus) -> Option<i32>| status.and_then(of).unwrap_or(0);
    let done = status.and_then(|status| status.observed_generation) == generation
        && count(|status| status.replicas) == replicas
        && count(|status| status.ready_replicas) == replicas;
    (!done).then(|| {
        json!({
            "observedGeneration": generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "unavailableReplicas": null,
            // By which others than kubectl know that it is rolled out.
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        })
    })
}
