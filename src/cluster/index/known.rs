//! Whether what the watches show is complete, and as it was read past every cache.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Entry, Index, name};
use crate::gardener::Cluster;

impl Index {
    /// Whether policies and Clusters have both been listed; nothing is assigned before.
    pub fn synced(&self) -> bool {
        self.policies_listed && self.clusters_listed
    }

    /// The `metadata.resourceVersion` of a Cluster to which a policy applies.
    pub fn version(&self, cluster: &str) -> Option<&str> {
        let entry = self.clusters.get(cluster)?;
        entry.assignment.as_ref()?.selected.as_ref()?;
        let version = entry.cluster.metadata.resource_version.as_deref();
        Some(version.unwrap_or_default())
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

    /// Whether these are all policies that are known, and each says the same. Their statuses make no difference.
    pub fn are_policies_as_known(&self, metadata: &[ObjectMeta]) -> bool {
        let is_as_known = |metadata: &ObjectMeta| {
            let known = self.policies.get(&name(metadata));
            known.is_some_and(|known| {
                metadata.uid.as_deref().unwrap_or_default() == &*known.uid
                    && metadata.generation.unwrap_or_default() <= known.generation
                    && metadata.deletion_timestamp.is_some() <= known.deleting
            })
        };
        metadata.len() == self.policies.len() && metadata.iter().all(is_as_known)
    }
}
