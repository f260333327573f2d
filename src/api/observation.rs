//! How a policy has the state of its clusters observed: retries, nodes, providers of metrics.

use super::action::{HttpGetAction, LABEL_PATTERN, MAX_LABEL, check_label};
use super::check::{entries, range};
use super::duration::{Bounds, Duration};
use super::health_check::{MAX_SECONDS, MAX_THRESHOLD, defaults as check_defaults};
use super::selector::is_dns_subdomain;
use garde::Validate;
use kube::KubeSchema;
use kube::core::Rule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Most providers of metrics of a policy.
const MAX_PROVIDERS: usize = 8;
/// Most retries that can be asked for.
const MAX_RETRIES: i32 = 1000;
const MAX_BACKOFF: i32 = 10;

const BACKOFF_DELAY: Bounds = Bounds::from_secs(1, 3600);
/// A list of Nodes is large: fifteen kilobytes a node.
const NODE_INTERVAL: Bounds = Bounds::from_secs(10, 3600);

/// The name of an APIService: a version, a dot, and a group.
const API_SERVICE_PATTERN: &str =
    r"^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$";
const MAX_API_SERVICE: usize = 253;

const UNIQUE_NAMES_MESSAGE: &str = "every name must be unique";
const PROVIDER_MESSAGE: &str = "must have exactly one of apiService and httpGet";

/// How the state of a cluster is observed, which its ClusterHealth shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct ObserverSettings {
    /// The factor by which the pause before each further retry is longer than the one before. 1 to 10.
    #[serde(default = "defaults::backoff")]
    #[schemars(range(min = 1, max = MAX_BACKOFF))]
    #[garde(custom(range(1, MAX_BACKOFF)))]
    pub backoff: i32,

    /// The pause before the first retry. 1s to 1h. A retry is the first probe after its pause:
    /// nothing is probed for it out of turn.
    #[serde(default = "defaults::backoff_delay")]
    #[x_kube(validation = BACKOFF_DELAY.rule())]
    #[garde(custom(BACKOFF_DELAY.check()))]
    pub backoff_delay: Duration,

    /// How many retries a cluster that cannot be reached is DEGRADED for; then it is OFFLINE. -1:
    /// without end. -1 to 1000.
    #[serde(default = "defaults::backoff_limit")]
    #[schemars(range(min = -1, max = MAX_RETRIES))]
    #[garde(custom(range(-1, MAX_RETRIES)))]
    pub backoff_limit: i32,

    /// How often the Nodes of a cluster are read while all is well. While it is not, they are read once a
    /// minute, or as often as this. 10s to 1h.
    #[serde(default = "defaults::node_interval")]
    #[x_kube(validation = NODE_INTERVAL.rule())]
    #[garde(custom(NODE_INTERVAL.check()))]
    pub node_interval: Duration,

    /// What serves the metrics of a cluster. While one of them fails, an otherwise healthy cluster is
    /// FAILING_METRICS. At most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PROVIDERS))]
    #[x_kube(validation = unique_names_rule())]
    #[garde(
        custom(entries(0, MAX_PROVIDERS)),
        custom(check_unique_providers),
        dive
    )]
    pub metrics_providers: Vec<MetricsProvider>,
}

/// Something that serves the metrics of a cluster. Exactly one of apiService and httpGet says how it
/// is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = provider_rule())]
#[garde(custom(check_provider))]
pub struct MetricsProvider {
    /// The name by which it is reported, unique in the policy.
    #[schemars(length(min = 1, max = MAX_LABEL), regex(pattern = LABEL_PATTERN))]
    #[garde(custom(check_label))]
    pub name: String,

