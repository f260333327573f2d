//! What a check does: a command in a pod, a request over HTTP, or a connection. Fields, defaults and
//! limits are those of the probes of a Kubernetes container, as far as they make sense from outside
//! the pod.

use super::LabelSelector;
use super::check::{entries, range};
use super::selector::is_dns_subdomain;
use garde::Validate;
use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most words of a command.
const MAX_COMMAND: usize = 64;
/// Most characters of one word of a command.
const MAX_WORD: usize = 4096;
/// Most headers of a request.
const MAX_HEADERS: usize = 16;
const MAX_HEADER_NAME: usize = 128;
const MAX_HEADER_VALUE: usize = 1024;
const MAX_PATH: usize = 2048;
const MAX_PORT: i32 = 65_535;

/// DNS label by RFC 1123, which names of containers and Services are.
pub(super) const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";
pub(super) const MAX_LABEL: usize = 63;
/// Printable ASCII that may stand in a request as it is.
const PATH_PATTERN: &str = r"^/[!$-;=?-\[\]_a-z~]*$";
/// A token by RFC 9110.
const HEADER_NAME_PATTERN: &str = "^[-!#$%&'*+.^_`|~0-9A-Za-z]+$";
/// Printable ASCII.
const HEADER_VALUE_PATTERN: &str = "^[ -~]*$";

const POD_SELECTOR_MESSAGE: &str = "must name a label: an empty selector would match every pod of \
     the namespace";

/// A command that is run in a container of the cluster's control plane. Its exit code decides: 0 is a
/// success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct ExecAction {
    /// Selects the pod by its labels, in the cluster's namespace. Of several that run, one that is
    /// ready is taken before one that is not, then the first by name.
    #[x_kube(validation = pod_selector_rule())]
    #[garde(custom(check_pod_selector), dive)]
    pub pod_selector: LabelSelector,

    /// The container. May be left out if the pod has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_LABEL), regex(pattern = LABEL_PATTERN))]
    #[garde(inner(custom(check_label)))]
    pub container: Option<String>,

    /// The command and its arguments, run in the root directory of the container and not by a shell.
    /// 1 to 64 words.
    #[schemars(
        length(min = 1, max = MAX_COMMAND),
        inner(length(min = 1, max = MAX_WORD))
    )]
    #[garde(custom(entries(1, MAX_COMMAND)), inner(custom(check_word)))]
    pub command: Vec<String>,
}

/// A request over HTTP. A status from 200 to 399 is a success; no redirection is followed. A server's
/// certificate is not verified, as the kubelet does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct HttpGetAction {
    /// The name of a Service in the cluster's namespace.
    #[schemars(length(min = 1, max = MAX_LABEL), regex(pattern = LABEL_PATTERN))]
    #[garde(custom(check_label))]
    pub service: String,

    /// The port, as a number. 1 to 65535.
    #[schemars(range(min = 1, max = MAX_PORT))]
    #[garde(custom(range(1, MAX_PORT)))]
    pub port: i32,

    /// The path and query, with what may not stand in a URL encoded. No redirection is followed: name
    /// the final path.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = MAX_PATH), regex(pattern = PATH_PATTERN))]
    #[garde(custom(check_path))]
    pub path: String,

    /// HTTP or HTTPS.
    #[serde(default)]
    #[garde(skip)]
    pub scheme: Scheme,

    /// Headers of the request; a Host among them takes the place of the one that would be sent. At
    /// most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_HEADERS))]
    #[garde(custom(entries(0, MAX_HEADERS)), dive)]
    pub http_headers: Vec<HttpHeader>,
}

/// A connection over TCP. It is a success once it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase")]
pub struct TcpSocketAction {
    /// The name of a Service in the cluster's namespace.
    #[schemars(length(min = 1, max = MAX_LABEL), regex(pattern = LABEL_PATTERN))]
    #[garde(custom(check_label))]
    pub service: String,

    /// The port, as a number. 1 to 65535.
    #[schemars(range(min = 1, max = MAX_PORT))]
    #[garde(custom(range(1, MAX_PORT)))]
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
    #[schemars(length(min = 1, max = MAX_HEADER_NAME), regex(pattern = HEADER_NAME_PATTERN))]
    #[garde(custom(check_header_name))]
    pub name: String,

    /// The value of the header. Whoever may read the policy can read it: put no secret here.
    #[schemars(length(max = MAX_HEADER_VALUE), regex(pattern = HEADER_VALUE_PATTERN))]
    #[garde(custom(check_header_value))]
    pub value: String,
}

fn root() -> String {
    "/".to_owned()
}

fn pod_selector_rule() -> Rule {
    Rule::new(
        "has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && \
         size(self.matchExpressions) > 0",
    )
    .message(POD_SELECTOR_MESSAGE)
}

fn check_pod_selector(selector: &LabelSelector, _: &()) -> garde::Result {
    if selector.is_empty() {
        return Err(garde::Error::new(POD_SELECTOR_MESSAGE));
    }
    Ok(())
}

fn check_word(word: &str, _: &()) -> garde::Result {
    // The schema counts characters.
    match word.chars().count() {
        1..=MAX_WORD => Ok(()),
        count => Err(garde::Error::new(format_args!(
            "must have at least 1 and at most {MAX_WORD} characters, not {count}"
        ))),
    }
}

/// That a text can be the name of a container, a Service or a check.
pub(super) fn check_label(text: &str, _: &()) -> garde::Result {
    if text.len() <= MAX_LABEL && !text.contains('.') && is_dns_subdomain(text) {
        return Ok(());
    }
    Err(garde::Error::new(
        "must be at most 63 lower case letters, digits or '-', beginning and ending with a letter or \
         digit",
    ))
}

fn check_path(text: &str, _: &()) -> garde::Result {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&b);
    if text.starts_with('/') && text.len() <= MAX_PATH && text.bytes().all(plain) {
        return Ok(());
    }
    Err(garde::Error::new(format_args!(
        "must begin with '/' and have at most {MAX_PATH} printable ASCII characters; encode spaces and \
         any of \"#<>\\^`{{|}}, such as %20 for a space"
    )))
}

fn check_header_name(text: &str, _: &()) -> garde::Result {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if (1..=MAX_HEADER_NAME).contains(&text.len()) && text.bytes().all(token) {
        return Ok(());
    }
    Err(garde::Error::new(
        "must be the name of a header, such as Accept",
    ))
}

fn check_header_value(text: &str, _: &()) -> garde::Result {
    if text.len() <= MAX_HEADER_VALUE && text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Ok(());
    }
    Err(garde::Error::new(format_args!(
        "must have at most {MAX_HEADER_VALUE} printable ASCII characters"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    type Check = fn(&str, &()) -> garde::Result;

    proptest! {
        #[test]
        fn texts_are_those_of_the_schema(text in "[a-z0-9A./_-]{0,4}[a-f0-9-]{0,66}|/[!-~]{0,4} ?|[ -~]{0,4}\\PC?") {
            for (pattern, max, check) in [
                (LABEL_PATTERN, MAX_LABEL, check_label as Check),
                (PATH_PATTERN, MAX_PATH, check_path),
                (HEADER_NAME_PATTERN, MAX_HEADER_NAME, check_header_name),
                (HEADER_VALUE_PATTERN, MAX_HEADER_VALUE, check_header_value),
            ] {
                let schema = text.len() <= max && Regex::new(pattern).unwrap().is_match(&text);
                prop_assert_eq!(check(&text, &()).is_ok(), schema, "{} {}", pattern, text);
            }
        }
    }
}
