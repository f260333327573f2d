//! Reads that tell how an API server fares: whether it is ready, and whether it serves an API.

use std::time::Duration;

use http::StatusCode;

use super::client::{Body, Shoot};
use super::read::{JSON, MAX_OTHER_BYTES, REFUSAL_BYTES, read_start, refusal, within};
use super::unread::{Target, Unread};
use crate::util::text::clean;

/// So many failed checks of an API server are named, …
const MAX_FAILED: usize = 5;
/// … each with so many characters.
const MAX_CHECK: usize = 60;

/// What an API server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It is not: the first checks of its own that fail, by name, bounded and printable.
    NotReady(Vec<String>),
}

impl Shoot {
    /// Asks the API server within `limit` whether it is ready.
    ///
    /// # Errors
    ///
    /// If it says neither that it is nor which of its checks fail: that is no evidence.
    pub async fn readiness(&self, limit: Duration) -> Result<Readiness, Unread> {
        let tried = Target::Readiness;
        let exchange = async {
            let (head, body) = self.ask(tried, "/readyz", JSON).await?;
            if head.status != StatusCode::INTERNAL_SERVER_ERROR {
                return match head.status.is_success() {
                    true => drain(tried, body).await.map(|()| Readiness::Ready),
                    false => Err(refusal(tried, &head, body).await),
                };
            }
            let (body, _) = read_start(body, REFUSAL_BYTES).await;
            match failed_checks(&String::from_utf8_lossy(&body)) {
                failed if failed.is_empty() => {
                    let said = String::from_utf8_lossy(&body);
                    Err(tried.refused(head.status, None, &said))
                }
                failed => Ok(Readiness::NotReady(failed)),
            }
        };
        within(tried, limit, exchange).await
    }

    /// Asks within `limit` for what an API of this group and version has; an aggregated one answers
    /// only while what stands behind it does.
    ///
    /// # Errors
    ///
    /// If it does not answer with success.
    pub async fn serves(&self, group: &str, version: &str, limit: Duration) -> Result<(), Unread> {
        let tried = Target::Api;
        let path = format!("/apis/{group}/{version}");
        let exchange = async {
            let (head, body) = self.ask(tried, &path, JSON).await?;
            match head.status.is_success() {
                true => drain(tried, body).await,
                false => Err(refusal(tried, &head, body).await),
            }
        };
        within(tried, limit, exchange).await
    }
}

/// Reads what is not needed, since the connection could not be kept otherwise.
async fn drain(tried: Target, body: Body) -> Result<(), Unread> {
    let (_, ended) = read_start(body, MAX_OTHER_BYTES).await;
    ended.map_err(|error| tried.unreachable(&error))
}

/// The names in lines such as `[-]etcd failed: reason withheld`.
fn failed_checks(body: &str) -> Vec<String> {
    let lines = body.lines().filter_map(|line| line.strip_prefix("[-]"));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names
        .map(|name| clean(name, MAX_CHECK))
        .filter(|name| !name.is_empty())
        .take(MAX_FAILED)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn failed_checks_are_named() {
        let body = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\n\
                    [-]poststarthook/crd-informer-synced failed: reason withheld\n\
                    readyz check failed\n";
        assert_eq!(
            failed_checks(body),
            ["etcd", "poststarthook/crd-informer-synced"]
        );
        for none in ["", "ok", "[+]ping ok", "[-]", "<html>[-]etcd</html>"] {
            assert_eq!(failed_checks(none), Vec::<String>::new(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn names_are_few_short_and_printable(body in "(\\[-\\][^\n]{0,200}\n){0,20}") {
            let failed = failed_checks(&body);
            prop_assert!(failed.len() <= MAX_FAILED);
            for name in failed {
                prop_assert!(name.chars().count() <= MAX_CHECK);
                prop_assert!(!name.chars().any(char::is_control));
            }
        }
    }
}
