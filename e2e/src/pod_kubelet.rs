//! The kubelet of a seed's node, as far as its pods can tell: they run, become ready, crash-loop
//! when what they need is away, and go when they are deleted.
//!
//! What it knows of a pod it keeps in the pod's own status, as the real one reports it. Two things
//! are faster: a container crashes as soon as no endpoint of the service it needs is ready, and it
//! is at its longest back-off from the first crash on. That it sits out to the end, whatever becomes
//! of the service.

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::{ContainerStatus, Node, Pod},
        discovery::v1::{EndpointConditions, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

/// The node on which a pod has to be to come to life.
pub const NODE: &str = "seed-node";
/// The annotation of a pod that names the service without which its container crashes.
pub(crate) const NEEDS: &str = "e2e.dependency-watchdog.gardener.cloud/needs";
/// How long a container waits before it is started again: the most that a real kubelet grants, …
pub const BACK_OFF: Duration = Duration::from_secs(300);
/// … which it does after so many restarts.
const RESTARTS: i32 = 6;

/// How often it looks at its pods, and at what they need.
const LOOK: Duration = Duration::from_millis(300);

/// A namespace, and the label `app` of pods in it.
type App = (String, String);

/// The stand-in; it ends with this value.
#[derive(Debug)]
pub(crate) struct PodKubelet {
    orders: Arc<Mutex<Orders>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct Orders {
    /// Whose pods run, but are not ready.
    down: BTreeSet<App>,
    /// Whose pods that are there are to crash.
    crash: BTreeSet<App>,
}

impl PodKubelet {
    /// Registers the node, and starts.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
        let created = nodes.create(&PostParams::default(), &node).await;
        created.with_context(|| format!("cannot create the node {NODE}"))?;
        let orders = Arc::default();
        let pods = Pods {
            client: client.clone(),
            orders: Arc::clone(&orders),
            crashing: BTreeSet::new(),
            addresses: 0,
        };
        Ok(Self {
            orders,
            _task: AbortOnDropHandle::new(tokio::spawn(pods.run())),
        })
    }

    /// From now on pods of this namespace with this label `app` run, but are not ready.
    pub(crate) fn down(&self, namespace: &str, app: &str) {
        lock(&self.orders)
            .down
            .insert((namespace.to_owned(), app.to_owned()));
    }

    /// Ends that.
    pub(crate) fn up(&self, namespace: &str, app: &str) {
        lock(&self.orders)
            .down
            .remove(&(namespace.to_owned(), app.to_owned()));
    }

    /// The containers of the pods that are there now crash, once, and wait for their restart.
    pub(crate) fn crash(&self, namespace: &str, app: &str) {
        lock(&self.orders)
            .crash
            .insert((namespace.to_owned(), app.to_owned()));
    }
}

fn lock(orders: &Mutex<Orders>) -> MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a pod's only container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Unready,
    /// It has crashed then, and is not started again before its back-off is over.
    Waiting(Timestamp),
}

impl State {
    /// What the pod's status says; nothing before its container was started.
    fn of(pod: &Pod) -> Option<Self> {
        let container = container(pod)?;
        let waiting = container.state.as_ref()?.waiting.is_some();
        if !waiting {
            return Some(if container.ready {
                Self::Ready
            } else {
                Self::Unready
            });
        }
        let last = container.last_state.as_ref()?.terminated.as_ref()?;
        last.finished_at.as_ref().map(|time| Self::Waiting(time.0))
    }
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let status = pod.status.as_ref()?;
    status.container_statuses.as_ref()?.first()
}

/// The state into which a pod's container has to go now, if it is not in it.
fn next(pod: &Pod, served: bool, down: bool, crash: bool, now: Timestamp) -> Option<State> {
    let current = State::of(pod);
    let back_off = SignedDuration::try_from(BACK_OFF).unwrap_or(SignedDuration::MAX);
    if let Some(State::Waiting(since)) = current
        && now.duration_since(since) < back_off
    {
        return None;
    }
    let wanted = if crash || !served {
        State::Waiting(now)
    } else if down {
        State::Unready
    } else {
        State::Ready
    };
    (current != Some(wanted)).then_some(wanted)
}

/// The pods of the node.
struct Pods {
    client: Client,
    orders: Arc<Mutex<Orders>>,
    /// UIDs of pods whose containers are to crash.
    crashing: BTreeSet<String>,
    addresses: u32,
}

