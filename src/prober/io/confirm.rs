//! Reads a Cluster past every cache.

use kube::{Api, api::ListParams};

use crate::{
    cluster::{Eligibility, eligibility},
    gardener::Cluster,
    runtime::seed::Seed,
};

/// Whether there is a Cluster of this name that is one to be probed. One that cannot be read is not known
/// to be.
pub(crate) async fn is_probed(seed: &Seed, name: &str) -> bool {
    let api: Api<Cluster> = Api::all(seed.client().clone());
    // A list needs no right that the watch does not need.
    let this = ListParams::default().fields(&format!("metadata.name={name}"));
    match seed.call(api.list(&this)).await {
        Ok(found) => {
            let mut found = found.items.iter();
            found.any(|cluster| eligibility(cluster) == Eligibility::Probed)
        }
        Err(error) => {
            tracing::warn!(cluster = name, %error, "the Cluster could not be read anew");
            false
        }
    }
}
