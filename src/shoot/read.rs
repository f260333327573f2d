//! Reads from a shoot: leases and nodes.
//!
//! A read is one request, in full or not at all, within one time limit that covers the connection,
//! the answer and its body. Lists are never paged: one request keeps one resourceVersion, and the
//! API server serves unpaged lists from its watch cache, consistent ones included.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header, response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;
use tokio::time::timeout;

use super::client::Shoot;
use super::lease::Lease;
use super::list::{Coming, Item, List};
use super::unread::{MAX_RETRY_AFTER, MIN_RETRY_AFTER, Target, Unread};
use super::wire;
use crate::util::mono_time::MonoTime;

/// Most bytes that are read of an answer that is no list. A longer one costs its connection.
const MAX_OTHER_BYTES: usize = 64 * 1024;

/// `Accept` where nothing else is decoded.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// `Accept` for lists, which are half as long in protobuf, and are decoded in a fraction of the time.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// Freshness of an answer.
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
    /// Before the request was sent.
    pub started: MonoTime,
    /// After the last byte came.
    pub finished: MonoTime,
    /// The server's clock between the two, in unix seconds, from the `Date` header. `None` if it is
    /// absent, ambiguous or malformed.
    pub date: Option<i64>,
    /// Freshness that was asked for.
    pub consistency: Consistency,
    /// The size of its body.
    pub bytes: usize,
    /// The list.
    pub list: List<Lease>,
}

impl Shoot {
    /// Lists the leases in `kube-node-lease` within `limit`.
    pub async fn leases(
        &self,
        consistency: Consistency,
        limit: Duration,
    ) -> Result<LeaseRead, Unread> {
        let (started, mut items) = (MonoTime::now(), Vec::new());
        let (headers, bytes, version) = self.list(consistency, limit, |it| items.push(it)).await?;
        Ok(LeaseRead {
            started,
            finished: MonoTime::now(),
            date: date(&headers),
            consistency,
            bytes,
            list: List {
                resource_version: version,
                items,
            },
        })
    }

    /// Lists all objects of a kind within `limit`, hands each over as it comes, and returns the headers, the size and the
    /// resourceVersion of the answer. What was made of the objects before an error is to be dropped.
    pub async fn list<T: Item>(
        &self,
        consistency: Consistency,
        limit: Duration,
        keep: impl FnMut(T),
    ) -> Result<(HeaderMap, usize, u64), Unread> {
        let tried = T::TARGET;
        let query = match consistency {
            Consistency::Cached => "?resourceVersion=0",
            Consistency::Consistent => "",
        };
        let read = async |head: response::Parts, body| {
            if !head.status.is_success() {
                let body = body_of(tried, body).await.unwrap_or_default();
                return Err(refusal(tried, &head, &body));
            }
            let mut coming = Coming::of(body, T::MAX_BYTES);
            match coming.list(keep).await {
                Ok(version) => Ok((head.headers, coming.bytes, version)),
                Err(error) if error.is::<hyper::Error>() => Err(tried.unreachable(&*error)),
                Err(error) => Err(tried.unreadable(&error.to_string(), &head, &coming.come)),
            }
        };
        let path = [T::PATH, query].concat();
        self.exchange(tried, &path, PROTOBUF, limit, read).await
    }

    /// Asks for what is at this path, and reads the answer, within `limit`.
    pub(super) async fn exchange<T>(
        &self,
        tried: Target,
        path: &str,
        accept: HeaderValue,
        limit: Duration,
        read: impl AsyncFnOnce(response::Parts, Incoming) -> Result<T, Unread>,
    ) -> Result<T, Unread> {
        // What is under way takes more memory than what is kept.
        match timeout(limit, Box::pin(self.get(path, accept, read))).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(tried.unreachable(&*error)),
            Err(_) => Err(tried.late(limit)),
        }
    }
}

#[derive(Deserialize)]
struct Status {
    message: String,
}

/// Reads the body of an answer that is no list, or the beginning of one that is too long.
pub(super) async fn body_of(tried: Target, mut body: Incoming) -> Result<Vec<u8>, Unread> {
    let mut start = Vec::new();
    while start.len() < MAX_OTHER_BYTES
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| tried.unreachable(&error))?;
        start.extend(frame.into_data().unwrap_or_default());
    }
    Ok(start)
}

/// Explains a status other than success.
pub(super) fn refusal(tried: Target, head: &response::Parts, body: &[u8]) -> Unread {
    let message = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        // To whoever takes protobuf, refusals come in it, too.
        Err(_) => match wire::status_message(body) {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(body).into_owned(),
        },
    };
    tried.refused(head.status, retry_after(&head.headers), &message)
}

/// Kubernetes sends whole seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = Duration::from_secs(text.trim().parse().ok()?);
    Some(wait.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
}

/// Two dates would leave open whose clock is read: something in between added its own.
fn date(headers: &HeaderMap) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let mut dates = headers.get_all(header::DATE).iter();
    let (first, None) = (dates.next()?, dates.next()) else {
        return None;
    };
    let time = PARSER.parse_timestamp(first.as_bytes()).ok()?;
    // No clock that can be compared shows another.
    let nanos = i64::try_from(time.as_nanosecond()).ok();
    nanos.map(|_| time.as_second())
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
            (&["Fri, 31 Dec 9999 23:59:59 GMT"], None),
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
