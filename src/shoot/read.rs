//! Reads from a shoot: leases, nodes, version.
//!
//! A read is one request, in full or not at all, within one time limit that covers the connection,
//! the answer and its body. Lists are never paged: one request keeps one resourceVersion, and the
//! API server serves unpaged lists from its watch cache, consistent ones included.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, StatusCode, header, response};
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;

use super::client::{Body, Shoot};
use super::error::{MAX_RETRY_AFTER, MIN_RETRY_AFTER, ReadError, Target};
use super::lease::LeaseList;
use super::list::{DecodeError, MAX_ITEMS};
use super::node::Node;
use super::received::{End, Received, read_body};
use super::room::ROOM_BYTES;
use super::wire;
use crate::util::text::clean;

/// The largest answer with leases, in bytes: a lease takes about 860, so this is more than 19,000
/// nodes, several times what a cluster can have. A shoot's own administrator can make leases as
/// large as etcd takes them, at the cost of everybody's memory.
pub const MAX_LEASES_BYTES: usize = 16 * 1024 * 1024;

/// The largest answer with nodes, in bytes: a node takes 15 to 20 KB, so this is more than 6,500
/// nodes, above Kubernetes' limit of 5,000.
pub const MAX_NODES_BYTES: usize = 128 * 1024 * 1024;

/// The largest answer with a version, in bytes: it takes less than 1,000.
pub const MAX_VERSION_BYTES: usize = 64 * 1024;

/// How much of a refusal is read, in bytes; a Status takes a few hundred. A longer one costs its
/// connection.
pub const REFUSAL_BYTES: usize = 16 * 1024;

/// Room for a version, in characters: `v1.36.3-gke.1234567+0123456789abcdef`.
const MAX_VERSION_CHARS: usize = 64;

/// What `Accept` says where nothing else is decoded.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// What it says for lists. Whatever serves no protobuf answers in JSON.
const LISTS: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// `resourceVersion=0`: whatever the answering server has in its cache. Cheap, possibly stale.
    Cached,
    /// No resourceVersion: at least as new as the request.
    Consistent,
}

/// A list of leases, and when it was read.
#[derive(Clone, Debug)]
pub struct LeaseRead {
    /// Before the request was sent, by our monotonic clock.
    pub started: Instant,
    /// After the last byte came, by our monotonic clock.
    pub finished: Instant,
    /// The server's clock between the two, in unix seconds, from the `Date` header. `None` if it is
    /// absent, ambiguous or malformed.
    pub date: Option<i64>,
    /// How fresh the list had to be.
    pub consistency: Consistency,
    /// The size of its body.
    pub bytes: usize,
    /// How long it took to decode.
    pub decoding: Duration,
    /// The list.
    pub list: LeaseList,
}