    /// The name of an APIService in the cluster, such as v1beta1.metrics.k8s.io: whether its API
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_API_SERVICE), regex(pattern = API_SERVICE_PATTERN))]
    #[garde(inner(custom(check_api_service)))]
    pub api_service: Option<String>,

    /// A request over HTTP or HTTPS, such as to Prometheus' /-/ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub http_get: Option<HttpGetAction>,

    /// How many seconds from one request to the next. 1 to 3600.
    #[serde(default = "defaults::provider_period")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    #[garde(custom(range(1, MAX_SECONDS)))]
    pub period_seconds: i32,

    /// How many seconds a request may take, everything included; one that takes longer has failed. 1
    /// to 3600.
    #[serde(default = "defaults::provider_timeout")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    #[garde(custom(range(1, MAX_SECONDS)))]
    pub timeout_seconds: i32,

    /// How many requests in a row must fail for the provider to fail. 1 to 100.
    #[serde(default = "check_defaults::failures")]
    #[schemars(range(min = 1, max = MAX_THRESHOLD))]
    #[garde(custom(range(1, MAX_THRESHOLD)))]
    pub failure_threshold: i32,
}

impl Default for ObserverSettings {
    fn default() -> Self {
        Self {
            backoff: defaults::backoff(),
            backoff_delay: defaults::backoff_delay(),
            backoff_limit: defaults::backoff_limit(),
            node_interval: defaults::node_interval(),
            metrics_providers: Vec::new(),
        }
    }
}

mod defaults {
    use super::Duration;

    pub(super) fn backoff() -> i32 {
        1
    }

    pub(super) fn backoff_delay() -> Duration {
        Duration::from_secs(1)
    }

    pub(super) fn backoff_limit() -> i32 {
        -1
    }

    pub(super) fn node_interval() -> Duration {
        Duration::from_mins(5)
    }

    pub(super) fn provider_period() -> i32 {
        60
    }

    pub(super) fn provider_timeout() -> i32 {
        5
    }
}

/// That the entries of a list have names of their own.
pub(super) fn unique_names_rule() -> Rule {
    Rule::new("self.all(x, self.exists_one(y, x.name == y.name))").message(UNIQUE_NAMES_MESSAGE)
}

/// The same for names that are already here.
pub(super) fn check_unique_names<'a>(
    names: impl ExactSizeIterator<Item = &'a str>,
) -> garde::Result {
    let count = names.len();
    let unique: BTreeSet<&str> = names.collect();
    if unique.len() == count {
        return Ok(());
    }
    Err(garde::Error::new(UNIQUE_NAMES_MESSAGE))
}

fn check_unique_providers(providers: &[MetricsProvider], _: &()) -> garde::Result {
    check_unique_names(providers.iter().map(|provider| provider.name.as_str()))
}

fn provider_rule() -> Rule {
    Rule::new("has(self.apiService) != has(self.httpGet)").message(PROVIDER_MESSAGE)
}

fn check_provider(provider: &MetricsProvider, _: &()) -> garde::Result {
    if provider.api_service.is_some() == provider.http_get.is_some() {
        return Err(garde::Error::new(PROVIDER_MESSAGE));
    }
    Ok(())
}

fn check_api_service(text: &str, _: &()) -> garde::Result {
    let valid = text.len() <= MAX_API_SERVICE
        && text
            .split_once('.')
            .is_some_and(|(version, group)| is_version(version) && is_dns_subdomain(group));
    if valid {
        return Ok(());
    }
    Err(garde::Error::new(
        "must be the name of an APIService, such as v1beta1.metrics.k8s.io",
    ))
}

/// Whether a text is a version of an API, such as v1 or v1beta1.
fn is_version(text: &str) -> bool {
    let number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
    };
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let (major, minor) = match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => (major, Some(minor)),
        None => (rest, None),
    };
    number(major) && minor.is_none_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    proptest! {
        #[test]
        fn names_of_api_services_are_those_of_the_schema(
            text in "v?[0-9]{0,2}(alpha|beta|rc)?[0-9]{0,2}\\.?[a-z0-9A.-]{0,8}[a-z]{0,250}"
        ) {
            let pattern = Regex::new(API_SERVICE_PATTERN).unwrap();
            let schema = text.len() <= MAX_API_SERVICE && pattern.is_match(&text);
            prop_assert_eq!(check_api_service(&text, &()).is_ok(), schema, "{}", text);
        }
    }
}
