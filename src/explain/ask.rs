//! Reads from the seed, with no more rights than a viewer has. Anything but the Cluster and its
//! ClusterHealth may be refused: everything else is still reported.

use std::collections::BTreeSet;

use futures::future::join_all;
use http::header;
use jiff::fmt::rfc2822::DateTimeParser;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};
use kube::{Api, api::ListParams, client::Body, core::DeserializeGuard};

use crate::{
    api::{ClusterHealth, ClusterHealthStatus, DependentRef, ProbePolicy, WeedPolicy},
    cluster::{Assignment, Index, Policy},
    gardener::Cluster,
    prober::{
        self,
        io::named,
        scale::{ScaleError, Scaler},
        step::Observed,
    },
    runtime::{
        seed::{CallError, Seed, is_for_lack_of_rights, told},
        watch::Change,
    },
    weeder::policy::Stored,
};

/// Answers of the seed about a cluster. What could not be read is absent, and named in `not_read`.
pub struct Answers {
    pub(super) cluster: String,
    /// Time on the seed if it says so, otherwise here.
    pub(super) now: Timestamp,
    /// Namespace of the Leases.
    pub(super) namespace: String,
    pub(super) is_gone: bool,
    pub(super) object: Option<Cluster>,
    pub(super) status: Option<ClusterHealthStatus>,
    /// Index of the Cluster and the policies, as the operator makes it.
    pub(super) index: Index,
    pub(super) weed_policies: Vec<Stored>,
    /// Metadata of the cluster's namespace.
    pub(super) control_plane: Option<ObjectMeta>,
    /// Lease of the prober that leads.
    pub(super) lease: Option<Lease>,
    /// Each dependent of the policy and the record, if it was read and if it exists.
    pub(super) dependents: Vec<(DependentRef, Option<Option<Observed>>)>,
    pub(super) not_read: Vec<String>,
}

/// Reads what there is about the cluster of this name, and the Leases in this namespace. Returns `None` if there is
/// neither such a Cluster nor a record of it.
///
/// # Errors
///
/// If the seed does not say whether there is such a cluster.
pub async fn ask(seed: &Seed, name: &str, namespace: &str) -> Result<Option<Answers>, String> {
    let could_not = |why| format!("the seed cannot be asked about {name}: {why}");
    // Everything else would fail in the same way, only more slowly.
    let now = clock(seed).await.map_err(could_not)?;
    let client = || seed.client().clone();
    // The prober, in whose pod this is asked too, may only list them.
    let (all, this) = (ListParams::default(), named(name));
    let clusters: Api<Cluster> = Api::all(client());
    let healths: Api<DeserializeGuard<ClusterHealth>> = Api::all(client());
    let policies: Api<DeserializeGuard<ProbePolicy>> = Api::all(client());
    let weed_policies = seed.objects::<WeedPolicy>();
    let namespaces: Api<Namespace> = Api::all(client());
    let leases: Api<Lease> = Api::namespaced(client(), namespace);
    let (object, health, policies, weed_policies, control_plane, lease) = tokio::join!(
        seed.call(clusters.list(&this)),
        seed.call(healths.list(&this)),
        seed.call(policies.list(&all)),
        seed.call(weed_policies.list(&all)),
        seed.call(namespaces.get_metadata_opt(name)),
        seed.call(leases.get_opt(prober::LEASE)),
    );
    let object = object.map(|list| list.items.into_iter().next());
    let health = health.map(|list| list.items.into_iter().next());
    match (&object, &health) {
        (Ok(None), Ok(None) | Err(_)) => return Ok(None),
        (Err(error), Ok(None) | Err(_)) => return Err(could_not(refused(error))),
        _ => {}
    }
    let mut notes = Vec::new();
    let is_gone = matches!(object, Ok(None));
    let object = read("the Cluster", object, &mut notes);
    let status = match read("the ClusterHealth", health, &mut notes) {
        Some(DeserializeGuard(Err(invalid))) => {
            notes.push(format!("the ClusterHealth: {}", invalid.error));
            None
        }
        health => health.and_then(|it| it.0.ok()?.status),
    };
    let stored = |it: &_| Stored::new(it, false);
    let weed_policies = weed_policies.map(|it| it.items.iter().map(stored).collect());
    let policies = read("ProbePolicies", policies.map(|list| list.items), &mut notes);
    let control_plane = control_plane.map(|found| found.map(|it| it.metadata));
    // As the operator would make it of these objects.
    let mut index = Index::default();
    let last = status.as_ref().and_then(|it| it.policy.as_deref());
    let last = last.map(|last| (name.into(), last.into()));
    index.recall(last.into_iter().collect());
    index.policies_changed(Change::All(policies.iter().map(Policy::from).collect()));
    index.clusters_changed(Change::All(object.clone().into_iter().collect()));
    let named = index.assignment(name).into_iter();
    let named = named
        .flat_map(Assignment::dependents)
        .map(|it| &it.reference);
    let recorded = status.iter().flat_map(|it| &it.dependents);
    let references = named.chain(recorded.map(|it| &it.r#ref)).cloned().collect();
    Ok(Some(Answers {
        cluster: name.to_owned(),
        now,
        namespace: namespace.to_owned(),
        is_gone,
        object,
        status,
        index,
        weed_policies: read("WeedPolicies", weed_policies, &mut notes),
        control_plane: read("the Namespace", control_plane, &mut notes),
        lease: read("the Lease", lease, &mut notes),
        dependents: dependents(seed, name, references, &mut notes).await,
        not_read: notes,
    }))
}

/// Returns the time on the seed: by the reader's own clock, ages of Leases could be wrong.
async fn clock(seed: &Seed) -> Result<Timestamp, String> {
    let request = http::Request::get("/version").body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let response = seed.call(seed.client().send(request)).await;
    let response = response.map_err(|error| error.to_string())?;
    let date = response.headers().get(header::DATE);
    let date = date.and_then(|date| DateTimeParser::new().parse_timestamp(date.as_bytes()).ok());
    Ok(date.unwrap_or_else(Timestamp::now))
}

/// Returns what was read; otherwise notes why it was not, and returns nothing.
fn read<T: Default>(what: &str, answer: Result<T, CallError>, notes: &mut Vec<String>) -> T {
    answer.unwrap_or_else(|error| {
        notes.push(format!("{what}: {}", refused(&error)));
        T::default()
    })
}

fn refused(error: &CallError) -> String {
    match error {
        CallError::Refused(status) if is_for_lack_of_rights(status) => told(status),
        CallError::Refused(status) if status.code == 404 => "it is not served".to_owned(),
        error => error.to_string(),
    }
}

/// Reads the dependents, at the same time.
async fn dependents(
    seed: &Seed,
    namespace: &str,
    references: BTreeSet<DependentRef>,
    notes: &mut Vec<String>,
) -> Vec<(DependentRef, Option<Option<Observed>>)> {
    let scaler = Scaler::new(seed.clone()).within(namespace.into());
    let answers = join_all(references.iter().map(|it| scaler.read(it))).await;
    let mut found = Vec::new();
    for (reference, answer) in references.iter().zip(answers) {
        if let Err(error) = &answer {
            let why = match error {
                // Its own message names the operator's rights; here those of the reader are missing.
                ScaleError::Forbidden { message, .. } => message.clone(),
                error => error.to_string(),
            };
            notes.push(format!("{}: {why}", reference.kubectl_name()));
        }
        found.push((reference.clone(), answer.ok()));
    }
    found
}
