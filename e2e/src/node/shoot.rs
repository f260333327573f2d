//! A shoot whose control plane are pods of the cluster, and whose nodes are real ones beside it.

use super::{Cluster, Node, TOOLS, machine::Plan};
use crate::{
    Kubeconfig, Kubectl,
    wait::{self, Look},
};
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node as Object};
use kube::{Api, Client};
use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::Duration,
};

/// The address of the Service of its API server, by which all reach it: there is no DNS.
const ADDRESS: &str = "10.0.0.71";
const ETCD: &str = "10.0.0.70";
/// What its kube-controller-manager is run with, and its Shoot says.
pub const GRACE: Duration = Duration::from_secs(50);
/// What Gardener scales, with the replicas that they have here.
const OTHERS: [(&str, i32); 2] = [("machine-controller-manager", 1), ("cluster-autoscaler", 1)];
/// Its nodes, their addresses, and the networks of their pods.
const NODES: [(&str, Ipv4Addr, &str); 2] = [
    ("shoot-1", Ipv4Addr::new(10, 77, 0, 11), "10.88.1"),
    ("shoot-2", Ipv4Addr::new(10, 77, 0, 12), "10.88.2"),
];

/// A running shoot.
pub struct RealShoot {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// The namespace of its control plane, and the name of its Cluster.
    pub namespace: &'static str,
    /// The kubeconfig of its administrator.
    pub kubeconfig: PathBuf,
    client: Client,
}

impl RealShoot {
    /// Starts one: its control plane on the seed, then its nodes.
    pub async fn start(cluster: &Cluster, namespace: &'static str) -> Result<Self> {
        let directory = cluster.inside.root.join(namespace);
        fs::create_dir_all(&directory)?;
        let token = |_: usize| format!("{:032x}", fastrand::u128(..));
        let tokens: Vec<String> = (0..=NODES.len()).map(token).collect();
        let mut users = vec![format!("{},admin,admin,system:masters", first(&tokens)?)];
        for ((name, ..), token) in NODES.iter().zip(tokens.iter().skip(1)) {
            users.push(format!("{token},system:node:{name},{name},system:nodes"));
        }
        fs::write(directory.join("tokens.csv"), users.join("\n"))?;
        let kubeconfig_of = |user: &str, token: &str, authority: &[u8]| Kubeconfig {
            server: format!("https://{ADDRESS}"),
            certificate_authority: authority.to_vec(),
            user: user.to_owned(),
            token: token.to_owned(),
        };
        let servers = cluster.assets.directory();
        cluster
            .apply(&control_plane(namespace, &directory, servers))
            .await?;
        // It signs its certificate itself, and writes it where it is read here.
        let certificate = directory.join("certificates/apiserver.crt");
        let authority = wait::until("the certificate of the shoot's API server", async || {
            Ok(match fs::read(&certificate) {
                Ok(bytes) if !bytes.is_empty() => Look::Met(bytes),
                other => Look::Not(format!("{:?}", other.map(|it| it.len()))),
            })
        })
        .await?;
        let admin = kubeconfig_of("admin", first(&tokens)?, &authority);
        let kubeconfig = directory.join("kubeconfig.yaml");
        fs::write(&kubeconfig, admin.to_string())?;
        let client = admin.client().await?;
        wait::until("the shoot's API server to be ready", async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(Look::Met(()))
        })
        .await?;

        let pki = fs::read_to_string(cluster.inside.root.join(super::cluster::AUTHORITY))?;
        // Of the images only those that any node has.
        let images: Vec<PathBuf> = cluster.images.iter().take(2).cloned().collect();
        let mut nodes = Vec::new();
        for ((name, address, pods), token) in NODES.iter().zip(tokens.iter().skip(1)) {
            let plan = Plan {
                name,
                address: *address,
                pods,
                apart: true,
                kubeconfig: &kubeconfig_of(name, token, &authority),
                authority: &pki,
                images: &images,
            };
            let node = Node::start(&cluster.inside, &cluster.servers, &plan).await?;
            cluster.apply(&machine(namespace, name)).await?;
            nodes.push(node);
        }
        for node in &nodes {
            node.is_ready(&client).await?;
        }
        Ok(Self {
            nodes,
            namespace,
            kubeconfig,
            client,
        })
    }

    /// What the commands of the guide want to know of it.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("SHOOT", self.kubeconfig.display().to_string()),
            ("NAMESPACE", self.namespace.to_owned()),
        ]
    }

    /// kubectl as its administrator.
    pub fn kubectl(&self, cluster: &Cluster) -> Kubectl {
        Kubectl::with(&cluster.assets, self.kubeconfig.clone())
    }

    /// When the lease of each node was renewed last, in the order of their names.
    pub async fn renewals(&self) -> Result<Vec<Timestamp>> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let mut renewals = Vec::new();
        for node in &self.nodes {
            let lease = api.get(&node.name).await?;
            let renewed = lease.spec.and_then(|it| it.renew_time);
            renewals.push(
                renewed
                    .with_context(|| format!("{} has never renewed", node.name))?
                    .0,
            );
        }
        Ok(renewals)
    }

    /// For each node whether it is Ready, and since when: `True since 2026-01-01T00:00:00Z`.
    pub async fn readiness(&self) -> Result<Vec<String>> {
        let api: Api<Object> = Api::all(self.client.clone());
        let mut all = Vec::new();
        for node in &self.nodes {
            let conditions = api
                .get(&node.name)
                .await?
                .status
                .and_then(|it| it.conditions);
            let ready = conditions
                .unwrap_or_default()
                .into_iter()
                .find(|it| it.type_ == "Ready");
            let ready = ready.with_context(|| format!("{} has no condition Ready", node.name))?;
            let since = ready.last_transition_time.map(|it| it.0.to_string());
            all.push(format!(
                "{} since {}",
                ready.status,
                since.unwrap_or_default()
            ));
        }
        Ok(all)
    }

    /// Cuts the way of all nodes to the API server, or lets them back.
    pub async fn cut(&self, cut: bool) -> Result<()> {
        for node in &self.nodes {
            node.cut(cut).await?;
        }
        Ok(())
    }

    /// Where the API server is, as its nodes connect to it.
    pub fn server(&self) -> String {
        format!("{ADDRESS}:443")
    }
}

