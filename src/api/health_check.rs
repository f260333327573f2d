//! Further evidence of a cluster's health that a policy asks for, and what hangs on it.

use super::defaults::number;
use super::forms::{LABEL, MAX_LABEL, Rule};
use super::{ExecAction, HttpGetAction, TcpSocketAction};
use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const ACTION: Rule<HealthCheck> = Rule::new(
    "[has(self.exec), has(self.httpGet), has(self.tcpSocket)].filter(it, it).size() == 1",
    "must have exactly one of exec, httpGet and tcpSocket",
    |it| {
        matches!(
            (&it.exec, &it.http_get, &it.tcp_socket),
            (Some(_), None, None) | (None, Some(_), None) | (None, None, Some(_))
        )
    },
);

/// What hangs on a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CheckRole {
    /// Nothing: its result is reported.
    #[default]
    Observe,
    /// It must pass before anything is scaled up again.
    Gate,
}

/// A check of each cluster of the policy, by the fields, defaults and limits of the probes of a
/// Kubernetes container. Exactly one of exec, httpGet and tcpSocket says what is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [ACTION]))]
#[garde(custom(ACTION.check()))]
pub struct HealthCheck {
    /// The name by which the check is reported, unique in the policy.
    #[garde(length(min = 1, max = MAX_LABEL), pattern(LABEL))]
    pub name: String,

    /// Observe: its result is reported, no more. Gate: it must pass before anything is scaled up again.
    #[serde(default)]
    #[garde(skip)]
    pub role: CheckRole,

    /// A command that is run in a container of the control plane. Needs the right to exec, which is
    /// not granted unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub exec: Option<ExecAction>,

    /// A request over HTTP or HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub http_get: Option<HttpGetAction>,

    /// A connection over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub tcp_socket: Option<TcpSocketAction>,

    /// How many seconds after its cluster is first probed the check begins. 0 to 3600.
    #[serde(default)]
    #[garde(range(min = 0, max = 3600))]
    pub initial_delay_seconds: i32,

    /// How many seconds from the start of one run to the start of the next. A run that takes longer
    /// delays the next. 1 to 3600.
    #[serde(default = "number::<10>")]
    #[garde(range(min = 1, max = 3600))]
    pub period_seconds: i32,

    /// How many seconds a run may take, from its connection to the last of its answer; one that takes
    /// longer has failed. 1 to 3600.
    #[serde(default = "number::<1>")]
    #[garde(range(min = 1, max = 3600))]
    pub timeout_seconds: i32,

    /// How many runs in a row must fail for the check to fail. 1 to 100.
    #[serde(default = "number::<3>")]
    #[garde(range(min = 1, max = 100))]
    pub failure_threshold: i32,

    /// How many runs in a row must succeed for a check that failed to pass again. 1 to 100.
    #[serde(default = "number::<1>")]
    #[garde(range(min = 1, max = 100))]
    pub success_threshold: i32,
}
