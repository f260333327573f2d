//! Asks the seed, for no more than a viewer may read. What may not be read, or is not served, is an
//! answer like any other: all else is still told.

use std::{collections::BTreeSet, fmt};

use futures::future::join_all;
use http::header;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Resource,
    api::{DynamicObject, ListParams},
    client::Body,
    core::DeserializeGuard,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{near::near, policies::index};
use crate::{
    api::{ClusterHealth, DependentRef, ProbePolicy, WeedPolicy},
    cluster::{Assignment, Index},
    gardener::Cluster,
    prober::{
        self,
        plan::Observed,
        scale::{ScaleError, Scaler},
    },
    runtime::seed::{CallError, Seed, is_for_lack_of_rights, told},
    weeder,
};

/// Everything that is known of a cluster.
pub struct Answers {
    /// The name of the Cluster.
    pub cluster: String,
    /// What time it is: on the seed if it says so, else here.
    pub now: Timestamp,
    /// Where the Leases were looked for.
    pub namespace: String,
    /// What is there.
    pub objects: Objects,
    /// What the operator concludes from policies and Cluster; as if there were none where they could
    /// not be read.
    pub index: Index,
    /// The dependents, by reference.
    pub dependents: Vec<Asked>,
    /// What tells of weeding; `None` if no WeedPolicy is known.
    pub weeding: Option<WeedingObjects>,
}

/// The objects that tell of a cluster; `Ok(None)` is one that does not exist.
pub struct Objects {
    /// The Cluster.
    pub cluster: Result<Option<Cluster>, Refused>,
    /// The operator's record; `Err` within if it cannot be decoded.
    pub health: Result<Option<Result<ClusterHealth, String>>, Refused>,
    /// All policies.
    pub policies: Result<Vec<DeserializeGuard<ProbePolicy>>, Refused>,
    /// By which probers elect their leader.
    pub lease: Result<Option<Lease>, Refused>,
    /// All policies of the weeder.
    pub weed_policies: Result<Vec<DeserializeGuard<WeedPolicy>>, Refused>,
}

/// What else tells of weeding, where there are policies for it; `Ok(None)` does not exist.
pub struct WeedingObjects {
    /// The metadata of the cluster's namespace.
    pub namespace: Result<Option<ObjectMeta>, Refused>,
    /// By which weeders elect their leader.
    pub lease: Result<Option<Lease>, Refused>,
}

/// A dependent, and what came of asking for it.
pub struct Asked {
    /// Which.
    pub reference: DependentRef,
    /// What was found; `None` if it does not exist, and the reason if it could not be read.
    pub found: Result<Option<Observed>, String>,
    /// Who gave it the replicas that it has, as far as its metadata tell.
    pub set_by: Option<SetBy>,
}

/// Who set the replicas of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetBy {
    /// The field manager that owns `spec.replicas`.
    pub manager: String,
    /// When that one last changed the object.
    pub time: Option<Time>,
}

/// Why something was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The seed does not serve the kind.
    NotServed,
    /// The right is missing; what the seed said.
    Forbidden(String),
    /// Anything else.
    Failed(String),
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is neither such a Cluster nor a record of it.
    #[error("{}", no_such(name, near))]
    NoSuchCluster {
        /// What was asked for.
        name: String,
        /// Names like it.
        near: Vec<String>,
    },
    /// The seed could not be asked.
    #[error("the seed cannot be asked about {cluster}: {why}")]
    CouldNot {
        /// The cluster.
        cluster: String,
        /// What came instead.
        why: String,
    },
}