fn first(tokens: &[String]) -> Result<&str> {
    Ok(tokens.first().context("no token")?)
}

fn machine(namespace: &str, node: &str) -> String {
    format!(
        "{{apiVersion: machine.sapcloud.io/v1alpha1, kind: Machine, \
         metadata: {{name: {node}, namespace: {namespace}, labels: {{node: {node}}}}}}}"
    )
}

/// A command line as a list in YAML.
fn words(line: &str) -> String {
    let words: Vec<_> = line
        .split_whitespace()
        .map(|it| format!("{it:?}"))
        .collect();
    format!("[{}]", words.join(", "))
}

/// Its namespace, its Cluster, and its control plane of real servers, whose binaries are mounted. The two
/// other dependents do nothing.
fn control_plane(namespace: &str, directory: &Path, servers: &Path) -> String {
    let (directory, servers, grace) = (directory.display(), servers.display(), GRACE.as_secs());
    let deployment = |name: &str, command: &str, mounts: &str, volumes: &str, replicas: i32| {
        format!(
            "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  strategy: {{type: Recreate}}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 2
      automountServiceAccountToken: false
      enableServiceLinks: false
      containers:
        - name: {name}
          image: {TOOLS}
          command: {command}
          volumeMounts: [{mounts}]
      volumes: [{volumes}]
"
        )
    };
    let mounts =
        "{name: servers, mountPath: /servers, readOnly: true}, {name: files, mountPath: /files}";
    let volumes = format!(
        "{{name: servers, hostPath: {{path: '{servers}'}}}}, {{name: files, hostPath: {{path: '{directory}'}}}}"
    );
    let mut text = format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: extensions.gardener.cloud/v1alpha1
kind: Cluster
metadata: {{name: {namespace}}}
spec:
  cloudProfile: {{}}
  seed: {{}}
  shoot:
    apiVersion: core.gardener.cloud/v1beta1
    kind: Shoot
    metadata: {{name: real, namespace: garden-node}}
    spec:
      provider: {{type: local, workers: [{{name: worker}}]}}
      kubernetes: {{kubeControllerManager: {{nodeMonitorGracePeriod: {grace}s}}}}
    status:
      lastOperation: {{type: Reconcile, state: Succeeded, progress: 100, lastUpdateTime: '2026-01-01T00:00:00Z'}}
---
apiVersion: v1
kind: Service
metadata: {{name: etcd-main-client, namespace: {namespace}}}
spec: {{clusterIP: {ETCD}, selector: {{app: etcd-main}}, ports: [{{port: 2379}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: kube-apiserver, namespace: {namespace}}}
spec: {{clusterIP: {ADDRESS}, selector: {{app: kube-apiserver}}, ports: [{{port: 443, targetPort: 6443}}]}}
"
    );
    let etcd = words(&format!(
        "/servers/etcd --data-dir=/tmp/etcd --unsafe-no-fsync --log-level=warn \
         --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://{ETCD}:2379"
    ));
    let api_server = words(&format!(
        "/servers/kube-apiserver --etcd-servers=http://{ETCD}:2379 --secure-port=6443 \
         --advertise-address={ADDRESS} --endpoint-reconciler-type=none --authorization-mode=Node,RBAC \
         --cert-dir=/files/certificates --token-auth-file=/files/tokens.csv \
         --service-cluster-ip-range=10.1.0.0/24 --service-account-issuer=https://kubernetes.default.svc \
         --service-account-key-file=/files/certificates/apiserver.key \
         --service-account-signing-key-file=/files/certificates/apiserver.key"
    ));
    let controllers = words(&format!(
        "/servers/kube-controller-manager --kubeconfig=/files/kubeconfig.yaml --leader-elect=false \
         --node-monitor-grace-period={grace}s --cert-dir=/tmp/certificates \
         --root-ca-file=/files/certificates/apiserver.crt \
         --service-account-private-key-file=/files/certificates/apiserver.key"
    ));
    text += &deployment("etcd-main", &etcd, mounts, &volumes, 1);
    text += &deployment("kube-apiserver", &api_server, mounts, &volumes, 1);
    text += &deployment("kube-controller-manager", &controllers, mounts, &volumes, 1);
    for (name, replicas) in OTHERS {
        text += &deployment(name, "[sh, -c, 'sleep 1000000 & wait']", "", "", replicas);
    }
    text
}
