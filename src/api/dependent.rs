//! What a policy scales: references, order and waits.

use super::check::range;
use super::duration::{Bounds, Duration};
use super::selector::is_dns_subdomain;
use garde::Validate;
use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Waits longer than this hide a mistake rather than serve a purpose.
const INITIAL_DELAY: Bounds = Bounds::from_secs(0, 3600);
/// Nodes that are not ready by then have a reason of their own.
const AWAIT_NODES: Bounds = Bounds::from_secs(0, 3600);
/// A wait of less than a second would report every scaling as late.
const TIMEOUT: Bounds = Bounds::from_secs(1, 3600);

const AWAIT_NODES_MESSAGE: &str =
    "awaitNodes has no meaning in scaleDown, which waits for no nodes: write it in scaleUp";

const API_VERSION_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?$";
const KIND_PATTERN: &str = "^[A-Z][A-Za-z0-9]{0,62}$";
/// DNS subdomain by RFC 1123, which names of objects are.
pub(super) const NAME_PATTERN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Characters of a DNS subdomain.
pub(super) const MAX_NAME: usize = 253;

/// A namespaced resource with a `scale` subresource, in the cluster's namespace.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Validate,
)]
#[serde(rename_all = "camelCase")]
pub struct DependentRef {
    /// API group and version of the resource, such as apps/v1.
    #[schemars(length(min = 1, max = 317), regex(pattern = API_VERSION_PATTERN))]
    #[garde(custom(check_api_version))]
    pub api_version: String,

    /// Kind of the resource, such as Deployment. It must have a scale subresource.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND_PATTERN))]
    #[garde(custom(check_kind))]
    pub kind: String,

    /// Name of the resource.
    #[schemars(length(min = 1, max = MAX_NAME), regex(pattern = NAME_PATTERN))]
    #[garde(custom(check_name))]
    pub name: String,
}

/// When a dependent is scaled, and how long that may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInfo {
    /// The place in the order: levels are scaled one after the other, beginning with the lowest;
    /// dependents of one level are scaled together.
    #[serde(default)]
    #[schemars(range(min = 0, max = i32::MAX))]
    #[garde(custom(range(0, i32::MAX)))]
    pub level: i32,

    /// How long to wait before this dependent is scaled, counted from the moment its level is
    /// due. On the way up, the wait goes on while the cluster cannot be judged, and an outage
    /// restarts it. 0s to 1h.
    #[serde(default = "no_delay")]
    #[x_kube(validation = INITIAL_DELAY.rule())]
    #[garde(custom(INITIAL_DELAY.check()))]
    pub initial_delay: Duration,

    /// How long the next level waits for this dependent to be really scaled. A wait that takes
    /// longer is reported, and the next level goes ahead. 1s to 1h.
    #[serde(default = "half_a_minute")]
    #[x_kube(validation = TIMEOUT.rule())]
    #[garde(custom(TIMEOUT.check()))]
    pub timeout: Duration,

    /// Only in scaleUp: how long this dependent waits, after the verdict that allows the restore, for
    /// the nodes that were silent in the outage. Each must renew its lease and be Ready. Nodes that are
    /// gone or excluded are ignored. When the time is over the dependent is scaled up all the same. Runs
    /// at the same time as initialDelay. 0s to 1h; off when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration")]
    #[x_kube(validation = AWAIT_NODES.rule())]
    #[garde(inner(custom(AWAIT_NODES.check())))]
    pub await_nodes: Option<Duration>,
}

/// One resource that is scaled to zero while a cluster is protected, and back afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct DependentResourceInfo {
    /// The resource, in the namespace of the cluster's control plane.
    #[garde(dive)]
    pub r#ref: DependentRef,

    /// true: control planes may lack this resource. false: if it is missing, that is an error: a
    /// scale-down stops at its level, and a restore skips and reports it.
    #[serde(default)]
    #[garde(skip)]
    pub optional: bool,

    /// Order and waits when it is scaled back up.
    #[serde(default)]
    #[garde(dive)]
    pub scale_up: ScaleInfo,

    /// Order and waits when it is scaled down.
    #[serde(default)]
    #[x_kube(validation = scale_down_rule())]
    #[garde(dive, custom(check_scale_down))]
    pub scale_down: ScaleInfo,
}

