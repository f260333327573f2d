//! The kubelet of a seed's node, as far as its pods can tell: they run, become ready, crash-loop
//! when what they need is away, and go when they are deleted.
//!
//! What it knows of a pod it keeps in the pod's own status, as the real one reports it. Two things
//! are faster: a container crashes as soon as no endpoint of the service it needs is ready, and it
//! is at its longest back-off from the first crash on. That it sits out to the end, whatever becomes
//! of the service.

use anyhow::{Context as _, Result};
use futures::{FutureExt as _, StreamExt as _, stream::select};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::{ContainerStatus, Node, Pod},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, pin::pin, time::Duration};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::task::AbortOnDropHandle;

/// The node on which a pod has to be to come to life.
pub const NODE: &str = "seed-node";
/// The annotation of a pod that names the service without which its container crashes.
pub(crate) const NEEDS: &str = "e2e.dependency-watchdog.gardener.cloud/needs";
/// How long a container waits before it is started again: the most that a real kubelet grants, …
pub const BACK_OFF: Duration = Duration::from_secs(300);
/// … which it does after so many restarts.
const RESTARTS: i32 = 6;

/// How often it looks at its pods when it is told nothing: for ends of back-offs, and for what failed.
const LOOK: Duration = Duration::from_millis(500);

/// A namespace, and the label `app` of pods in it.
type App = (String, String);

/// The stand-in; it ends with this value.
#[derive(Debug)]
pub(crate) struct PodKubelet {
    orders: mpsc::UnboundedSender<Order>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
enum Order {
    Down(App),
    Up(App),
    Crash(App),
}

impl PodKubelet {
    /// Registers the node, and starts.
    pub(crate) async fn start(client: &Client) -> Result<Self> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
        let created = nodes.create(&PostParams::default(), &node).await;
        created.with_context(|| format!("cannot create the node {NODE}"))?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let task = tokio::spawn(Pods::new(client).run(inbox));
        Ok(Self {
            orders,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// From now on pods of this namespace with this label `app` run, but are not ready.
    pub(crate) fn down(&self, namespace: &str, app: &str) {
        self.order(Order::Down, namespace, app);
    }

    /// Ends that.
    pub(crate) fn up(&self, namespace: &str, app: &str) {
        self.order(Order::Up, namespace, app);
    }

    /// The containers of the pods that are there now crash, once, and wait for their restart.
    pub(crate) fn crash(&self, namespace: &str, app: &str) {
        self.order(Order::Crash, namespace, app);
    }

    fn order(&self, order: fn(App) -> Order, namespace: &str, app: &str) {
        // The task ends with this value, and not before.
        let _ = self
            .orders
            .send(order((namespace.to_owned(), app.to_owned())));
    }
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

/// What it watches.
enum Seen {
    Pods(Box<Result<Event<Pod>, watcher::Error>>),
    Slices(Box<Result<Event<EndpointSlice>, watcher::Error>>),
}

/// The pods of the node, and what they depend on.
struct Pods {
    client: Client,
    pods: Writer<Pod>,
    slices: Writer<EndpointSlice>,
    down: BTreeSet<App>,
    /// UIDs of pods whose containers are to crash.
    crashing: BTreeSet<String>,
    addresses: u32,
}

impl Pods {
    fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            pods: Writer::default(),
            slices: Writer::default(),
            down: BTreeSet::new(),
            crashing: BTreeSet::new(),
            addresses: 0,
        }
    }

    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let ours = watcher::Config::default().fields(&format!("spec.nodeName={NODE}"));
        let pods = watcher(Api::<Pod>::all(self.client.clone()), ours);
        let pods = pods
            .default_backoff()
            .map(|seen| Seen::Pods(Box::new(seen)));
        let slices = Api::<EndpointSlice>::all(self.client.clone());
        let slices = watcher(slices, watcher::Config::default());
        let slices = slices
            .default_backoff()
            .map(|seen| Seen::Slices(Box::new(seen)));
        let mut seen = pin!(select(pods, slices));
        loop {
            tokio::select! {
                Some(seen) = seen.next() => self.learn(seen),
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
                () = sleep(LOOK) => {}
            }
            for pod in self.pods.as_reader().state() {
                // One may take a while: what is known by then counts for the next.
                while let Some(Some(seen)) = seen.next().now_or_never() {
                    self.learn(seen);
                }
                if let Err(error) = self.attend_to(&pod).await {
                    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
                    tracing::debug!(namespace, name, "pod not attended to: {error:#}");
                }
            }
        }
    }

    fn learn(&mut self, seen: Seen) {
        match seen {
            Seen::Pods(seen) => match *seen {
                Ok(event) => self.pods.apply_watcher_event(&event),
                Err(error) => tracing::debug!("watch of pods: {error}"),
            },
            Seen::Slices(seen) => match *seen {
                Ok(event) => self.slices.apply_watcher_event(&event),
                Err(error) => tracing::debug!("watch of EndpointSlices: {error}"),
            },
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Down(app) => {
                self.down.insert(app);
            }
            Order::Up(app) => {
                self.down.remove(&app);
            }
            Order::Crash(app) => {
                let pods = self.pods.as_reader().state().into_iter();
                let pods = pods.filter(|pod| app_of(pod) == app);
                self.crashing.extend(pods.filter_map(|pod| pod.uid()));
            }
        }
    }

    /// Does what has to be done for a pod, which may have changed since, or be gone.
    async fn attend_to(&mut self, pod: &Pod) -> Result<()> {
        let Some(pod) = self.pods.as_reader().get(&ObjectRef::from_obj(pod)) else {
            return Ok(());
        };
        let pod = &*pod;
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
        let served = match pod.annotations().get(NEEDS) {
            Some(service) => {
                let slices = self.slices.as_reader();
                // Nothing is to crash for a service that is just not known yet.
                if slices.wait_until_ready().now_or_never().is_none() {
                    return Ok(());
                }
                serves(&slices, &namespace, service)
            }
            None => true,
        };
        let down = self.down.contains(&app_of(pod));
        let crash = self.crashing.contains(&uid);
        let Some(state) = next(pod, served, down, crash, Timestamp::now()) else {
            return Ok(());
        };
        let status = status(pod, state, &self.address(pod));
        let patched = pods
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        // Its own echo comes later, and is not to be answered once more.
        self.pods.apply_watcher_event(&Event::Apply(patched));
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
fn serves(slices: &Store<EndpointSlice>, namespace: &str, service: &str) -> bool {
    let slice = slices.find(|slice| {
        let label = slice.labels().get("kubernetes.io/service-name");
        let mut conditions = slice
            .endpoints
            .iter()
            .filter_map(|it| it.conditions.as_ref());
        slice.namespace().as_deref() == Some(namespace)
            && label.is_some_and(|label| label == service)
            && conditions.any(|it| it.ready == Some(true) && it.terminating != Some(true))
    });
    slice.is_some()
}
