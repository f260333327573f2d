//! Where runs take place: a seed, and an API server on which all shoots have their nodes.

use super::identity::Identity;
use crate::{Env, Etcd, Seed, Shoot};
use anyhow::{Context as _, Result};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Api, api::DeleteParams};
use std::sync::Arc;

/// A kind of which the annotations and the replicas are written apart.
const ETCDS: &str = include_str!("../../tests/scenarios/etcd.yaml");

/// The operator may write to every Deployment, also to those that it has no business with: to leave
/// them alone is no merit without the right to touch them. And there may be an election in every
/// namespace.
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: dwd-prober-chaos}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get, patch]}
- {apiGroups: [druid.gardener.cloud], resources: [etcds, etcds/scale], verbs: [get, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dwd-prober-chaos}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dwd-prober-chaos}
subjects: [{kind: ServiceAccount, name: dwd-prober, namespace: garden}]
";

/// A seed on which many runs take place at once, or one that is restarted, and then only one.
pub(super) struct Stage {
    pub(super) env: Env,
    pub(super) seed: Arc<Seed>,
    pub(super) identity: Identity,
    /// Of the seed, if it is of its own.
    etcd: Option<Etcd>,
    ground: Arc<Shoot>,
}

impl Stage {
    /// A stage for many.
    pub(super) async fn new(env: &Env, name: &str) -> Result<Self> {
        let seed = env.own_seed(name).await?;
        let ground = env.shoot(&format!("{name}-ground")).nodes(1).on(&seed);
        let ground = Arc::new(ground.await?);
        Self::set(env, seed, None, ground).await
    }

    /// Another for one run at a time, whose etcd and API server may be stopped. Shoots have their
    /// nodes where they have them on this one.
    pub(super) async fn fragile(&self, name: &str) -> Result<Self> {
        let (etcd, seed) = self.env.seed_on_own_etcd(name).await?;
        Self::set(&self.env, seed, Some(etcd), Arc::clone(&self.ground)).await
    }

    async fn set(
        env: &Env,
        seed: Arc<Seed>,
        etcd: Option<Etcd>,
        ground: Arc<Shoot>,
    ) -> Result<Self> {
        seed.apply(ETCDS).await?;
        seed.apply(RIGHTS).await?;
        Ok(Self {
            env: env.clone(),
            seed,
            identity: Identity::new()?,
            etcd,
            ground,
        })
    }

    /// A new shoot.
    pub(super) async fn shoot(&self, name: &str, nodes: usize) -> Result<Shoot> {
        let shoot = self.env.shoot(name).nodes(nodes);
        shoot.beside(&self.ground).on(&self.seed).await
    }

    /// Takes the nodes of a shoot off the API server that it shares.
    pub(super) async fn clean(&self, shoot: &Shoot) -> Result<()> {
        shoot.cut_all();
        let client = shoot.client()?;
        let nodes: Api<Node> = Api::all(client.clone());
        let leases: Api<Lease> = Api::namespaced(client, crate::kubelet::LEASE_NAMESPACE);
        for kubelet in &shoot.kubelets {
            nodes
                .delete(kubelet.name(), &DeleteParams::default())
                .await?;
            leases
                .delete(kubelet.name(), &DeleteParams::default())
                .await?;
        }
        Ok(())
    }

    /// Crashes the API server of the seed and starts it again.
    pub(super) async fn restart_seed(&self) -> Result<()> {
        self.seed.server().stop();
        self.seed.server().start_again().await
    }

    /// Crashes the etcd of the seed and starts it again.
    pub(super) async fn restart_etcd(&self) -> Result<()> {
        let etcd = self.etcd.as_ref();
        let etcd = etcd.context("this stage shares its etcd with others")?;
        etcd.stop();
        etcd.start_again().await
    }
}
