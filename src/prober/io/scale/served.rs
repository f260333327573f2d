//! What the seed serves of a kind: the version that is asked for, or else another one. The objects are the
//! same under each.

use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    discovery::{self, ApiCapabilities, Scope},
};

use super::{Failure, ScaleError};
use crate::{prober::plan::Family, runtime::seed::Seed};

/// What is behind a kind: a resource that can be scaled, or one that is there and has no scale in any version;
/// or why there can be no dependents of it.
pub(super) type Served = Result<(Family, ApiResource), ScaleError>;

/// Looks a kind up. The caller's turn also covers the follow-up requests if its version has no scale: they
/// are few and rare, and callers wait for the answer.
pub(super) async fn look_up(seed: &Seed, kind: &GroupVersionKind) -> Result<Served, ScaleError> {
    let served = seed.call_at_turn(served(seed.client(), kind)).await;
    let served = served.map_err(|error| Failure::Call(error).explain("discovery"))?;
    if let Ok((Family::Scalable, resource)) = &served
        && resource.version != kind.version
    {
        tracing::warn!(
            group = kind.group,
            kind = kind.kind,
            asked = kind.version,
            used = resource.version,
            "not served as a policy asks for it, or not with a scale; another version is used"
        );
    }
    Ok(served)
}

async fn served(client: &Client, kind: &GroupVersionKind) -> kube::Result<Served> {
    let found = match in_version(client, kind).await? {
        Some(found @ Ok((Family::Scalable, _))) => return Ok(found),
        found => found,
    };
    // A definition says for each version whether there is a scale.
    match (found, in_others(client, kind).await) {
        (_, Ok(Some(other @ Ok((Family::Scalable, _))))) => Ok(other),
        // A failed lookup of others changes nothing about this one.
        (Some(found), _) => Ok(found),
        (None, other) => Ok(other?.unwrap_or_else(|| {
            let (version, kind) = (kind.api_version(), &kind.kind);
            Err(ScaleError::UnknownKind(format!("{version} {kind}")))
        })),
    }
}

/// The kind in another version than its own, with a scale if any has one.
async fn in_others(client: &Client, kind: &GroupVersionKind) -> kube::Result<Option<Served>> {
    // The list of all groups: a 404 for a path may come from a misrouting proxy.
    let groups = client.list_api_groups().await?.groups;
    let group = groups.into_iter().find(|group| group.name == kind.group);
    let versions = group.into_iter().flat_map(|group| group.versions);
    let (mut found, mut failure) = (None, None);
    for version in versions.filter(|version| version.version != kind.version) {
        let other = GroupVersionKind::gvk(&kind.group, &version.version, &kind.kind);
        match in_version(client, &other).await {
            Ok(Some(other @ Ok((Family::Scalable, _)))) => return Ok(Some(other)),
            Ok(other) => found = other.or(found),
            Err(error) => failure = Some(error),
        }
    }
    match (found, failure) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(found),
    }
}

/// The kind in its version; `None` if that is not served, or lacks it.
async fn in_version(client: &Client, kind: &GroupVersionKind) -> kube::Result<Option<Served>> {
    match discovery::pinned_kind(client, kind).await {
        Ok(found) => Ok(Some(scalable(found))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn scalable((resource, capabilities): (ApiResource, ApiCapabilities)) -> Served {
    if capabilities.scope == Scope::Cluster {
        return Err(ScaleError::ClusterScoped);
    }
    let scale = format!("{}/scale", resource.plural);
    let scalable = capabilities
        .subresources
        .iter()
        .any(|(subresource, _)| subresource.plural == "scale" || subresource.plural == scale);
    match scalable {
        true => Ok((Family::Scalable, resource)),
        false => Ok((Family::Unscalable, resource)),
    }
}
