//! A real CrashLoopBackOff, ended by the weeder: an API server waits for its etcd.

use super::steps::{container, documented, documented_line, pods, seconds};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog_e2e::{
    node::{Cluster, TOOLS},
    wait::{self, seen},
};
use k8s_openapi::api::core::v1::Pod;
use std::time::{Duration, Instant};

/// The policy of the guide selects this one.
const WEEDED: &str = "shoot--node--weeded";
/// The same, which no policy selects: its pods wait for their back-off.
const LEFT: &str = "shoot--node--left";
const API_SERVER: &str = "role=apiserver";
/// The longest back-off that is waited for, and some.
const BACK_OFF: Duration = Duration::from_secs(120);

/// It crash-loops while etcd is down, and is started as soon as etcd is ready.
pub(super) async fn ended(cluster: &Cluster, quick: bool) -> Result<String> {
    // With the restart comes a back-off of 10, 20, 40, 80 s.
    let restarts = if quick { 2 } else { 3 };
    for (namespace, label, address) in [(WEEDED, "shoot", "10.0.0.60"), (LEFT, "none", "10.0.0.61")]
    {
        cluster
            .apply(&control_plane(namespace, label, address))
            .await?;
    }
    documented(cluster, "kubectl apply -f docs/examples/weed-policy.yaml").await?;
    documented_line(cluster, "kubectl patch weedpol shoots").await?;
    wait::until("all pods to wait for their next start", async || {
        let mut all = pods(cluster, WEEDED, API_SERVER).await?;
        all.extend(pods(cluster, LEFT, API_SERVER).await?);
        let waiting = all.iter().filter(|pod| waits(pod, restarts)).count();
        seen(waiting == 4, format!("{waiting} of 4"))
    })
    .await?;
    let kubectl = cluster.kubectl();
    for namespace in [WEEDED, LEFT] {
        kubectl
            .run(&[
                "-n",
                namespace,
                "scale",
                "deployment",
                "etcd-main",
                "--replicas=1",
            ])
            .await?;
    }
    let (helped, alone) = tokio::try_join!(is_back(cluster, WEEDED), is_back(cluster, LEFT))?;
    let deletions = cluster.weeder_requests()?;
    let deletions = deletions
        .iter()
        .filter(|it| it.verb == "delete" && it.code == 200);
    let deletions: Vec<_> = deletions.map(|it| it.namespace.as_str()).collect();
    // One of the two may just have been started again by its kubelet.
    let as_told = (1..=2).contains(&deletions.len()) && deletions.iter().all(|it| *it == WEEDED);
    ensure!(as_told, "deleted in {deletions:?}");
    // Neither is a matter of speed: the one is a start, the other most of a back-off.
    ensure!(
        2 * helped < alone,
        "the weeder saved nothing: {helped:?} and {alone:?}"
    );
    Ok(format!(
        "ready {} after etcd, {} where nobody helped",
        seconds(helped),
        seconds(alone)
    ))
}

/// How long after etcd is ready both API servers are.
async fn is_back(cluster: &Cluster, namespace: &str) -> Result<Duration> {
    ready(cluster, namespace, "role=main", 1).await?;
    let begun = Instant::now();
    ready(cluster, namespace, API_SERVER, 2).await?;
    Ok(begun.elapsed())
}

async fn ready(cluster: &Cluster, namespace: &str, labels: &str, wanted: usize) -> Result<()> {
    let what = format!("{wanted} pods of {namespace} with {labels} to be ready");
    wait::until_within(BACK_OFF, &what, async || {
        let pods = pods(cluster, namespace, labels).await?;
        let ready = pods
            .iter()
            .filter(|pod| container(pod).is_ok_and(|it| it.ready))
            .count();
        seen(ready == wanted, format!("{ready}"))
    })
    .await
    .with_context(|| format!("in {namespace}"))
}

/// Whether it has been restarted so often, and runs no more. (Its reason is `CrashLoopBackOff` only some
/// time after it has ended.)
fn waits(pod: &Pod, restarts: i32) -> bool {
    container(pod).is_ok_and(|it| {
        let runs = it.state.as_ref().is_some_and(|it| it.running.is_some());
        it.restart_count >= restarts && !runs
    })
}

/// An API server that ends when etcd does not answer within some seconds, as a real one does, and etcd with no replicas. There is no DNS, so it
/// goes by the address of the Service.
fn control_plane(namespace: &str, role: &str, address: &str) -> String {
    format!(
        "apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}, labels: {{gardener.cloud/role: {role}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: etcd-main-client, namespace: {namespace}}}
spec: {{clusterIP: {address}, selector: {{role: main}}, ports: [{{port: 2379}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: etcd-main, namespace: {namespace}}}
spec:
  replicas: 0
  selector: {{matchLabels: {{role: main}}}}
  template:
    metadata: {{labels: {{gardener.cloud/role: controlplane, role: main}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: etcd
          image: {TOOLS}
          command: [httpd, -f, -p, '2379']
          readinessProbe: {{tcpSocket: {{port: 2379}}, periodSeconds: 1}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: kube-apiserver, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{role: apiserver}}}}
  template:
    metadata: {{labels: {{gardener.cloud/role: controlplane, role: apiserver}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: kube-apiserver
          image: {TOOLS}
          command: [sh, -c, 'for i in 1 2 3; do nc -w 1 {address} 2379 </dev/null && exec httpd -f -p 6443; sleep 1; done; exit 1']
          readinessProbe: {{tcpSocket: {{port: 6443}}, periodSeconds: 1}}
"
    )
}
