//! ReplicaSets that live: on a seed they get real pods, whose Services get real EndpointSlices.
//!
//! Of the real controllers, those of ReplicaSets and EndpointSlices run; the [kubelet](PodKubelet) is
//! played.

use crate::{
    ControllerManager, Seed,
    pod_kubelet::{NEEDS, NODE, PodKubelet},
    wait::{self, Look, seen},
};
use anyhow::{Context as _, Result};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Pod, Service},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What brings a seed's ReplicaSets to life; it ends with this value.
pub struct Workloads {
    seed: Arc<Seed>,
    kubelet: PodKubelet,
    _controller_manager: ControllerManager,
}

/// A ReplicaSet of pods with one container each, and the Service in front of it.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    /// Of the ReplicaSet, of the container, and the label `app` of the pods.
    pub name: &'a str,
    /// How many pods.
    pub replicas: i32,
    /// Further labels of the pods.
    pub labels: &'a [(&'a str, &'a str)],
    /// The name of its Service, if it has one.
    pub service: Option<&'a str>,
    /// The Service without which its containers crash, if there is one.
    pub needs: Option<&'a str>,
}

/// One namespace of such ReplicaSets.
#[derive(Clone)]
pub struct Stack {
    workloads: Arc<Workloads>,
    client: Client,
    namespace: String,
}

impl Workloads {
    pub(crate) async fn start(
        seed: &Arc<Seed>,
        controller_manager: ControllerManager,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            seed: Arc::clone(seed),
            kubelet: PodKubelet::start(&seed.client()?).await?,
            _controller_manager: controller_manager,
        }))
    }

    /// The seed on which they live.
    pub fn seed(&self) -> &Arc<Seed> {
        &self.seed
    }

    /// A new namespace.
    pub async fn stack(self: &Arc<Self>, namespace: &str) -> Result<Stack> {
        let client = self.seed.client()?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        let created = namespaces.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create the namespace {namespace}"))?;
        Ok(Stack {
            workloads: Arc::clone(self),
            client,
            namespace: namespace.to_owned(),
        })
    }
}

impl App<'_> {
    /// The labels of its pods.
    fn labels(&self) -> BTreeMap<&str, &str> {
        let labels = self.labels.iter().copied();
        labels.chain([("app", self.name)]).collect()
    }

    /// Of its pods: their labels and annotations, and what they run.
    fn template(&self) -> Value {
        let needs: BTreeMap<&str, &str> = self.needs.map(|it| (NEEDS, it)).into_iter().collect();
        json!({
            "metadata": {"labels": self.labels(), "annotations": needs},
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": self.name, "image": self.name}],
            },
        })
    }
}

impl Stack {
    /// Its name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The seed on which it lives.
    pub fn seed(&self) -> &Seed {
        self.workloads.seed()
    }

    /// Creates the ReplicaSet and its Service, and waits until all of its pods are ready, and so the
    /// Service.
    pub async fn run(&self, app: &App<'_>) -> Result<()> {
        let selector = json!({"app": app.name});
        if let Some(service) = app.service {
            let services: Api<Service> = self.api();
            let service = serde_json::from_value(json!({
                "metadata": {"name": service},
                "spec": {"selector": selector, "ports": [{"port": 443}]},
            }))?;
            services.create(&PostParams::default(), &service).await?;
        }
        let sets: Api<ReplicaSet> = self.api();
        let set = serde_json::from_value(json!({
            "metadata": {"name": app.name},
            "spec": {
                "replicas": app.replicas,
                "selector": {"matchLabels": selector},
                "template": app.template(),
            },
        }))?;
        sets.create(&PostParams::default(), &set).await?;
        self.is_ready(app).await?;
        Ok(())
    }

    /// Its pods, in the order of their names, without those that are about to go.
    pub async fn pods(&self, app: &App<'_>) -> Result<Vec<Pod>> {
        let labels = ListParams::default().labels(&format!("app={}", app.name));
        let mut pods = self.api::<Pod>().list(&labels).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    /// The UIDs of its pods.
    pub async fn uids(&self, app: &App<'_>) -> Result<BTreeSet<String>> {
        Ok(uids(&self.pods(app).await?))
    }

    /// Waits until all of its pods are ready, and the Service if it has one. Tells their UIDs.
    pub async fn is_ready(&self, app: &App<'_>) -> Result<BTreeSet<String>> {
        let found = self.all(app, "ready", is_ready).await?;
        if let Some(service) = app.service {
            self.serves(service, true).await?;
        }
        Ok(found)
    }

    /// Waits until all of its pods are in CrashLoopBackOff. Tells their UIDs.
    pub async fn is_looping(&self, app: &App<'_>) -> Result<BTreeSet<String>> {
        self.all(app, "in CrashLoopBackOff", is_looping).await
    }

    /// Waits until a Service has endpoints that are ready, or none.
    pub async fn serves(&self, service: &str, ready: bool) -> Result<()> {
        let slices: Api<k8s_openapi::api::discovery::v1::EndpointSlice> = self.api();
        let labels = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let what = format!("{service} of {} to be ready: {ready}", self.namespace);
        wait::until(&what, async || {
            let slices = slices.list(&labels).await?.items;
            let mut endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let found = endpoints.any(|endpoint| {
                let conditions = endpoint.conditions.as_ref();
                conditions.and_then(|conditions| conditions.ready) == Some(true)
            });
            seen(found == ready, format!("{slices:?}"))
        })
        .await
    }

    /// From now on its pods run, but are not ready.
    pub fn down(&self, app: &App<'_>) {
        self.workloads.kubelet.down(&self.namespace, app.name);
    }

    /// Ends that.
    pub fn up(&self, app: &App<'_>) {
        self.workloads.kubelet.up(&self.namespace, app.name);
    }

    /// The containers of those of its pods that are there now crash, once.
    pub fn crash(&self, app: &App<'_>) {
        self.workloads.kubelet.crash(&self.namespace, app.name);
    }

    async fn all(
        &self,
        app: &App<'_>,
        state: &str,
        met: fn(&Pod) -> bool,
    ) -> Result<BTreeSet<String>> {
        let what = format!(
            "the pods of {} in {} to be {state}",
            app.name, self.namespace
        );
        wait::until(&what, async || {
            let pods = self.pods(app).await?;
            let count = pods.iter().filter(|pod| met(pod)).count();
            Ok(
                if count == pods.len() && i32::try_from(count)? >= app.replicas {
                    Look::Met(uids(&pods))
                } else {
                    Look::Not(format!("{count} of {}", pods.len()))
                },
            )
        })
        .await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.uid()).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().filter_map(|it| it.conditions.as_ref());
    let mut conditions = conditions.flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Whether a container of the pod waits in CrashLoopBackOff.
pub fn is_looping(pod: &Pod) -> bool {
    let containers = pod
        .status
        .iter()
        .filter_map(|it| it.container_statuses.as_ref());
    let mut states = containers
        .flatten()
        .filter_map(|it| it.state.as_ref()?.waiting.as_ref());
    states.any(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
}
