//! What a check does: a command in a pod, a request over HTTP, or a connection. Fields, defaults and
//! limits are those of the probes of a Kubernetes container, as far as they make sense from outside
//! the pod.

use super::LabelSelector;
use super::forms::{HEADER_NAME, HEADER_VALUE, LABEL, MAX_LABEL, PATH, Rule};
use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const POD_SELECTOR: Rule<LabelSelector> = Rule::new(
    "has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && \
     size(self.matchExpressions) > 0",
    "must name a label: an empty selector would match every pod of the namespace",
    |selector| !selector.is_empty(),
);

/// A command that is run in a container of the cluster's control plane. Its exit code decides: 0 is a
/// success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// Selects the pod by its labels, in the cluster's namespace. Of several that run, one that is
    /// ready is taken before one that is not, then the first by name.
    #[schemars(extend("x-kubernetes-validations" = [POD_SELECTOR]))]
    #[garde(custom(POD_SELECTOR.check()), dive)]
    pub pod_selector: LabelSelector,

    /// The container. May be left out if the pod has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(length(min = 1, max = MAX_LABEL), pattern(LABEL))]
    pub container: Option<String>,

    /// The command and its arguments, run in the root directory of the container and not by a shell.
    /// 1 to 64 words.
    #[garde(length(min = 1, max = 64), inner(length(chars, min = 1, max = 4096)))]
    pub command: Vec<String>,
}

/// A request over HTTP. A status from 200 to 399 is a success; no redirection is followed. A server's
/// certificate is not verified, as the kubelet does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The name of a Service in the cluster's namespace.
    #[garde(length(min = 1, max = MAX_LABEL), pattern(LABEL))]
    pub service: String,

    /// The port, as a number. 1 to 65535.
    #[garde(range(min = 1, max = 65_535))]
    pub port: i32,

    /// The path and query, with what may not stand in a URL encoded. No redirection is followed: name
    /// the final path.
    #[serde(default = "root")]
    #[garde(length(min = 1, max = 2048), pattern(PATH))]
    pub path: String,

    /// HTTP or HTTPS.
    #[serde(default)]
    #[garde(skip)]
    pub scheme: Scheme,

    /// Headers of the request; a Host among them takes the place of the one that would be sent. At
    /// most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(length(max = 16), dive)]
    pub http_headers: Vec<HttpHeader>,
}

/// A connection over TCP. It is a success once it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct TcpSocketAction {
    /// The name of a Service in the cluster's namespace.
    #[garde(length(min = 1, max = MAX_LABEL), pattern(LABEL))]
    pub service: String,

    /// The port, as a number. 1 to 65535.
    #[garde(range(min = 1, max = 65_535))]
    pub port: i32,
}

/// Whether a request is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Scheme {
    /// It is not.
    #[default]
    Http,
    /// It is, and the server's certificate is not verified.
    Https,
}

/// One header of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct HttpHeader {
    /// The name of the header.
    #[garde(length(min = 1, max = 128), pattern(HEADER_NAME))]
    pub name: String,

    /// The value of the header. Whoever may read the policy can read it: put no secret here.
    #[garde(length(max = 1024), pattern(HEADER_VALUE))]
    pub value: String,
}

fn root() -> String {
    "/".to_owned()
}
