//! `WeedPolicy`: which pods are deleted while they crash, once the service that they need is back.
//!
//! The fields and defaults are those of the configuration file of the weeder of Gardener's
//! dependency-watchdog, so that its content can be pasted under `spec`.

use super::crd::{adapt, by_type};
use super::defaults::minutes;
use super::duration::{Bounds, Duration};
use super::forms::{LABEL, Rule, check_keys, keys};
use super::mode::mode;
use super::{LabelSelector, Mode};
use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries of [`WeedPolicyStatus::last_weeds`].
pub const MAX_LAST_WEEDS: usize = 10;
/// Most entries of [`WeedPolicyStatus::left_alone`].
pub const MAX_LEFT_ALONE: usize = 10;

/// A day is far beyond the back-off of a crashing pod, which ends at five minutes.
const WATCH_DURATION: Bounds = Bounds("1s", "24h");

const SELECTORS: Rule<Vec<LabelSelector>> = Rule::new(
    "self.all(s, has(s.matchLabels) && size(s.matchLabels) > 0 || has(s.matchExpressions) && \
     size(s.matchExpressions) > 0)",
    "every selector must name a label: an empty one would match every pod of the namespace",
    |selectors| !selectors.iter().any(LabelSelector::is_empty),
);

/// Which services to watch, and which pods to delete while they are in CrashLoopBackOff after one of
/// these has become ready.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[kube(
    group = "dependency-watchdog.gardener.cloud",
    version = "v1alpha1",
    kind = "WeedPolicy",
    plural = "weedpolicies",
    shortname = "weedpol",
    category = "dwd",
    status = "WeedPolicyStatus",
    derive = "PartialEq",
    doc = "WeedPolicy restarts crashing pods as soon as the service that they need is back: it names \
           services and the pods that need them. When such a service becomes ready, those pods that are \
           in CrashLoopBackOff are deleted, so that their successors start immediately instead of after \
           minutes of back-off.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Services", "type": "integer", "jsonPath": ".status.services.watched"}"#,
    printcolumn = r#"{"name": "Ready services", "type": "integer", "jsonPath": ".status.services.ready"}"#,
    printcolumn = r#"{"name": "Windows", "type": "integer", "jsonPath": ".status.openWindows"}"#,
    printcolumn = r#"{"name": "Weeded", "type": "integer", "jsonPath": ".status.weeded"}"#,
    printcolumn = r#"{"name": "Last weed", "type": "date", "jsonPath": ".status.lastWeeds[0].time"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].message", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [mode()]), transform = adapt)]
#[garde(allow_unvalidated)]
pub struct WeedPolicySpec {
    /// Selects, by their labels, the namespaces in which services are watched and pods deleted.
    /// Selects all namespaces when left out or empty.
    #[serde(default)]
    #[garde(dive)]
    pub namespace_selector: LabelSelector,

    /// How long after a service has become ready the pods that need it are deleted if they are in
    /// CrashLoopBackOff. 1s to 24h. Starts anew whenever the service becomes ready again.
    #[serde(default = "minutes::<5>")]
    #[schemars(extend("x-kubernetes-validations" = [WATCH_DURATION.rule()]))]
    #[garde(custom(WATCH_DURATION.check()))]
    pub watch_duration: Duration,

    /// The services that are watched, by name, and the pods in the same namespace that need them.
    /// 1 to 64 services.
    #[schemars(extend(
        "minProperties" = 1,
        "maxProperties" = 64,
        "x-kubernetes-validations" = [keys(&LABEL)]
    ))]
    #[garde(length(min = 1, max = 64), custom(check_keys(&LABEL)), dive)]
    pub services_and_dependant_selectors: BTreeMap<String, DependantSelectors>,

    /// Required. Enforce, or DryRun: observes and reports, but deletes no pod.
    pub mode: Mode,

    /// Emergency stop: while true, no service is watched and no pod is deleted for this policy.
    #[serde(default)]
    pub suspend: bool,
}

/// The pods that need a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct DependantSelectors {
    /// Selects these pods by their labels: those that any of the selectors matches. 1 to 16
    /// selectors, none of them empty.
    #[schemars(extend("x-kubernetes-validations" = [SELECTORS]))]
    #[garde(length(min = 1, max = 16), custom(SELECTORS.check()), dive)]
    pub pod_selectors: Vec<LabelSelector>,
}

/// Counts of the services that a policy watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceCounts {
    /// Services with an EndpointSlice that the policy names, in the namespaces that it selects.
    pub watched: i32,
    /// Watched services with at least one endpoint that is ready.
    pub ready: i32,
}

/// A pod that was deleted, or that would have been if the mode were not DryRun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastWeed {
    /// Time of the deletion.
    pub time: Time,

    /// The namespace of the pod.
    pub namespace: String,

    /// The name of the pod.
    pub pod: String,

    /// The controller of the pod, which replaces it, as kind and name, such as
    /// ReplicaSet/kube-apiserver-6b7.
    pub owner: String,

    /// The service that had become ready.
    pub service: String,

    /// The containers that were in CrashLoopBackOff.
    #[serde(default)]
    pub containers: Vec<String>,

    /// Present and true if the pod was not deleted because the mode was DryRun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A pod in CrashLoopBackOff that was not deleted although the service that it needs had become ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftAlone {
    /// Time at which the pod was found.
    pub time: Time,

    /// The namespace of the pod.
    pub namespace: String,

    /// The name of the pod.
    pub pod: String,

    /// The service that had become ready.
    pub service: String,

    /// Why the pod was left alone, as one CamelCase word for programs.
    pub reason: String,

    /// Why the pod was left alone, as a sentence for people.
    pub message: String,
}

/// State of a policy's services as the operator sees it, and its last acts on the pods that need them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}), transform = adapt)]
pub struct WeedPolicyStatus {
    /// The metadata.generation that this status describes; -1 while the operator has written none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,

    /// Counts of the services that the policy watches.
    #[serde(default)]
    pub services: ServiceCounts,

    /// How many watched services became ready less than watchDuration ago, so that pods that need
    /// them are deleted.
    #[serde(default)]
    pub open_windows: i32,

    /// How many pods were deleted for this policy since it exists.
    #[serde(default)]
    pub weeded: i64,

    /// The last 10 pods that were deleted, or in mode DryRun would have been, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_LAST_WEEDS))]
    pub last_weeds: Vec<LastWeed>,

    /// The last 10 pods in CrashLoopBackOff that were not deleted although the service that they need had
    /// become ready, the newest first. They may have recovered, or gone, since then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_LEFT_ALONE))]
    pub left_alone: Vec<LeftAlone>,

    /// Conditions: Ready, Weeding and Degraded always; Stalled while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = by_type)]
    pub conditions: Vec<Condition>,
}
