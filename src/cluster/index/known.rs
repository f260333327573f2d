//! Whether what the watches show is complete, and as it was read past every cache.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Entry, Index, name};
use crate::gardener::Cluster;

impl Index {
    /// Whether policies and Clusters have both been listed; nothing is assigned before.
    pub fn synced(&self) -> bool {
        self.policies_listed && self.clusters_listed
    }

    /// The `metadata.resourceVersion` of a Cluster to which a policy applies, and the name of that.
    pub fn version(&self, cluster: &str) -> Option<(String, Arc<str>)> {
        let entry = self.clusters.get(cluster)?;
        let selected = entry.assignment.as_ref()?.selected.as_ref()?;
        let version = entry.cluster.metadata.resource_version.clone();
        Some((version.unwrap_or_default(), selected.policy.clone()))
    }

    /// Whether this Cluster is the one that is known, and comes to the same.
    pub fn is_as_known(&self, cluster: Cluster) -> bool {
        let Some(entry) = self.clusters.get(&name(&cluster.metadata)) else {
            return false;
        };
        let mut read = Entry {
            labels: cluster.labels(),
            cluster,
            last: entry.last.clone(),
            let_go: entry.let_go,
            assignment: None,
        };
        read.refresh(&self.policies);
        let comes_to = |entry: &Entry| {
            let it = entry.assignment.clone()?;
            Some((it.uid, it.skip, it.selected))
        };
        comes_to(&read) == comes_to(entry)
    }

    /// Tells whether the policy with this metadata is known, and says the same. Its status makes no difference.
    pub fn is_policy_as_known(&self, metadata: &ObjectMeta) -> bool {
        let known = self.policies.get(&name(metadata));
        known.is_some_and(|known| {
            metadata.uid.as_deref().unwrap_or_default() == &*known.uid
                && metadata.generation.unwrap_or_default() <= known.generation
                && metadata.deletion_timestamp.is_some() <= known.deleting
        })
    }
}