impl Shoot {
    /// Lists the leases in `kube-node-lease` within `limit`.
    pub async fn leases(
        &self,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<LeaseRead, ReadError> {
        let answer = self.read(Target::Leases, consistency, limit).await?;
        let began = tokio::time::Instant::now();
        let list = LeaseList::decode(&answer.body)
            .map_err(|error| answer.no_list(Target::Leases, &error))?;
        let Answer {
            started,
            finished,
            ref headers,
            ..
        } = answer;
        Ok(LeaseRead {
            started,
            finished,
            date: date(headers),
            consistency,
            bytes: answer.body.len(),
            decoding: began.elapsed(),
            list,
        })
    }

    /// Lists all nodes within `limit`. A large answer: the caller bounds how many run at once.
    pub async fn nodes(
        &self,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<Vec<Node>, ReadError> {
        let answer = self.read(Target::Nodes, consistency, limit).await?;
        Node::decode_list(&answer.body).map_err(|error| answer.no_list(Target::Nodes, &error))
    }

    /// Gets the version of the API server within `limit`, such as `v1.36.3`, bounded and printable.
    pub async fn version(&self, limit: Duration) -> Result<String, ReadError> {
        let answer = self
            .read(Target::Version, Consistency::Consistent, limit)
            .await?;
        let version: Version = serde_json::from_slice(&answer.body)
            .map_err(|_| answer.unreadable(Target::Version, &"no JSON with a gitVersion"))?;
        Ok(clean(&version.git_version, MAX_VERSION_CHARS))
    }

    async fn read(
        &self,
        target: Target,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<Answer, ReadError> {
        // tokio's clock is the monotonic clock, except in tests that pause it.
        let started = tokio::time::Instant::now().into_std();
        let exchange = self.exchange(target, consistency);
        let (headers, body) = within(target, limit, exchange).await?;
        let finished = tokio::time::Instant::now().into_std();
        Ok(Answer {
            started,
            finished,
            headers,
            body,
        })
    }

    async fn exchange(
        &self,
        target: Target,
        consistency: Consistency,
    ) -> Result<(HeaderMap, Received), ReadError> {
        let (path, accept) = request(target, consistency);
        let (head, body) = self.ask(target, path, accept).await?;
        if !head.status.is_success() {
            return Err(refusal(target, &head, body).await);
        }
        let limit = limit_of(target);
        match read_body(body, limit).await {
            (body, Ok(End::Whole)) => Ok((head.headers, body)),
            (_, Ok(End::CutOff)) => Err(ReadError::TooLarge {
                tried: target,
                limit,
            }),
            (_, Ok(End::Crowded)) => Err(ReadError::Crowded {
                tried: target,
                limit: ROOM_BYTES,
            }),
            (_, Err(error)) => Err(ReadError::unreachable(target, &error)),
        }
    }

    /// Asks for what is at this path.
    pub(super) async fn ask(
        &self,
        tried: Target,
        path: &str,
        accept: HeaderValue,
    ) -> Result<(response::Parts, Body), ReadError> {
        let answer = self.get(path, accept).await;
        answer.map_err(|error| ReadError::unreachable(tried, &*error))
    }
}

/// Gives a read up that takes longer than this.
pub(super) async fn within<T>(
    tried: Target,
    limit: Duration,
    read: impl Future<Output = Result<T, ReadError>>,
) -> Result<T, ReadError> {
    let after = limit;
    let read = tokio::time::timeout(limit, read).await;
    read.unwrap_or(Err(ReadError::Timeout { tried, after }))
}

/// A successful answer.
struct Answer {
    started: Instant,
    finished: Instant,
    headers: HeaderMap,
    body: Received,
}

impl Answer {
    fn no_list(&self, target: Target, problem: &DecodeError) -> ReadError {
        match problem {
            DecodeError::TooMany { .. } => ReadError::TooMany {
                tried: target,
                limit: MAX_ITEMS,
            },
            problem => self.unreadable(target, problem),
        }
    }

    fn unreadable(&self, target: Target, problem: &dyn std::fmt::Display) -> ReadError {
        let content_type = self.headers.get(header::CONTENT_TYPE);
        let content_type = content_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        ReadError::unreadable(target, problem, content_type, &self.body)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

#[derive(Deserialize)]
struct Status {
    message: String,
}

fn limit_of(target: Target) -> usize {
    match target {
        Target::Leases => MAX_LEASES_BYTES,
        Target::Nodes => MAX_NODES_BYTES,
        Target::Version | Target::Readiness | Target::Api => MAX_VERSION_BYTES,
    }
}

/// What is asked for, and how it may be encoded. Lists are half as long in protobuf, and are decoded in
/// a fraction of the time.
fn request(target: Target, consistency: Consistency) -> (&'static str, HeaderValue) {
    match (target, consistency) {
        (Target::Leases, Consistency::Cached) => (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?resourceVersion=0",
            LISTS,
        ),
        (Target::Leases, Consistency::Consistent) => (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            LISTS,
        ),
        (Target::Nodes, Consistency::Cached) => ("/api/v1/nodes?resourceVersion=0", LISTS),
        (Target::Nodes, Consistency::Consistent) => ("/api/v1/nodes", LISTS),
        (Target::Version, _) => ("/version", JSON),
        (Target::Readiness, _) => ("/readyz", JSON),
        (Target::Api, _) => ("/apis", JSON),
    }
}

/// What a status other than success means. Its body is read even where it is not needed, since
/// the connection could not be kept otherwise.
pub(super) async fn refusal(tried: Target, head: &response::Parts, body: Body) -> ReadError {
    let (body, _) = read_body(body, REFUSAL_BYTES).await;
    match head.status {
        StatusCode::UNAUTHORIZED => ReadError::Unauthorized { tried },
        StatusCode::FORBIDDEN => tried.forbidden(),
        StatusCode::NOT_FOUND => ReadError::NotFound { tried },
        StatusCode::TOO_MANY_REQUESTS => ReadError::TooManyRequests {
            tried,
            retry_after: retry_after(&head.headers),
        },
        status => {
            let message = match serde_json::from_slice::<Status>(&body) {
                Ok(status) => status.message,
                // To whoever takes protobuf, refusals come in it, too.
                Err(_) => match wire::status_message(&body) {
                    Some(message) => message.to_owned(),
                    None => String::from_utf8_lossy(&body).into_owned(),
                },
            };
            ReadError::server(tried, status.as_u16(), &message)
        }
    }
}

/// Kubernetes sends whole seconds; a number too large for its type is a very long wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let wait = text.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs);
    Some(wait.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
}

/// Two dates would leave open whose clock is read: something in between added its own.
fn date(headers: &HeaderMap) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let mut dates = headers.get_all(header::DATE).iter();
    let (first, None) = (dates.next()?, dates.next()) else {
        return None;
    };
    PARSER
        .parse_timestamp(first.as_bytes())
        .ok()
        .map(|time| time.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn the_date_of_a_response() {
        for (values, expected) in [
            (&["Fri, 20 Nov 2026 11:02:33 GMT"][..], Some(1_795_172_553)),
            (&[], None),
            (&[""], None),
            (&["2026-11-20T11:02:33Z"], None),
            (
                &[
                    "Fri, 20 Nov 2026 11:02:33 GMT",
                    "Fri, 20 Nov 2026 11:02:40 GMT",
                ],
                None,
            ),
            (&["Thu, 99 Nov 2026 11:02:33 GMT"], None),
        ] {
            assert_eq!(date(&headers(header::DATE, values)), expected, "{values:?}");
        }
    }

    #[test]
    fn retry_after_is_bounded_seconds() {
        for (values, expected) in [
            (&["7"][..], Some(7)),
            (&["0"], Some(1)),
            (&["3600"], Some(30)),
            (&["99999999999999999999999"], Some(30)),
            (&["-1"], None),
            (&["1.5"], None),
            (&["soon"], None),
            (&[""], None),
            (&["Fri, 20 Nov 2026 11:02:33 GMT"], None),
            (&[], None),
        ] {
            let got = retry_after(&headers(header::RETRY_AFTER, values));
            assert_eq!(got, expected.map(Duration::from_secs), "{values:?}");
        }
    }
}
