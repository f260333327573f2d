//! Reads all ClusterHealths, with one request.

use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::ListParams, core::DeserializeGuard};

use crate::{
    api::ClusterHealth,
    explain::{self, Refused},
    runtime::seed::Seed,
};

/// What the seed has answered.
pub struct Listed {
    /// The time on the seed if it says so, otherwise here.
    pub now: Timestamp,
    /// All records, also those that cannot be decoded.
    pub records: Vec<DeserializeGuard<ClusterHealth>>,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The seed could not be asked at all.
    #[error("the seed cannot be asked: {0}")]
    Seed(String),
    /// It does not list ClusterHealths.
    #[error("listing ClusterHealths: {refused}{}", remedy(refused))]
    Records {
        /// What came instead.
        refused: Refused,
    },
}

fn remedy(refused: &Refused) -> &'static str {
    match refused {
        Refused::NotServed => {
            "; see whether the kubeconfig is that of a seed, and whether crds/ were applied to it"
        }
        Refused::Forbidden(_) => "; the ClusterRole view of the seed suffices",
        Refused::Failed(_) => "",
    }
}

/// Lists the records. From the cache of the API server: a list per refresh must not burden etcd.
///
/// # Errors
///
/// If the seed does not answer, or does not list them.
pub async fn list(seed: &Seed) -> Result<Listed, ListError> {
    let now = explain::clock(seed).await.map_err(ListError::Seed)?;
    let api: Api<DeserializeGuard<ClusterHealth>> = Api::all(seed.client().clone());
    let cached = ListParams::default().match_any();
    let list = seed.call(api.list(&cached)).await;
    let list = list.map_err(|error| ListError::Records {
        refused: error.into(),
    })?;
    Ok(Listed {
        now,
        records: list.items,
    })
}