fn no_such(name: &str, near: &[String]) -> String {
    let next = match near {
        [] => "`kubectl get clusters.extensions.gardener.cloud` lists those there are".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    format!("there is no Cluster {name} on this seed, and no ClusterHealth; {next}")
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotServed => f.write_str("the seed does not serve this kind"),
            Self::Forbidden(message) => write!(f, "you may not read it: {message}"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

impl From<CallError> for Refused {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(status) if is_for_lack_of_rights(&status) => {
                Self::Forbidden(told(&status))
            }
            CallError::Refused(status) if status.code == 404 => Self::NotServed,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Reads what there is about the cluster of this name, and the Lease in this namespace.
///
/// # Errors
///
/// If there is no such cluster, or the seed does not tell whether there is.
pub async fn ask(seed: &Seed, cluster: &str, namespace: &str) -> Result<Answers, AskError> {
    let could_not = |why: String| AskError::CouldNot {
        cluster: cluster.to_owned(),
        why,
    };
    // All else would fail the same way, only more slowly.
    let now = clock(seed).await.map_err(could_not)?;
    let objects = objects(seed, cluster, namespace).await;
    match (&objects.cluster, &objects.health) {
        (Ok(Some(_)), _) | (_, Ok(Some(_))) => {}
        (Ok(None), _) => {
            return Err(AskError::NoSuchCluster {
                name: cluster.to_owned(),
                near: alike(seed, cluster).await,
            });
        }
        (Err(Refused::NotServed), _) => {
            return Err(could_not(
                "it does not serve Clusters of extensions.gardener.cloud/v1alpha1; see whether the \
                 kubeconfig is that of a seed"
                    .to_owned(),
            ));
        }
        (Err(clusters), Ok(None)) => {
            return Err(could_not(format!(
                "it has no ClusterHealth of this name, and whether there is such a Cluster it does \
                 not say: {clusters}"
            )));
        }
        (Err(clusters), Err(healths)) => {
            return Err(could_not(format!(
                "Clusters: {clusters}; ClusterHealths: {healths}"
            )));
        }
    }
    let index = index(&objects, cluster);
    let (dependents, weeding) = tokio::join!(
        dependents(seed, cluster, references(&index, &objects, cluster)),
        weeding(seed, cluster, namespace, &objects),
    );
    Ok(Answers {
        cluster: cluster.to_owned(),
        now,
        namespace: namespace.to_owned(),
        objects,
        index,
        dependents,
        weeding,
    })
}

/// What time it is on the seed: the clock of whoever asks may be wrong, and the ages of Leases and
/// records with it.
pub(crate) async fn clock(seed: &Seed) -> Result<Timestamp, String> {
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let response = seed.call(seed.client().send(request)).await;
    let response = response.map_err(|error| error.to_string())?;
    if response.status() == http::StatusCode::UNAUTHORIZED {
        return Err("it does not accept your credentials (401 Unauthorized)".to_owned());
    }
    let date = response.headers().get(header::DATE);
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date.as_bytes()).ok());
    Ok(date.unwrap_or_else(Timestamp::now))
}

async fn objects(seed: &Seed, cluster: &str, namespace: &str) -> Objects {
    let client = seed.client();
    let all = ListParams::default();
    let policies: Api<DeserializeGuard<ProbePolicy>> = Api::all(client.clone());
    let weed_policies: Api<DeserializeGuard<WeedPolicy>> = Api::all(client.clone());
    let (cluster, health, policies, lease, weed_policies) = tokio::join!(
        named::<Cluster>(seed, cluster),
        named::<DeserializeGuard<ClusterHealth>>(seed, cluster),
        seed.call(policies.list(&all)),
        get_lease(seed, namespace, prober::LEASE),
        seed.call(weed_policies.list(&all)),
    );
    Objects {
        cluster,
        health: health.map(|health| health.map(|health| health.0.map_err(|it| it.error))),
        policies: policies.map(|list| list.items).map_err(Refused::from),
        lease,
        weed_policies: weed_policies.map(|list| list.items).map_err(Refused::from),
    }
}

/// What else tells of weeding.
async fn weeding(
    seed: &Seed,
    cluster: &str,
    namespace: &str,
    objects: &Objects,
) -> Option<WeedingObjects> {
    objects.weed_policies.iter().flatten().next()?;
    let namespaces: Api<Namespace> = Api::all(seed.client().clone());
    let (found, lease) = tokio::join!(
        seed.call(namespaces.get_metadata_opt(cluster)),
        get_lease(seed, namespace, weeder::LEASE),
    );
    Some(WeedingObjects {
        namespace: found
            .map(|found| found.map(|found| found.metadata))
            .map_err(Refused::from),
        lease,
    })
}

/// The object of this name. As a list, which also tells whether the kind is served.
async fn named<K>(seed: &Seed, name: &str) -> Result<Option<K>, Refused>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    let api: Api<K> = Api::all(seed.client().clone());
    let this = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = seed.call(api.list(&this)).await?;
    Ok(list.items.into_iter().next())
}

async fn get_lease(seed: &Seed, namespace: &str, name: &str) -> Result<Option<Lease>, Refused> {
    let api: Api<Lease> = Api::namespaced(seed.client().clone(), namespace);
    Ok(seed.call(api.get_opt(name)).await?)
}

/// Names of Clusters like this one; none if they cannot be listed.
async fn alike(seed: &Seed, name: &str) -> Vec<String> {
    let api: Api<Cluster> = Api::all(seed.client().clone());
    let Ok(list) = seed.call(api.list_metadata(&ListParams::default())).await else {
        return Vec::new();
    };
    let names = list
        .items
        .iter()
        .filter_map(|it| it.metadata.name.as_deref());
    near(name, names).into_iter().map(str::to_owned).collect()
}

/// The dependents of the policy that applies, or did last, and those in the record.
fn references(index: &Index, objects: &Objects, cluster: &str) -> BTreeSet<DependentRef> {
    let assignment = index.assignment(cluster);
    let selected = assignment.and_then(Assignment::responsible);
    let settings = selected.and_then(|selected| selected.settings.as_ref().ok());
    let named = settings.map_or(&[][..], |settings| &settings.dependents);
    let health = objects.health.as_ref().ok().and_then(Option::as_ref);
    let status = health.and_then(|health| health.as_ref().ok()?.status.as_ref());
    let recorded = status.map_or(&[][..], |status| &status.dependents);
    let named = named.iter().map(|dependent| &dependent.reference);
    named
        .chain(recorded.iter().map(|it| &it.r#ref))
        .cloned()
        .collect()
}

async fn dependents(
    seed: &Seed,
    namespace: &str,
    references: BTreeSet<DependentRef>,
) -> Vec<Asked> {
    let scaler = Scaler::new(seed.clone()).within(namespace.into());
    let asked = references.into_iter().map(async |reference| {
        let found = scaler.read(&reference).await.map_err(unread);
        let set_by = match found {
            Ok(Some(_)) => set_by(seed, &scaler, namespace, &reference).await,
            _ => None,
        };
        Asked {
            reference,
            found,
            set_by,
        }
    });
    join_all(asked).await
}

/// The operator's errors name its own rights; here those of the reader are missing.
fn unread(error: ScaleError) -> String {
    match error {
        ScaleError::Forbidden { message, .. } => Refused::Forbidden(message).to_string(),
        error => error.to_string(),
    }
}

async fn set_by(
    seed: &Seed,
    scaler: &Scaler,
    namespace: &str,
    dependent: &DependentRef,
) -> Option<SetBy> {
    let (_, resource) = scaler.kind(dependent).await.ok()?;
    let client = seed.client().clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let object = seed.call(api.get_metadata(&dependent.name)).await.ok()?;
    replicas_set_by(object.metadata.managed_fields.as_deref()?)
}

/// Whoever owns `spec.replicas`.
fn replicas_set_by(entries: &[ManagedFieldsEntry]) -> Option<SetBy> {
    let last = last_owner(entries, "/f:spec/f:replicas")?;
    Some(SetBy {
        manager: last.manager.clone()?,
        time: last.time.clone(),
    })
}

/// Whoever owns the field; of several the one who came last.
pub(super) fn last_owner<'a>(
    entries: &'a [ManagedFieldsEntry],
    field: &str,
) -> Option<&'a ManagedFieldsEntry> {
    let owns = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer(field).is_some())
    };
    let owners = entries.iter().filter(owns);
    owners.max_by_key(|entry| entry.time.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_owner_of_the_replicas_has_set_them() {
        let entry = |manager: &str, time: &str, fields: serde_json::Value| {
            let entry = json!({"manager": manager, "time": time, "fieldsV1": fields});
            serde_json::from_value::<ManagedFieldsEntry>(entry).unwrap()
        };
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let entries = [
            entry("kubectl", "2026-11-20T11:00:00Z", replicas.clone()),
            entry(
                "gardenlet",
                "2026-11-20T13:00:00Z",
                json!({"f:spec": {"f:paused": {}}}),
            ),
            entry("dependency-watchdog", "2026-11-20T12:00:00Z", replicas),
        ];
        let found = replicas_set_by(&entries).unwrap();
        assert_eq!(found.manager, "dependency-watchdog");
        assert_eq!(found.time.unwrap().0.to_string(), "2026-11-20T12:00:00Z");
        assert_eq!(replicas_set_by(&[]), None);
    }
}
