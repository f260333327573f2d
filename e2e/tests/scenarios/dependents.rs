//! What a dependent can be, and what is said of one that cannot be scaled.

use super::{
    Scenario,
    steps::{
        KCM, MCM, back, deployment, is, is_degraded, is_looked_at, is_sound, owed, says, staffed,
        taken, writes,
    },
};
use anyhow::{Result, ensure};
use dependency_watchdog::{
    api::Protection,
    prober::step::{MARK, RECORD},
};
use dependency_watchdog_e2e::{
    Env, Shoot,
    wait::{self, seen},
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// After so many looks at a dependent, what does not depend on it would have been done.
const LOOKS: usize = 4;

/// What a user grants the operator to scale more than the default dependents.
const OTHER_DEPENDENTS: &str = "manifests/examples/other-dependents";

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_custom_resource_with_scale_is_scaled_in_its_level,
        e2e_a_reference_that_cannot_be_scaled_is_named_with_the_remedy,
    ]
}

/// An Etcd whose controller is the scenario: it sets the status.
struct Etcd(Api<DynamicObject>);

impl Etcd {
    const NAME: &str = "etcd-main";

    async fn create(shoot: &Shoot, replicas: i32) -> Result<Self> {
        let seed = shoot.control_plane.seed();
        seed.apply(include_str!("etcd.yaml")).await?;
        seed.kubectl().apply(OTHER_DEPENDENTS).await?;
        let kind = ApiResource {
            group: "druid.gardener.cloud".into(),
            version: "v1alpha1".into(),
            api_version: "druid.gardener.cloud/v1alpha1".into(),
            kind: "Etcd".into(),
            plural: "etcds".into(),
        };
        let etcd = Self(Api::namespaced_with(
            seed.client()?,
            shoot.namespace(),
            &kind,
        ));
        let object = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": Self::NAME},
            "spec": {"replicas": replicas},
        });
        let object = serde_json::from_value(object)?;
        etcd.0.create(&PostParams::default(), &object).await?;
        etcd.has(replicas).await?;
        Ok(etcd)
    }

    /// Sets how many members there are.
    async fn has(&self, members: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"status": {"replicas": members}}));
        self.0
            .patch_status(Self::NAME, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until it should have so many, and carries this record, with the mark, or none.
    async fn becomes(&self, replicas: i32, record: Option<&str>) -> Result<()> {
        let what = format!("the Etcd to have {replicas} replicas and the record {record:?}");
        wait::until(&what, async || {
            let found = self.0.get(Self::NAME).await?;
            let wanted = found.data.pointer("/spec/replicas").and_then(Value::as_i64);
            let annotations = found.metadata.annotations.unwrap_or_default();
            let recorded = annotations.get(RECORD).map(String::as_str);
            let met = wanted == Some(replicas.into())
                && recorded == record
                && annotations.contains_key(MARK) == record.is_some();
            seen(met, format!("{wanted:?} replicas, {annotations:?}"))
        })
        .await
    }
}

