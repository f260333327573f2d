//! The seed's side of the farm's shoots: what Gardener keeps there for each, in realistic sizes.

use crate::{
    DEPENDENTS, Kubeconfig,
    farm::{Description, TOKEN, node_name},
};
use anyhow::{Context as _, Result};
pub use fake::farm::namespace;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use serde_json::{Value, json};

/// How many shoots are made at once.
const AT_ONCE: usize = 16;
/// The Secret that the documented policy names.
const SECRET: &str = "shoot-access-dependency-watchdog-probe";
/// What each dependent has before an outage, in the order of [`DEPENDENTS`].
pub const REPLICAS: [i32; 3] = [2, 3, 1];

/// Creates all that the seed has of the farm's shoots, with so many nodes each.
pub async fn create(client: &Client, farm: &Description, nodes: usize) -> Result<()> {
    let embedded = Embedded::new();
    stream::iter(farm.ports.iter().enumerate())
        .map(|(shoot, port)| one(client, shoot, *port, nodes, &farm.authority, &embedded))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

async fn one(
    client: &Client,
    shoot: usize,
    port: u16,
    nodes: usize,
    authority: &str,
    embedded: &Embedded,
) -> Result<()> {
    let namespace = namespace(shoot);
    // What a namespace holds needs it to be there.
    let own = json!({"metadata": {"name": namespace}}).to_string();
    post(client, "/api/v1/namespaces", own).await?;
    let secret = secret(port, authority).to_string();
    post(
        client,
        &format!("/api/v1/namespaces/{namespace}/secrets"),
        secret,
    )
    .await?;
    let gardener = "/apis/extensions.gardener.cloud/v1alpha1/clusters";
    post(client, gardener, embedded.cluster(shoot, &namespace)).await?;
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    for (name, replicas) in DEPENDENTS.iter().zip(REPLICAS) {
        post(client, &deployments, deployment(name, replicas).to_string()).await?;
    }
    let machines = format!("/apis/machine.sapcloud.io/v1alpha1/namespaces/{namespace}/machines");
    for node in 0..nodes {
        post(
            client,
            &machines,
            machine(&node_name(shoot, node)).to_string(),
        )
        .await?;
    }
    Ok(())
}

async fn post(client: &Client, path: &str, body: String) -> Result<()> {
    let request = http::Request::post(path)
        .header("Content-Type", "application/json")
        .body(body.into_bytes())?;
    let answer = client.request_text(request).await;
    answer.with_context(|| format!("POST {path} on the seed"))?;
    Ok(())
}

/// The Secret by which a shoot at this port is read.
fn secret(port: u16, authority: &str) -> Value {
    let kubeconfig = Kubeconfig {
        server: format!("https://127.0.0.1:{port}"),
        certificate_authority: authority.as_bytes().to_vec(),
        user: "dependency-watchdog-probe".to_owned(),
        token: TOKEN.to_owned(),
    };
    json!({
        "metadata": {"name": SECRET},
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    })
}

/// Its phase, a status, is left out: to the operator that is the same as `Running`, and it would
/// double the writes.
fn machine(node: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": node,
            "labels": {"node": node, "name": "worker-z1", "machine-template-hash": "5d7f9"},
            "annotations": {"node.machine.sapcloud.io/trigger-deletion-by-mcm": "false"},
            "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
        },
        "spec": {
            "class": {"apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": "worker-z1-5d7f9"},
            "nodeTemplate": {
                "metadata": {"labels": {
                    "node.kubernetes.io/role": "node",
                    "worker.gardener.cloud/cri-name": "containerd",
                    "worker.gardener.cloud/pool": "worker",
                    "worker.gardener.cloud/system-components": "true",
                }},
                "spec": {},
            },
            "providerID": format!("aws:///eu-west-1/{node}"),
        },
    })
}

fn deployment(name: &str, replicas: i32) -> Value {
    let labels = json!({"app": name});
    let args: Vec<String> = (0..60)
        .map(|number| format!("--some-flag-of-a-control-plane-{number}=its-value"))
        .collect();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"gardener.cloud/role": "controlplane"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": name, "command": args}]},
            },
        },
    })
}

/// What every Cluster embeds alike: a cloud profile with all machine types, and the Seed.
struct Embedded {
    cloud_profile: String,
    seed: String,
}

impl Embedded {
    fn new() -> Self {
        let machine_type = json!({
            "name": "m5.xlarge", "cpu": "4", "gpu": "0", "memory": "16Gi", "usable": true,
            "architecture": "amd64", "storage": {"class": "standard", "type": "default"},
        });
        let image = json!({
            "version": "1877.4.0",
            "architectures": ["amd64", "arm64"],
            "classification": "supported",
            "cri": [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}],
            "kubeletVersionConstraint": ">= 1.30.0",
        });
        let region = json!({
            "name": "region-1",
            "zones": [{"name": "region-1a"}, {"name": "region-1b"}, {"name": "region-1c"}],
            "images": vec![json!({"version": "1877.4.0", "ami": "ami-00000001000000001"}); 12],
        });
        let cloud_profile = json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "CloudProfile",
            "metadata": {"name": "aws"},
            "spec": {
                "type": "aws",
                "machineTypes": vec![machine_type; 320],
                "machineImages": [{"name": "gardenlinux", "versions": vec![image; 120]}],
                "regions": vec![region; 24],
            },
        });
        let seed = json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "Seed",
            "metadata": {"name": "bench"},
            "spec": {"provider": {"type": "aws", "region": "eu-west-1", "zones": ["a", "b", "c"]}},
        });
        Self {
            cloud_profile: cloud_profile.to_string(),
            seed: seed.to_string(),
        }
    }

    /// A whole Cluster.
    fn cluster(&self, shoot: usize, namespace: &str) -> String {
        let addons = "a resource of the shoot is as it should be; ".repeat(120);
        let shoot = json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "Shoot",
            "metadata": {
                "name": format!("s{shoot:04}"),
                "namespace": "garden-bench",
                "labels": {"shoot.gardener.cloud/status": "healthy"},
            },
            "spec": {
                "kubernetes": {"version": "1.36.3"},
                "provider": {"type": "aws", "workers": [{
                    "name": "worker", "minimum": 1, "maximum": 200,
                    "machine": {"type": "m5.xlarge", "image": {"name": "gardenlinux"}},
                    "zones": ["eu-west-1a", "eu-west-1b", "eu-west-1c"],
                }]},
            },
            "status": {
                "conditions": [{"type": "SystemComponentsHealthy", "status": "True", "message": addons}],
                "hibernated": false,
                "lastOperation": {
                    "type": "Reconcile", "state": "Succeeded", "progress": 100,
                    "lastUpdateTime": "2026-01-01T00:00:00Z",
                },
            },
        });
        let Self {
            cloud_profile,
            seed,
        } = self;
        format!(
            r#"{{"apiVersion":"extensions.gardener.cloud/v1alpha1","kind":"Cluster","metadata":{{"name":"{namespace}"}},"spec":{{"cloudProfile":{cloud_profile},"seed":{seed},"shoot":{shoot}}}}}"#
        )
    }
}
