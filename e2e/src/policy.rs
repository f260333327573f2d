//! Policies for scenarios, and what the operator reports of them and of their clusters.

use crate::{
    ControlPlane, Shoot, Stack,
    wait::{self, Look},
};
use anyhow::{Context as _, Result};
use dependency_watchdog::api::{
    ClusterHealth, ClusterHealthStatus, ProbePolicy, Protection, WeedPolicy, WeedPolicyStatus,
};
use fake::oracle::DEPENDENTS;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// A policy: a ProbePolicy for [one shoot](Shoot::policy), or a WeedPolicy for
/// [one namespace](Stack::policy).
#[derive(Clone)]
pub struct Policy<K = ProbePolicy> {
    api: Api<K>,
    name: String,
    spec: Value,
}

/// A kind of policy.
pub trait PolicyKind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// Those of its status.
    fn conditions(self) -> Vec<Condition>;
}

impl PolicyKind for ProbePolicy {
    fn conditions(self) -> Vec<Condition> {
        self.status.unwrap_or_default().conditions
    }
}

impl PolicyKind for WeedPolicy {
    fn conditions(self) -> Vec<Condition> {
        self.status.unwrap_or_default().conditions
    }
}

impl<K: PolicyKind> Policy<K> {
    /// Under another name, so that there are two.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Merges this into the spec.
    #[must_use]
    pub fn with(mut self, patch: &Value) -> Self {
        json_patch::merge(&mut self.spec, patch);
        self
    }

    /// Applies it, as it is described by now.
    pub async fn apply(&self) -> Result<()> {
        let object = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": self.name},
            "spec": self.spec,
        });
        let params = PatchParams::apply("e2e").force();
        let applied = self
            .api
            .patch(&self.name, &params, &Patch::Apply(object))
            .await;
        applied.with_context(|| format!("cannot apply {}", self.name))?;
        Ok(())
    }

    /// The object, read now.
    pub async fn get(&self) -> Result<K> {
        Ok(self.api.get(&self.name).await?)
    }

    /// Waits until a condition has this reason, and returns its message.
    pub async fn says(&self, kind: &str, reason: &str) -> Result<String> {
        wait::until(
            &format!("{kind} of {} to be {reason}", self.name),
            async || {
                let mut conditions = self.get().await?.conditions().into_iter();
                Ok(match conditions.find(|it| it.type_ == kind) {
                    Some(found) if found.reason == reason => Look::Met(found.message),
                    found => Look::Not(format!("{found:?}")),
                })
            },
        )
        .await
    }

    /// Whether there is such an object.
    pub async fn exists(&self) -> Result<bool> {
        Ok(self.api.get_opt(&self.name).await?.is_some())
    }

    /// Asks for its deletion.
    pub async fn delete(&self) -> Result<()> {
        self.api
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

impl Policy<WeedPolicy> {
    /// Waits until its status is that of the policy as it is now, and of this kind.
    pub async fn reports(
        &self,
        what: &str,
        met: impl Fn(&WeedPolicyStatus) -> bool,
    ) -> Result<WeedPolicyStatus> {
        wait::until(&format!("{} to report {what}", self.name), async || {
            let policy = self.get().await?;
            let status = policy.status.unwrap_or_default();
            let current = status.observed_generation == policy.metadata.generation;
            Ok(if current && met(&status) {
                Look::Met(status)
            } else {
                Look::Not(serde_json::to_string(&status)?)
            })
        })
        .await
    }
}

impl Stack {
    /// A policy for this namespace alone, named as it, with these services and the selectors of
    /// pods that need them: `{"etcd-main-client": [{"matchLabels": …}]}`.
    pub fn policy(&self, services: &[(&str, Value)]) -> Result<Policy<WeedPolicy>> {
        let services = services.iter().map(|(service, selectors)| {
            let selectors = json!({"podSelectors": selectors});
            ((*service).to_owned(), selectors)
        });
        let labels = json!({"kubernetes.io/metadata.name": self.namespace()});
        Ok(Policy {
            api: Api::all(self.seed().client()?),
            name: self.namespace().to_owned(),
            spec: json!({
                "mode": "Enforce",
                "namespaceSelector": {"matchLabels": labels},
                "servicesAndDependantSelectors": services.collect::<serde_json::Map<_, _>>(),
            }),
        })
    }
}

impl Shoot {
    /// A policy for this shoot alone, named as its namespace.
    ///
    /// By default its grace is 8 s (so leases of 4 s expire after 6 s), it probes every second,
    /// without an initial delay, and scales kube-controller-manager, machine-controller-manager and
    /// cluster-autoscaler down in this order and up in the opposite one.
    pub fn policy(&self) -> Result<Policy> {
        let scenario = self.namespace().trim_start_matches("shoot--e2e--");
        let level = |level: usize| json!({"level": level, "timeout": "10s"});
        let dependents: Vec<Value> = DEPENDENTS
            .iter()
            .enumerate()
            .map(|(place, name)| {
                json!({
                    "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                    "optional": false,
                    "scaleDown": level(place),
                    "scaleUp": level(DEPENDENTS.len() - 1 - place),
                })
            })
            .collect();
        Ok(Policy {
            api: Api::all(self.control_plane.seed().client()?),
            name: self.namespace().to_owned(),
            spec: json!({
                "clusterSelector": {"matchLabels": {"scenario": scenario}},
                "mode": "Enforce",
                "kubeConfigSecretName": self.control_plane.kubeconfig_secret(),
                "probeInterval": "1s",
                "probeTimeout": "5s",
                "initialDelay": "0s",
                "kcmNodeMonitorGraceDuration": "8s",
                "dependentResourceInfos": dependents,
            }),
        })
    }

    /// Waits until the operator reports this finding.
    pub async fn is_found(&self, reason: &str) -> Result<ClusterHealthStatus> {
        let what = format!("{} to be found {reason}", self.namespace());
        self.reports(&what, |status| status.reason.as_deref() == Some(reason))
            .await
    }

    /// Waits until the operator reports this protection.
    pub async fn is_protected(&self, protection: Protection) -> Result<ClusterHealthStatus> {
        let what = format!(
            "the protection of {} to be {protection:?}",
            self.namespace()
        );
        self.reports(&what, |status| status.protection == protection)
            .await
    }

    /// Waits until the operator reports something of this kind.
    pub async fn reports(
        &self,
        what: &str,
        met: impl Fn(&ClusterHealthStatus) -> bool,
    ) -> Result<ClusterHealthStatus> {
        wait::until(what, async || {
            let status = self.control_plane.health().await?;
            Ok(if met(&status) {
                Look::Met(status)
            } else {
                Look::Not(serde_json::to_string(&status)?)
            })
        })
        .await
    }
}

impl ControlPlane {
    /// What the operator reports of it.
    pub async fn health(&self) -> Result<ClusterHealthStatus> {
        let api: Api<ClusterHealth> = Api::all(self.seed().client()?);
        let found = api.get_opt(self.namespace()).await?;
        let status = found.and_then(|found| found.status);
        status.with_context(|| format!("no ClusterHealth of {} has a status", self.namespace()))
    }
}
