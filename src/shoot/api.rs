//! Reads that tell how an API server fares: whether it is ready, and whether it serves an API.

use std::time::Duration;

use super::client::Shoot;
use super::read::{JSON, body_of, refusal};
use super::unread::{Target, Unread};
use crate::util::text::clean;

/// So many failed checks of an API server are named, …
const MAX_FAILED: usize = 5;
/// … each with so many characters.
const MAX_CHECK: usize = 60;

/// Answer of an API server about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Ready.
    Ready,
    /// Not ready: the first of its checks that fail, by name, bounded and printable.
    NotReady(Vec<String>),
}

impl Shoot {
    /// Asks the API server within `limit` whether it is ready.
    ///
    /// # Errors
    ///
    /// If it says neither that it is nor which of its checks fail: that is no evidence.
    pub async fn readiness(&self, limit: Duration) -> Result<Readiness, Unread> {
        let tried = Target("get /readyz");
        self.exchange(tried, "/readyz", JSON, limit, async |head, body| {
            let body = body_of(tried, body).await;
            if head.status.is_success() {
                return body.map(|_| Readiness::Ready);
            }
            let body = body.unwrap_or_default();
            let failed = failed_checks(&String::from_utf8_lossy(&body));
            match head.status.is_server_error() && !failed.is_empty() {
                true => Ok(Readiness::NotReady(failed)),
                false => Err(refusal(tried, &head, &body)),
            }
        })
        .await
    }

    /// Asks within `limit` for what an API of this group and version has; an aggregated one answers
    /// only while what stands behind it does.
    ///
    /// # Errors
    ///
    /// If it does not answer with success.
    pub async fn serves(&self, group: &str, version: &str, limit: Duration) -> Result<(), Unread> {
        let tried = Target("get the API");
        let path = format!("/apis/{group}/{version}");
        self.exchange(tried, &path, JSON, limit, async |head, body| {
            let body = body_of(tried, body).await;
            match head.status.is_success() {
                true => body.map(|_| ()),
                false => Err(refusal(tried, &head, &body.unwrap_or_default())),
            }
        })
        .await
    }
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
