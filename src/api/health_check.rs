//! Further evidence of a cluster's health that a policy asks for, and what hangs on it.

use super::action::{
    ExecAction, HttpGetAction, LABEL_PATTERN, MAX_LABEL, TcpSocketAction, check_label,
};
use super::check::range;
use garde::Validate;
use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most checks of a policy.
pub(super) const MAX_CHECKS: usize = 8;
/// An hour: waits longer than this hide a mistake rather than serve a purpose.
pub(super) const MAX_SECONDS: i32 = 3600;
/// Most results in a row that a check can ask for.
pub(super) const MAX_THRESHOLD: i32 = 100;

const ACTION_MESSAGE: &str = "must have exactly one of exec, httpGet and tcpSocket";

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = action_rule())]
#[garde(custom(check_action))]
pub struct HealthCheck {
    /// The name by which the check is reported, unique in the policy.
    #[schemars(length(min = 1, max = MAX_LABEL), regex(pattern = LABEL_PATTERN))]
    #[garde(custom(check_label))]
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
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    #[garde(custom(range(0, MAX_SECONDS)))]
    pub initial_delay_seconds: i32,

    /// How many seconds from the start of one run to the start of the next. A run that takes longer
    /// delays the next. 1 to 3600.
    #[serde(default = "defaults::period")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    #[garde(custom(range(1, MAX_SECONDS)))]
    pub period_seconds: i32,

    /// How many seconds a run may take, from its connection to the last of its answer; one that takes
    /// longer has failed. 1 to 3600.
    #[serde(default = "defaults::timeout")]
    #[schemars(range(min = 1, max = MAX_SECONDS))]
    #[garde(custom(range(1, MAX_SECONDS)))]
    pub timeout_seconds: i32,

    /// How many runs in a row must fail for the check to fail. 1 to 100.
    #[serde(default = "defaults::failures")]
    #[schemars(range(min = 1, max = MAX_THRESHOLD))]
    #[garde(custom(range(1, MAX_THRESHOLD)))]
    pub failure_threshold: i32,

    /// How many runs in a row must succeed for a check that failed to pass again. 1 to 100.
    #[serde(default = "defaults::successes")]
    #[schemars(range(min = 1, max = MAX_THRESHOLD))]
    #[garde(custom(range(1, MAX_THRESHOLD)))]
    pub success_threshold: i32,
}

/// The defaults of the probes of a Kubernetes container.
pub(super) mod defaults {
    pub(in super::super) fn period() -> i32 {
        10
    }

    pub(in super::super) fn timeout() -> i32 {
        1
    }

    pub(in super::super) fn failures() -> i32 {
        3
    }

    pub(in super::super) fn successes() -> i32 {
        1
    }
}

fn action_rule() -> Rule {
    Rule::new("[has(self.exec), has(self.httpGet), has(self.tcpSocket)].filter(it, it).size() == 1")
        .message(ACTION_MESSAGE)
}

fn check_action(check: &HealthCheck, _: &()) -> garde::Result {
    let actions = [
        check.exec.is_some(),
        check.http_get.is_some(),
        check.tcp_socket.is_some(),
    ];
    if actions.into_iter().filter(|there| *there).count() != 1 {
        return Err(garde::Error::new(ACTION_MESSAGE));
    }
    Ok(())
}
