//! Reads from a shoot: leases, nodes, version.
//!
//! A read is one request, in full or not at all, within one time limit that covers the connection,
//! the answer and its body. Lists are never paged: one request keeps one resourceVersion, and the
//! API server serves unpaged lists from its watch cache, consistent ones included.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::client::Body;
use serde::Deserialize;

use super::client::Shoot;
use super::error::{MAX_RETRY_AFTER, MIN_RETRY_AFTER, ReadError, Target};
use super::lease::LeaseList;
use super::node::Node;
use super::text::clean;

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
        let answer = self.get(Target::Leases, consistency, limit).await?;
        let list = LeaseList::decode(&answer.body)
            .map_err(|error| answer.unreadable(Target::Leases, &error))?;
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
            list,
        })
    }

    /// Lists all nodes within `limit`. A large answer: the caller bounds how many run at once.
    pub async fn nodes(
        &self,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<Vec<Node>, ReadError> {
        let answer = self.get(Target::Nodes, consistency, limit).await?;
        Node::decode_list(&answer.body).map_err(|error| answer.unreadable(Target::Nodes, &error))
    }

    /// Gets the version of the API server within `limit`, such as `v1.36.3`, bounded and printable.
    pub async fn version(&self, limit: Duration) -> Result<String, ReadError> {
        let answer = self
            .get(Target::Version, Consistency::Consistent, limit)
            .await?;
        let version: Version = serde_json::from_slice(&answer.body)
            .map_err(|_| answer.unreadable(Target::Version, &"no JSON with a gitVersion"))?;
        Ok(clean(&version.git_version, MAX_VERSION_CHARS))
    }

    async fn get(
        &self,
        target: Target,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<Answer, ReadError> {
        // tokio's clock is the monotonic clock, except in tests that pause it.
        let started = tokio::time::Instant::now().into_std();
        let (headers, body) = tokio::time::timeout(limit, self.exchange(target, consistency))
            .await
            .map_err(|_| ReadError::Timeout {
                tried: target,
                after: limit,
            })??;
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
    ) -> Result<(HeaderMap, Vec<u8>), ReadError> {
        let response = self
            .client
            .send(request(target, consistency))
            .await
            .map_err(|error| ReadError::unreachable(target, &error))?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(refusal(target, head.status, &head.headers, body).await);
        }
        let limit = limit_of(target);
        match read_body(body, limit).await {
            (body, Ok(End::Whole)) => Ok((head.headers, body)),
            (_, Ok(End::CutOff)) => Err(ReadError::TooLarge {
                tried: target,
                limit,
            }),
            (_, Err(error)) => Err(ReadError::unreachable(target, &error)),
        }
    }
}

/// A successful answer.
struct Answer {
    started: Instant,
    finished: Instant,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
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

fn request(target: Target, consistency: Consistency) -> Request<Body> {
    get(Uri::from_static(match (target, consistency) {
        (Target::Leases, Consistency::Cached) => {
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?resourceVersion=0"
        }
        (Target::Leases, Consistency::Consistent) => {
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        }
        (Target::Nodes, Consistency::Cached) => "/api/v1/nodes?resourceVersion=0",
        (Target::Nodes, Consistency::Consistent) => "/api/v1/nodes",
        (Target::Version, _) => "/version",
        (Target::Readiness, _) => "/readyz",
        (Target::Api, _) => "/apis",
    }))
}

/// A request for JSON from this path.
pub(super) fn get(path: Uri) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = path;
    request
        .headers_mut()
        .insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    request
}

pub(super) enum End {
    Whole,
    CutOff,
}

/// Reads at most `limit` bytes. What was read before an error is returned as well.
pub(super) async fn read_body(mut body: Body, limit: usize) -> (Vec<u8>, Result<End, kube::Error>) {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return (read, Err(error)),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let room = limit.saturating_sub(read.len());
        read.extend_from_slice(data.get(..room).unwrap_or(&data));
        if data.len() > room {
            return (read, Ok(End::CutOff));
        }
    }
    (read, Ok(End::Whole))
}

/// What a status other than success means. Its body is read even where it is not needed, since
/// the connection could not be kept otherwise.
pub(super) async fn refusal(
    tried: Target,
    status: StatusCode,
    headers: &HeaderMap,
    body: Body,
) -> ReadError {
    let (body, _) = read_body(body, REFUSAL_BYTES).await;
    match status {
        StatusCode::UNAUTHORIZED => ReadError::Unauthorized { tried },
        StatusCode::FORBIDDEN => tried.forbidden(),
        StatusCode::NOT_FOUND => ReadError::NotFound { tried },
        StatusCode::TOO_MANY_REQUESTS => ReadError::TooManyRequests {
            tried,
            retry_after: retry_after(headers),
        },
        _ => {
            let message = match serde_json::from_slice::<Status>(&body) {
                Ok(status) => status.message,
                Err(_) => String::from_utf8_lossy(&body).into_owned(),
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

    #[tokio::test]
    async fn a_body_is_cut_off_beyond_its_limit() {
        for (len, kept, whole) in [(0, 0, true), (9, 9, true), (10, 10, true), (11, 10, false)] {
            let (body, end) = read_body(Body::from(vec![b'x'; len]), 10).await;
            assert_eq!(body.len(), kept);
            assert_eq!(matches!(end, Ok(End::Whole)), whole, "{len}");
        }
    }
}
