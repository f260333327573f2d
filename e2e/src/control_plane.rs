//! A shoot's namespace on the seed: its Cluster, kubeconfig, Machines and dependents.

use crate::{
    DeploymentController, Seed,
    wait::{self, Look, seen},
};
use anyhow::Result;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The Secret with the kubeconfig, named as in Gardener's own configuration of the prober.
const KUBECONFIG_SECRET: &str = "shoot-access-dependency-watchdog-probe";

/// The worker pool of every node.
pub(crate) const WORKER_POOL: &str = "worker";

/// What a seed knows of one shoot.
#[derive(Clone)]
pub struct ControlPlane {
    seed: Arc<Seed>,
    client: Client,
    namespace: String,
}

impl ControlPlane {
    /// Creates the namespace and the Cluster, whose name is the namespace's. Its last operation is a reconciliation that succeeded.
    pub(crate) async fn create(
        seed: Arc<Seed>,
        project: &str,
        shoot: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let client = seed.client()?;
        let namespace = format!("shoot--{project}--{shoot}");
        let this = Self {
            seed,
            client,
            namespace,
        };
        let namespace = &this.namespace;
        this.seed
            .apply(&format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"
            ))
            .await?;
        let cluster = json!({
            "apiVersion": "extensions.gardener.cloud/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": namespace, "labels": labels},
            "spec": {
                "cloudProfile": {
                    "apiVersion": "core.gardener.cloud/v1beta1",
                    "kind": "CloudProfile",
                    "metadata": {"name": "local"},
                },
                "seed": {
                    "apiVersion": "core.gardener.cloud/v1beta1",
                    "kind": "Seed",
                    "metadata": {"name": "e2e"},
                },
                "shoot": {
                    "apiVersion": "core.gardener.cloud/v1beta1",
                    "kind": "Shoot",
                    "metadata": {"name": shoot, "namespace": format!("garden-{project}")},
                    "spec": {
                        "provider": {"type": "local", "workers": [{"name": WORKER_POOL}]},
                    },
                    "status": {
                        "lastOperation": {
                            "type": "Reconcile",
                            "state": "Succeeded",
                            "progress": 100,
                            "lastUpdateTime": "2026-01-01T00:00:00Z",
                        },
                    },
                },
            },
        });
        let cluster = serde_json::from_value(cluster)?;
        this.clusters()
            .create(&PostParams::default(), &cluster)
            .await?;
        Ok(this)
    }

    /// The namespace, which is the name of the Cluster too.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The seed it is on.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The name of the Secret with the shoot's kubeconfig.
    pub fn kubeconfig_secret(&self) -> &'static str {
        KUBECONFIG_SECRET
    }

    /// Writes (or replaces) the shoot's kubeconfig.
    pub async fn write_kubeconfig(&self, kubeconfig: &str) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = Patch::Apply(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KUBECONFIG_SECRET},
            "stringData": {"kubeconfig": kubeconfig},
        }));
        secrets
            .patch(
                KUBECONFIG_SECRET,
                &PatchParams::apply("e2e").force(),
                &secret,
            )
            .await?;
        Ok(())
    }

    /// Merges this into the Cluster: `{"spec": {"shoot": {"spec": {"hibernation": …}}}}`.
    pub async fn patch_cluster(&self, patch: Value) -> Result<()> {
        let clusters = self.clusters();
        clusters
            .patch(
                &self.namespace,
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        Ok(())
    }

    /// Creates the Machine of a node, running.
    pub async fn create_machine(&self, node: &str) -> Result<()> {
        let machine = serde_json::from_value(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": node, "labels": {"node": node}},
        }))?;
        self.machines()
            .create(&PostParams::default(), &machine)
            .await?;
        let running = Patch::Merge(json!({"status": {"currentStatus": {"phase": "Running"}}}));
        self.machines()
            .patch_status(node, &PatchParams::default(), &running)
            .await?;
        Ok(())
    }

    /// Creates a Deployment and waits until it is up.
    pub async fn create_dependent(&self, name: &str, replicas: i32) -> Result<()> {
        let labels = json!({"app": name});
        let deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": name, "image": name}]},
                },
            },
        }))?;
        let dependent = self.dependent(name);
        dependent
            .api
            .create(&PostParams::default(), &deployment)
            .await?;
        dependent.is_ready(replicas).await
    }

    /// One of its Deployments.
    pub fn dependent(&self, name: &str) -> Dependent {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        Dependent {
            api,
            name: name.to_owned(),
        }
    }

    /// From now on its pods take so long to come and to go.
    pub fn delay_pods(&self, delay: Duration) {
        self.deployments().delay(&self.namespace, delay);
    }

    /// From now on its pods neither come nor go.
    pub fn pause_pods(&self) {
        self.deployments().pause(&self.namespace);
    }

    /// Ends a pause.
    pub fn resume_pods(&self) {
        self.deployments().resume(&self.namespace);
    }

    /// Takes it off the seed, so that nobody minds a shoot that is gone.
    pub(crate) async fn remove(self) -> Result<()> {
        let (delete, all) = (DeleteParams::default(), ListParams::default());
        let gone =
            |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 404);
        let answer = self.clusters().delete(&self.namespace, &delete).await;
        if !answer.as_ref().is_err_and(gone) {
            answer?;
        }
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        deployments.delete_collection(&delete, &all).await?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        secrets.delete_collection(&delete, &all).await?;
        // A scenario may have had the seed serve none.
        let answer = self.machines().delete_collection(&delete, &all).await;
        if !answer.as_ref().is_err_and(gone) {
            answer?;
        }
        self.deployments().forget(&self.namespace);
        Ok(())
    }

    fn deployments(&self) -> &DeploymentController {
        self.seed.deployments()
    }

    fn clusters(&self) -> Api<DynamicObject> {
        let kind = resource("extensions.gardener.cloud", "Cluster", "clusters");
        Api::all_with(self.client.clone(), &kind)
    }

    fn machines(&self) -> Api<DynamicObject> {
        let kind = resource("machine.sapcloud.io", "Machine", "machines");
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1alpha1".into(),
        api_version: format!("{group}/v1alpha1"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// A Deployment that a policy may scale.
#[derive(Clone, Debug)]
pub struct Dependent {
    api: Api<Deployment>,
    name: String,
}

impl Dependent {
    /// The object, read now.
    pub async fn get(&self) -> Result<Deployment> {
        Ok(self.api.get(&self.name).await?)
    }

    /// The replicas it should have.
    pub async fn replicas(&self) -> Result<i32> {
        Ok(self
            .get()
            .await?
            .spec
            .and_then(|spec| spec.replicas)
            .unwrap_or(1))
    }

    /// An annotation, if it has it.
    pub async fn annotation(&self, key: &str) -> Result<Option<String>> {
        Ok(self
            .get()
            .await?
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(key))
    }

    /// Waits until it is scaled to this.
    pub async fn reaches(&self, replicas: i32) -> Result<()> {
        let what = format!("{} to be scaled to {replicas}", self.name);
        wait::until(&what, async || {
            let found = self.replicas().await?;
            seen(found == replicas, format!("{found} replicas"))
        })
        .await
    }

    /// Fails when it is scaled to anything else in that period.
    pub async fn stays_at(&self, replicas: i32, period: Duration) -> Result<()> {
        let what = format!("{} at {replicas} replicas", self.name);
        wait::holds(period, &what, async || {
            let found = self.replicas().await?;
            seen(found == replicas, format!("{found} replicas"))
        })
        .await
    }

    /// Waits until its pods are there, or gone.
    pub async fn is_ready(&self, replicas: i32) -> Result<()> {
        wait::until(
            &format!("{} to have {replicas} ready pods", self.name),
            async || {
                let found = self.get().await?;
                let generation = found.metadata.generation;
                let status = found.status.unwrap_or_default();
                let ready = status.ready_replicas.unwrap_or(0);
                Ok(
                    if ready == replicas && status.observed_generation == generation {
                        Look::Met(())
                    } else {
                        Look::Not(format!("{ready} ready"))
                    },
                )
            },
        )
        .await
    }

    /// Scales it, as a human would.
    pub async fn scale(&self, replicas: i32) -> Result<()> {
        self.patch(json!({"spec": {"replicas": replicas}})).await
    }

    /// Merges this into it.
    pub async fn patch(&self, patch: Value) -> Result<()> {
        self.api
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Deletes it.
    pub async fn delete(&self) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}
