//! Applying YAML, as `kubectl apply --server-side` does.

use crate::wait::{self, Look, seen};
use anyhow::{Context as _, Result};
use dependency_watchdog::api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, Patch, PatchParams},
    discovery::{Scope, pinned_kind},
    runtime::{conditions::is_crd_established, wait::Condition as _},
};

const MANAGER: &str = "dependency-watchdog-e2e";

/// Applies every document in order, in its namespace or `default`; a CustomResourceDefinition is
/// served before the next one.
pub async fn apply(client: &Client, yaml: &str) -> Result<()> {
    let objects: Vec<DynamicObject> =
        serde_saphyr::from_multiple(yaml).context("not YAML of Kubernetes objects")?;
    for object in objects {
        let name = object.name_any();
        let types = object
            .types
            .clone()
            .with_context(|| format!("{name} has no kind"))?;
        let what = format!("{} {name}", types.kind);
        let gvk = GroupVersionKind::try_from(&types)?;
        let api = api_of(client, &gvk, object.namespace().as_deref()).await?;
        let params = PatchParams::apply(MANAGER).force();
        let patched = api.patch(&name, &params, &Patch::Apply(&object)).await;
        patched.with_context(|| format!("cannot apply {what}"))?;
        if types.kind == "CustomResourceDefinition" {
            established(client, &name).await?;
        }
    }
    Ok(())
}

async fn api_of(
    client: &Client,
    gvk: &GroupVersionKind,
    namespace: Option<&str>,
) -> Result<Api<DynamicObject>> {
    // A kind just defined takes a moment to be discoverable.
    wait::until(&format!("{} to be served", gvk.kind), async || {
        let (resource, capabilities) = pinned_kind(client, gvk).await?;
        let client = client.clone();
        Ok(Look::Met(match (capabilities.scope, namespace) {
            (Scope::Cluster, _) => Api::all_with(client, &resource),
            (Scope::Namespaced, None) => Api::default_namespaced_with(client, &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client, namespace, &resource)
            }
        }))
    })
    .await
}

/// Waits until the product's own kinds are served.
pub(crate) async fn served(client: &Client) -> Result<()> {
    for crd in crds() {
        established(client, &crd.name_any()).await?;
    }
    Ok(())
}

async fn established(client: &Client, name: &str) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    wait::until(
        &format!("the definition {name} to be established"),
        async || {
            let definition = definitions.get(name).await?;
            let conditions = definition.status.as_ref().map(|status| &status.conditions);
            seen(
                is_crd_established().matches_object(Some(&definition)),
                format!("{conditions:?}"),
            )
        },
    )
    .await
}