impl Default for ScaleInfo {
    fn default() -> Self {
        Self {
            level: 0,
            initial_delay: no_delay(),
            timeout: half_a_minute(),
            await_nodes: None,
        }
    }
}

impl fmt::Display for DependentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.api_version, self.kind, self.name)
    }
}

/// What the probe itself needs on Gardener's seeds, by name, and what for.
const NEEDED_BY_PROBE: [(&str, &str); 3] = [
    ("kube-apiserver", "it answers the probe"),
    ("etcd-main", "the leases are stored in it"),
    (
        "gardener-resource-manager",
        "it renews the token in the probe's Secret",
    ),
];

/// A warning if the probe itself needs what is so named: at zero it keeps the cluster from being judged,
/// and so from being restored.
pub fn needed_by_probe(dependent: &str) -> Option<String> {
    let mut needed = NEEDED_BY_PROBE.iter();
    let (name, why) = needed.find(|(name, _)| dependent == *name)?;
    Some(format!(
        "the probe needs {name}, since {why}: with it at zero the cluster may never be judged again, nor \
         restored; name as dependents only what acts on silent nodes"
    ))
}

impl DependentRef {
    /// The name that kubectl takes. Of kinds that others may have too, it names the group.
    pub fn kubectl_name(&self) -> String {
        let Self {
            api_version,
            kind,
            name,
        } = self;
        let kind = kind.to_lowercase();
        match api_version.split_once('/') {
            Some(("apps", _)) | None => format!("{kind}/{name}"),
            Some((group, version)) => format!("{kind}.{version}.{group}/{name}"),
        }
    }
}

fn scale_down_rule() -> Rule {
    Rule::new("!has(self.awaitNodes)").message(AWAIT_NODES_MESSAGE)
}

fn check_scale_down(info: &ScaleInfo, _: &()) -> garde::Result {
    match info.await_nodes {
        None => Ok(()),
        Some(_) => Err(garde::Error::new(AWAIT_NODES_MESSAGE)),
    }
}

fn no_delay() -> Duration {
    Duration::from_secs(0)
}

fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

fn check_api_version(text: &str, _: &()) -> garde::Result {
    let (group, version) = match text.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, text),
    };
    let version_is_label = version.starts_with(|c: char| c.is_ascii_lowercase())
        && !version.contains('.')
        && version.len() <= 63
        && is_dns_subdomain(version);
    if version_is_label && group.is_none_or(is_dns_subdomain) {
        Ok(())
    } else {
        Err(garde::Error::new("must be an API version, such as apps/v1"))
    }
}

/// That a text can be a kind.
fn check_kind(text: &str, _: &()) -> garde::Result {
    if text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        Ok(())
    } else {
        Err(garde::Error::new("must be a kind, such as Deployment"))
    }
}

/// That a text can be the name of an object.
pub(super) fn check_name(text: &str, _: &()) -> garde::Result {
    if is_dns_subdomain(text) {
        Ok(())
    } else {
        Err(garde::Error::new(
            "must be the name of an object: at most 253 lower case letters, digits, '-' or '.', \
             beginning and ending with a letter or digit",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    fn agrees(
        pattern: &str,
        max: usize,
        check: impl Fn(&str, &()) -> garde::Result,
        text: &str,
    ) -> bool {
        let schema = text.len() <= max && Regex::new(pattern).unwrap().is_match(text);
        check(text, &()).is_ok() == schema
    }

    proptest! {
        #[test]
        fn api_versions_are_those_of_the_schema(text in "([a-zA-Z0-9.-]{0,5}/){0,2}[vV1.-]{0,3}[a-z]{0,66}") {
            prop_assert!(agrees(API_VERSION_PATTERN, 317, check_api_version, &text));
        }

        #[test]
        fn kinds_are_those_of_the_schema(text in "[A-Z]?[a-zA-Z0-9/-]{0,3}[a-z]{0,66}") {
            prop_assert!(agrees(KIND_PATTERN, 63, check_kind, &text));
        }

        #[test]
        fn names_are_those_of_the_schema(text in "[a-z0-9.A-]{0,8}[a-z]{0,256}") {
            prop_assert!(agrees(NAME_PATTERN, MAX_NAME, check_name, &text));
        }
    }
}
