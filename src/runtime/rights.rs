//! Questions to the seed about what the operator may do, asked before it is needed: a right to write is otherwise
//! missed when there is something to write, and then it is late.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::{
    Api,
    api::{ApiResource, PostParams},
};

use super::seed::{CallError, Seed};

/// Returns the right to do this with the object of this name, or all, in this namespace, or everywhere.
pub(crate) fn right(
    verb: &str,
    resource: &ApiResource,
    name: Option<&str>,
    namespace: Option<&str>,
) -> ResourceAttributes {
    ResourceAttributes {
        name: name.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
        verb: Some(verb.to_owned()),
        group: Some(resource.group.clone()),
        resource: Some(resource.plural.clone()),
        ..ResourceAttributes::default()
    }
}

/// Returns the right to do the same with a subresource.
pub(crate) fn subresource(name: &str, right: ResourceAttributes) -> ResourceAttributes {
    ResourceAttributes {
        subresource: Some(name.to_owned()),
        ..right
    }
}

/// Returns a right as `patch etcds.druid.gardener.cloud/etcd-main/scale in shoot--foo--bar`.
fn words(right: &ResourceAttributes) -> String {
    let part = |before: &str, part: &Option<String>| match part.as_deref() {
        // Pods are of the group "".
        None | Some("") => String::new(),
        Some(part) => format!("{before}{part}"),
    };
    [
        part("", &right.verb),
        part(" ", &right.resource),
        part(".", &right.group),
        part("/", &right.name),
        part("/", &right.subresource),
        part(" in ", &right.namespace),
    ]
    .concat()
}

/// Returns those of these rights that are not granted, in words.
///
/// # Errors
///
/// If one could not be asked for.
pub(crate) async fn missing(
    seed: &Seed,
    rights: Vec<ResourceAttributes>,
) -> Result<Vec<String>, CallError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(seed.client().clone());
    let params = PostParams::default();
    let mut missing = Vec::new();
    for right in rights {
        let words = words(&right);
        let mut question = SelfSubjectAccessReview::default();
        question.spec.resource_attributes = Some(right);
        let answer = seed.call(reviews.create(&params, &question)).await?;
        if !answer.status.is_some_and(|it| it.allowed) {
            missing.push(words);
        }
    }
    Ok(missing)
}
