//! What is known of a cluster, and the state that follows from it.

use crate::{api::ClusterState, observer::NodeCounts, shoot::Readiness};

/// Knowledge about a cluster that is reached.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Answer of its API server, or the reason why there is none, which is no evidence. `None` until it was
    /// asked.
    pub(super) api: Option<Result<Readiness, String>>,
    /// Its nodes. `None` until they were seen.
    pub(super) nodes: Option<NodeCounts>,
    /// Expired leases, and all that count, if that has been found to be an outage: their kubelets
    /// do not work, whatever the Nodes say that nobody updates any more.
    pub(super) silent: Option<(usize, usize)>,
    /// Why the nodes could not be read when they were last tried, if they could not.
    pub(super) unread: Option<String>,
}

impl Known {
    /// The worst of what is known; `None` until all is on which a state depends.
    pub(super) fn worst(&self, metrics_fail: bool) -> Option<ClusterState> {
        // Whatever else may be found, it is no worse.
        if self.silent.is_some() {
            return Some(ClusterState::NotReady);
        }
        let (api, nodes) = (self.api.as_ref()?, self.nodes.as_ref()?);
        Some(
            if matches!(api, Ok(Readiness::NotReady(_))) || nodes.not_ready > 0 {
                ClusterState::NotReady
            } else if nodes.well < nodes.all {
                ClusterState::Unhealthy
            } else if metrics_fail {
                ClusterState::FailingMetrics
            } else {
                ClusterState::Online
            },
        )
    }

    /// All that is amiss, from the worst; or that nothing is.
    pub(super) fn words(&self, failing: &[String]) -> String {
        let mut amiss = Vec::new();
        if let Some(Ok(Readiness::NotReady(failed))) = &self.api {
            amiss.push(format!(
                "its API server says that it is not ready: {} failed",
                failed.join(", ")
            ));
        }
        if let Some((expired, all)) = self.silent {
            amiss.push(format!(
                "its kubelets are silent: {expired} of {all} node leases that count are expired"
            ));
        }
        amiss.extend(self.nodes.iter().flat_map(NodeCounts::troubles));
        let failing = failing.iter();
        amiss.extend(failing.map(|provider| format!("its provider of metrics {provider}")));
        match (
            amiss.is_empty(),
            self.nodes.as_ref().map_or(0, |nodes| nodes.all),
        ) {
            (false, _) => amiss.join("; "),
            (true, 0) => "it answers, and has no nodes".to_owned(),
            (true, 1) => "it answers, and its node is well".to_owned(),
            (true, all) => format!("it answers, and its {all} nodes are well"),
        }
    }
}