/// Gives the kubeconfig of a shoot a second Secret, of this name.
async fn name_the_secret(shoot: &Shoot, name: &str) -> Result<()> {
    let client = shoot.control_plane.seed().client()?;
    let secrets: Api<Secret> = Api::namespaced(client, shoot.namespace());
    let mut secret = secrets.get(shoot.control_plane.kubeconfig_secret()).await?;
    secret.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    secrets.create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// By the rights of the example, and no others.
async fn e2e_a_custom_resource_with_scale_is_scaled_in_its_level(env: Env) -> Result<()> {
    env.operator().await?;
    let shoot = staffed(env.shoot("custom")).await?;
    let etcd = Etcd::create(&shoot, 3).await?;
    name_the_secret(&shoot, "my-kubeconfig").await?;
    let (first, then) = (
        json!({"level": 0, "timeout": "1m"}),
        json!({"level": 1, "timeout": "1m"}),
    );
    let policy = shoot.policy()?.with(&json!({"kubeConfigSecretName": "my-kubeconfig", "dependentResourceInfos": [
        {
            "ref": {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "name": Etcd::NAME},
            "optional": false,
            "scaleDown": first,
            "scaleUp": first,
        },
        deployment(KCM, &then, &then),
    ]}));
    policy.apply().await?;
    shoot.is_found("Healthy").await?;
    is_sound(&shoot).await?;

    shoot.cut_all();
    // On the way down a level does not wait for long.
    etcd.becomes(0, Some("3")).await?;
    etcd.has(0).await?;
    let status = shoot.is_protected(Protection::Active).await?;
    ensure!(owed(&status) == [KCM, Etcd::NAME], "{status:?}");
    is(&shoot, KCM, taken(2)).await?;

    // On the way up each waits for the one before to be really there.
    shoot.restore_all();
    etcd.becomes(3, Some("3")).await?;
    is_looked_at(&shoot, Etcd::NAME, LOOKS).await?;
    is(&shoot, KCM, taken(2)).await?;
    etcd.has(3).await?;
    shoot.is_protected(Protection::None).await?;
    is(&shoot, KCM, back(2)).await?;

    let writes = writes(&shoot)?;
    let resources: Vec<&str> = writes.iter().map(|write| &*write.resource).collect();
    let (etcds, scale, deployments) = ("etcds", "etcds/scale", "deployments");
    ensure!(
        resources == [etcds, scale, deployments, scale, deployments],
        "{resources:?}"
    );
    Ok(())
}

/// A reference that cannot be scaled, the reason that is given, and words of the remedy.
struct Unscalable {
    name: &'static str,
    reference: [&'static str; 3],
    reason: &'static str,
    words: [&'static str; 2],
}

const UNSCALABLE: [Unscalable; 4] = [
    Unscalable {
        name: "forbidden",
        reference: ["apps/v1", "Deployment", "gardener-resource-manager"],
        reason: "ScalingForbidden",
        words: ["get is forbidden", "grant it"],
    },
    Unscalable {
        name: "unserved",
        reference: ["etcd.example.org/v1", "Etcd", "etcd-main"],
        reason: "KindUnknown",
        words: ["the seed does not serve this kind", "correct apiVersion"],
    },
    Unscalable {
        name: "cluster-scoped",
        reference: ["v1", "Node", "a-node"],
        reason: "NotScalable",
        words: ["the kind is cluster-scoped", "only namespaced kinds"],
    },
    Unscalable {
        name: "unscalable",
        reference: ["v1", "ConfigMap", "a-config"],
        reason: "NotScalable",
        words: ["has no scale subresource", "only namespaced kinds"],
    },
];

async fn e2e_a_reference_that_cannot_be_scaled_is_named_with_the_remedy(env: Env) -> Result<()> {
    env.operator().await?;
    let ground = env.shoot("scalable").nodes(1).await?;
    let bad = UNSCALABLE.iter().map(async |case| -> Result<Shoot> {
        let shoot = staffed(env.shoot(case.name).nodes(2).beside(&ground)).await?;
        let level = |level: u32| json!({"level": level});
        let [api_version, kind, name] = case.reference;
        let policy = shoot.policy()?.with(&json!({"dependentResourceInfos": [
            deployment(KCM, &level(0), &level(2)),
            {
                "ref": {"apiVersion": api_version, "kind": kind, "name": name},
                "optional": false,
                "scaleDown": level(1),
                "scaleUp": level(1),
            },
            deployment(MCM, &level(2), &level(0)),
        ]}));
        policy.apply().await?;
        Ok(shoot)
    });
    let bad = try_join_all(bad).await?;
    for (shoot, case) in bad.iter().zip(&UNSCALABLE) {
        let status = is_degraded(shoot, case.reason).await?;
        let [_, _, name] = case.reference;
        says(&status, &[name])?;
        says(&status, &case.words)?;
    }
    Ok(())
}
