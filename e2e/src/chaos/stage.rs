//! Where runs take place: a seed, and an API server on which all shoots have their nodes.

use super::identity::Identity;
use crate::{Env, Seed, Shoot};
use anyhow::Result;
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

/// A seed on which many runs take place at once.
pub struct Stage {
    pub(super) env: Env,
    pub(super) seed: Arc<Seed>,
    pub(super) identity: Identity,
    ground: Shoot,
}

impl Stage {
    /// Starts the servers.
    pub async fn new(env: &Env, name: &str) -> Result<Self> {
        let seed = env.own_seed(name).await?;
        let ground = env.shoot(&format!("{name}-ground")).nodes(1).on(&seed);
        let ground = ground.await?;
        seed.apply(ETCDS).await?;
        seed.apply(RIGHTS).await?;
        Ok(Self {
            env: env.clone(),
            seed,
            identity: Identity::new()?,
            ground,
        })
    }

    /// A new shoot.
    pub(super) async fn shoot(&self, name: &str, nodes: usize) -> Result<Shoot> {
        let shoot = self.env.shoot(name).nodes(nodes);
        shoot.beside(&self.ground).on(&self.seed).await
    }
}