impl Pods {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::debug!("pods not attended to: {error:#}");
            }
            sleep(LOOK).await;
        }
    }

    /// Looks once at all pods, and does what has to be done.
    async fn look(&mut self) -> Result<()> {
        let ours = ListParams::default().fields(&format!("spec.nodeName={NODE}"));
        let pods = Api::<Pod>::all(self.client.clone())
            .list(&ours)
            .await?
            .items;
        let crash = std::mem::take(&mut lock(&self.orders).crash);
        let crash = pods.iter().filter(|pod| crash.contains(&app_of(pod)));
        self.crashing.extend(crash.filter_map(|pod| pod.uid()));
        let slices = Api::<EndpointSlice>::all(self.client.clone());
        let slices = slices.list(&ListParams::default()).await?.items;
        for pod in &pods {
            if let Err(error) = self.attend_to(pod, &slices).await {
                let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                tracing::debug!(namespace, name, "pod not attended to: {error:#}");
            }
        }
        Ok(())
    }

    /// Does what has to be done for a pod, which may have changed since, or be gone.
    async fn attend_to(&mut self, pod: &Pod, slices: &[EndpointSlice]) -> Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        if pod.metadata.deletion_timestamp.is_some() {
            let confirmed = pods.delete(&name, &confirmation(uid)).await;
            let gone = |error: &kube::Error| matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
            if !confirmed.as_ref().is_err_and(gone) {
                confirmed?;
            }
            return Ok(());
        }
        let needs = pod.annotations().get(NEEDS);
        let served = needs.is_none_or(|service| serves(slices, &namespace, service));
        let down = lock(&self.orders).down.contains(&app_of(pod));
        let crash = self.crashing.contains(&uid);
        let Some(state) = next(pod, served, down, crash, Timestamp::now()) else {
            return Ok(());
        };
        let status = status(pod, state, &self.address(pod));
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        self.crashing.remove(&uid);
        Ok(())
    }

    /// The pod's, or a new one.
    fn address(&mut self, pod: &Pod) -> String {
        let known = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        known.unwrap_or_else(|| {
            self.addresses += 1;
            format!("10.1.{}.{}", self.addresses / 250, self.addresses % 250 + 1)
        })
    }
}

/// The status of a pod whose container goes into this state.
fn status(pod: &Pod, state: State, address: &str) -> Value {
    let now = Time(Timestamp::now());
    let ready = state == State::Ready;
    let known = container(pod);
    let restarts = known.map_or(0, |container| container.restart_count);
    let (does, last, restarts) = match state {
        State::Ready | State::Unready => {
            let last = known.and_then(|container| container.last_state.as_ref());
            (
                json!({"running": {"startedAt": now}}),
                json!(last),
                restarts,
            )
        }
        State::Waiting(since) => (
            json!({"waiting": {
                "reason": "CrashLoopBackOff",
                "message": "back-off 5m0s restarting failed container",
            }}),
            json!({"terminated": {
                "exitCode": 1,
                "reason": "Error",
                "finishedAt": Time(since),
            }}),
            restarts + RESTARTS,
        ),
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers = containers.map(|container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": ready,
            "restartCount": restarts,
            "state": does,
            "lastState": last,
        })
    });
    let condition = |kind: &str, met: bool| {
        let status = if met { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": now})
    };
    json!({"status": {
        "phase": "Running",
        "startTime": pod.metadata.creation_timestamp,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": containers.collect::<Vec<_>>(),
    }})
}

/// What a kubelet sends when the containers of a deleted pod have ended.
fn confirmation(uid: String) -> DeleteParams {
    DeleteParams::default()
        .grace_period(0)
        .preconditions(Preconditions {
            uid: Some(uid),
            ..Preconditions::default()
        })
}

fn app_of(pod: &Pod) -> App {
    let app = pod.labels().get("app").cloned();
    (pod.namespace().unwrap_or_default(), app.unwrap_or_default())
}

/// Whether a service has an endpoint that is ready.
fn serves(slices: &[EndpointSlice], namespace: &str, service: &str) -> bool {
    slices.iter().any(|slice| {
        let label = slice.labels().get("kubernetes.io/service-name");
        let conditions = slice
            .endpoints
            .iter()
            .filter_map(|it| it.conditions.as_ref());
        let is_ready =
            |it: &EndpointConditions| it.ready == Some(true) && it.terminating != Some(true);
        slice.namespace().as_deref() == Some(namespace)
            && label.is_some_and(|label| label == service)
            && conditions.into_iter().any(is_ready)
    })
}
