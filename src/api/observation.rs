//! How a policy has the state of its clusters observed: retries, nodes, providers of metrics.

use super::HttpGetAction;
use super::defaults::number;
use super::duration::{Bounds, Duration};
use super::forms::{API_SERVICE, LABEL, MAX_LABEL, MAX_NAME, Rule, unique, unique_names};
use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const BACKOFF_DELAY: Bounds = Bounds("1s", "1h");
/// A list of Nodes is large: fifteen kilobytes a node.
const NODE_INTERVAL: Bounds = Bounds("10s", "1h");

const PROVIDER: Rule<MetricsProvider> = Rule::new(
    "has(self.apiService) != has(self.httpGet)",
    "must have exactly one of apiService and httpGet",
    |it| it.api_service.is_some() != it.http_get.is_some(),
);
const NAMES: Rule<Vec<MetricsProvider>> = unique_names(|all| unique(all, |it| &it.name));

/// How the state of a cluster is observed, which its ClusterHealth shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", default)]
pub struct ObserverSettings {
    /// The factor by which the pause before each further retry is longer than the one before. 1 to 10.
    #[garde(range(min = 1, max = 10))]
    pub backoff: i32,

    /// The pause before the first retry. 1s to 1h. A retry is the first probe after its pause:
    /// nothing is probed for it out of turn.
    #[schemars(extend("x-kubernetes-validations" = [BACKOFF_DELAY.rule()]))]
    #[garde(custom(BACKOFF_DELAY.check()))]
    pub backoff_delay: Duration,

    /// How many retries a cluster that cannot be reached is DEGRADED for; then it is OFFLINE. -1:
    /// without end. -1 to 1000.
    #[garde(range(min = -1, max = 1000))]
    pub backoff_limit: i32,

    /// How often the Nodes of a cluster are read while all is well. While it is not, they are read once a
    /// minute, or as often as this. 10s to 1h.
    #[schemars(extend("x-kubernetes-validations" = [NODE_INTERVAL.rule()]))]
    #[garde(custom(NODE_INTERVAL.check()))]
    pub node_interval: Duration,

    /// What serves the metrics of a cluster. While one of them fails, an otherwise healthy cluster is
    /// FAILING_METRICS. At most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = [NAMES]))]
    #[garde(length(max = 8), custom(NAMES.check()), dive)]
    pub metrics_providers: Vec<MetricsProvider>,
}

/// Something that serves the metrics of a cluster. Exactly one of apiService and httpGet says how it
/// is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [PROVIDER]))]
#[garde(custom(PROVIDER.check()))]
pub struct MetricsProvider {
    /// The name by which it is reported, unique in the policy.
    #[garde(length(min = 1, max = MAX_LABEL), pattern(LABEL))]
    pub name: String,

    /// The name of an APIService in the cluster, such as v1beta1.metrics.k8s.io: whether its API
    /// answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(length(min = 1, max = MAX_NAME), pattern(API_SERVICE))]
    pub api_service: Option<String>,

    /// A request over HTTP or HTTPS, such as to Prometheus' /-/ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub http_get: Option<HttpGetAction>,

    /// How many seconds from one request to the next at least: requests follow probes. 1 to 3600.
    #[serde(default = "number::<60>")]
    #[garde(range(min = 1, max = 3600))]
    pub period_seconds: i32,

    /// How many seconds a request may take, everything included; one that takes longer has failed. 1
    /// to 3600.
    #[serde(default = "number::<5>")]
    #[garde(range(min = 1, max = 3600))]
    pub timeout_seconds: i32,

    /// How many requests in a row must fail for the provider to fail. 1 to 100.
    #[serde(default = "number::<3>")]
    #[garde(range(min = 1, max = 100))]
    pub failure_threshold: i32,
}

impl Default for ObserverSettings {
    fn default() -> Self {
        Self {
            backoff: 1,
            backoff_delay: Duration::from_secs(1),
            backoff_limit: -1,
            node_interval: Duration::from_mins(5),
            metrics_providers: Vec::new(),
        }
    }
}
