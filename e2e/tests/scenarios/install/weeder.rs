//! The weeder as it is installed, run as it is deployed.

use super::{super::Scenario, WEEDER, deployed, documented, leads, nothing_is_left};
use anyhow::{Result, ensure};
use dependency_watchdog::api::WeedPolicy;
use dependency_watchdog_e2e::{
    App, Env, Stack,
    wait::{self, seen},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};

const ETCD: App<'_> = App {
    name: "etcd-main",
    replicas: 1,
    labels: &[("gardener.cloud/role", "controlplane"), ("role", "main")],
    service: Some("etcd-main-client"),
    needs: None,
};
const API_SERVER: App<'_> = App {
    name: "kube-apiserver",
    labels: &[
        ("gardener.cloud/role", "controlplane"),
        ("role", "apiserver"),
    ],
    service: None,
    needs: Some("etcd-main-client"),
    ..ETCD
};

pub(super) fn all() -> Vec<Scenario> {
    super::super::scenarios![e2e_the_weeder_as_documented_weeds_and_is_uninstalled]
}

async fn e2e_the_weeder_as_documented_weeds_and_is_uninstalled(env: Env) -> Result<()> {
    let seed = env.bare_seed("install-weeder").await?;
    let workloads = env.workloads(&seed).await?;
    let stack = workloads.stack("shoot--e2e--install-weeder").await?;
    let role = [
        "label",
        "namespace",
        stack.namespace(),
        "gardener.cloud/role=shoot",
    ];
    seed.kubectl().run(&role).await?;
    stack.run(&ETCD).await?;
    stack.run(&API_SERVER).await?;

    seed.kubectl()
        .run(&["create", "namespace", "garden"])
        .await?;
    documented(&seed, "kubectl apply --server-side -k manifests").await?;
    documented(
        &seed,
        "kubectl -n garden rollout status deployment dwd-weeder",
    )
    .await?;
    let operator = deployed(&seed, WEEDER).await?;
    leads(&seed, WEEDER).await?;
    seed.kubectl()
        .apply("manifests/examples/looping-pods-only")
        .await?;
    no_pod_that_runs_can_be_deleted(&stack).await?;

    // As the guide has it, it only tells at first.
    documented(&seed, "kubectl apply -f docs/examples/weed-policy.yaml").await?;
    stack.crash(&API_SERVER);
    let looping = stack.is_looping(&API_SERVER).await?;
    let policies: Api<WeedPolicy> = Api::all(seed.client()?);
    wait::until("the pod to be told of", async || {
        let status = policies.get("shoots").await?.status.unwrap_or_default();
        let told = status.last_weeds.iter().any(|it| it.dry_run);
        seen(told, serde_json::to_string(&status)?)
    })
    .await?;
    let shown = documented(&seed, "kubectl get weedpol").await?;
    ensure!(shown.contains("DryRun"), "{shown}");
    ensure!(stack.uids(&API_SERVER).await? == looping, "it was deleted");
    documented(
        &seed,
        r#"kubectl patch weedpol shoots --type merge -p '{"spec":{"mode":"Enforce"}}'"#,
    )
    .await?;
    wait::until("the pod to be replaced", async || {
        let now = stack.uids(&API_SERVER).await?;
        seen(now.is_disjoint(&looping), format!("{now:?}"))
    })
    .await?;
    stack.is_ready(&API_SERVER).await?;

    // The policy holds nothing up.
    documented(&seed, "kubectl delete -k manifests").await?;
    let exit = operator.process.terminate(wait::LIMIT).await?;
    ensure!(exit.success(), "{exit}");
    let lease = "kubectl -n garden delete lease dwd-weeder-leader-election";
    documented(&seed, lease).await?;
    nothing_is_left(&seed).await
}

/// Waits until the API server refuses the weeder the deletion of a pod that runs, though it may delete
/// pods.
async fn no_pod_that_runs_can_be_deleted(stack: &Stack) -> Result<()> {
    let client = stack.seed().weeder_kubeconfig()?.client().await?;
    let pods: Api<Pod> = Api::namespaced(client, stack.namespace());
    let running = stack.pods(&API_SERVER).await?;
    let name = running.iter().find_map(|pod| pod.metadata.name.as_deref());
    let name = name.unwrap_or_default();
    wait::until("its deletion to be refused", async || {
        let params = DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        };
        let answer = pods.delete(name, &params).await;
        let refused = matches!(&answer, Err(kube::Error::Api(status))
            if status.message.contains("dependency-watchdog-looping-pods-only"));
        seen(refused, format!("{answer:?}"))
    })
    .await
}
