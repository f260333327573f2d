//! Reads where replicas may be owed, and whether an operator is alive.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt as _, api::ListParams, core::DeserializeGuard};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Part, Restorer, State, failure};
use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ProbePolicy, is_dns_subdomain},
    cluster::{Dependent, Policy, Then, skip},
    gardener::Cluster,
    prober::{
        LEASE,
        dependents::recalled,
        io::named,
        recall,
        step::{Aim, Memory},
    },
    runtime::leader::MAX_HOLDER,
    util::text::clean,
};

/// Time between two reads of the Lease. A living operator renews it every 2 s by default.
const RENEWAL: Duration = Duration::from_secs(3);

impl Restorer {
    /// Returns the dependents that are not as they should be, ordered by cluster and level: of the cluster of
    /// this name, or of all that have a ClusterHealth.
    ///
    /// # Errors
    ///
    /// If the seed does not say where to look.
    pub async fn look(&self, cluster: Option<&str>) -> Result<Vec<Part>, String> {
        let policies = self.policies().await?.into_iter();
        let rules = policies.filter_map(|policy| Policy::new(&policy.0.ok()?).rules);
        let dependents = rules.flat_map(|rules| rules.settings.dependents.to_vec());
        let dependents: Vec<Dependent> = dependents.collect();
        let healths = self.seed.objects::<ClusterHealth>();
        let which = cluster.map(named).unwrap_or_default();
        let healths = self.seed.call(healths.list(&which)).await;
        let healths = healths.map_err(|error| failure("list clusterhealths", &error))?;
        let healths = healths.items.into_iter();
        // It becomes a part of paths and commands.
        let healths = healths.filter(|health| is_dns_subdomain(&health.name_any()));
        let healths = healths.map(|health| (health.name_any(), recall::health(health).status));
        let mut healths: Vec<_> = healths.collect();
        if let Some(name) = cluster.filter(|_| healths.is_empty()) {
            if self.cluster(name).await?.is_none() {
                return Err(format!(
                    "there is neither a ClusterHealth nor a Cluster {name}"
                ));
            }
            healths.push((name.to_owned(), Some(ClusterHealthStatus::default())));
        }
        let is_lost = |it: &ClusterHealthStatus| it.reason.is_none() && it.dependents.is_empty();
        let lost = healths
            .iter()
            .find(|(_, status)| status.as_ref().is_some_and(is_lost));
        if let Some((name, _)) = lost.filter(|_| dependents.is_empty()) {
            return Err(format!(
                "nothing says which dependents {name} has: there is no policy, and no ClusterHealth that can be \
                 read; apply a policy that names them, with suspend: true"
            ));
        }
        let healths = healths.into_iter();
        let parts = healths.flat_map(|(name, health)| parts(&name, health, &dependents));
        let mut parts: Vec<Part> = parts.collect();
        parts.sort_by_key(|part| (part.cluster.clone(), part.dependent.up.level));
        self.restore(&mut parts, &CancellationToken::new(), None)
            .await;
        parts.retain(|part| part.state != State::Settled);
        Ok(parts)
    }

    /// Returns what is wanted of the dependents of one cluster: gardenlet decides about the replicas of some.
    /// Nothing may be done as long as that is unknown.
    pub(super) async fn aim(&self, parts: &mut [Part]) -> Option<Aim> {
        let found = self.cluster(&parts.first()?.cluster).await;
        match found.map(|cluster| cluster.as_ref().and_then(skip)) {
            Ok(Some(skip)) if skip.then == Then::Release => Some(Aim::Release),
            Ok(_) => Some(Aim::Up),
            Err(why) => {
                let parts = parts.iter_mut();
                parts.for_each(|part| part.set(State::Left, &*why));
                None
            }
        }
    }

    async fn cluster(&self, name: &str) -> Result<Option<Cluster>, String> {
        let seed = &self.scaler.seed;
        let api: Api<Cluster> = Api::all(seed.client().clone());
        let found = seed.call(api.get_opt(name)).await;
        found.map_err(|error| failure(&format!("get the Cluster {name}"), &error))
    }

    async fn policies(&self) -> Result<Vec<DeserializeGuard<ProbePolicy>>, String> {
        let api: Api<DeserializeGuard<ProbePolicy>> = Api::all(self.seed.client().clone());
        let listed = self.seed.call(api.list(&ListParams::default())).await;
        let listed = listed.map_err(|error| failure("list probepolicies", &error))?;
        Ok(listed.items)
    }

    /// Returns the holder of the operator's Lease if it is renewed between two reads.
    ///
    /// # Errors
    ///
    /// If the Lease cannot be read.
    pub async fn operator(&self) -> Result<Option<String>, String> {
        let leases: Api<Lease> = Api::namespaced(self.seed.client().clone(), &self.lease_namespace);
        let read = async || {
            let lease = self.seed.call(leases.get_opt(LEASE)).await;
            let tried = format!("get the Lease {LEASE} in {}", self.lease_namespace);
            let lease = lease.map_err(|error| failure(&tried, &error))?;
            Ok::<_, String>(lease.and_then(|lease| lease.spec))
        };
        let before = read().await?;
        sleep(RENEWAL).await;
        let renewed = read().await?.filter(|now| before.as_ref() != Some(now));
        let holder = renewed.and_then(|lease| lease.holder_identity);
        let holder = holder.filter(|holder| !holder.is_empty());
        Ok(holder.map(|holder| clean(&holder, MAX_HOLDER)))
    }
}

/// Dependents of a cluster: those of its record, as far as that can be read, and of all policies, since a mark shows
/// what is owed.
fn parts(
    cluster: &str,
    status: Option<ClusterHealthStatus>,
    of_policies: &[Dependent],
) -> Vec<Part> {
    let status = status.unwrap_or_default();
    let of_policies = of_policies.iter().cloned();
    let known = of_policies.map(|dependent| (dependent, Memory::default()));
    let known = known.chain(status.dependents.iter().map(recalled));
    let known = known.map(|known| (known.0.reference.clone(), known));
    let known: BTreeMap<_, _> = known.collect();
    let parts = known.into_values().map(|(dependent, memory)| Part {
        cluster: cluster.into(),
        dependent,
        state: State::Settled,
        says: String::new(),
        ignored: false,
        memory,
    });
    parts.collect()
}
