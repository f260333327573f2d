//! Why something told nothing that was to be read, and what to do about it.
//!
//! Whatever comes from the other side is bounded and made printable before it enters a message,
//! so that a message fits a condition and can forge no log line. None carries a secret.

use std::{error::Error, io, iter, time::Duration};

use http::{StatusCode, header, response};

use crate::util::text::{clean, clean_bytes};

/// A server that asks for more patience than this is asked again all the same: a shoot must not
/// be able to switch its own protection off.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// A server that asks for less is not asked sooner: it is overloaded.
pub(super) const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Judgement: the pause of a server that asks for less load without saying in seconds for how long.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The reason where something that the seed has could not be read.
pub const SEED_UNREADABLE: &str = "SeedUnreadable";

/// Room for the text of a cause or of a server, in characters.
const MAX_TEXT: usize = 120;

/// Why a read told nothing. None of these is evidence about the nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unread {
    /// The reason for a condition, in CamelCase.
    pub reason: &'static str,
    /// Object that was to be read, cause and remedy.
    pub message: String,
    /// Behaviour of the other side.
    pub said: Said,
}

/// Behaviour of a server that told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// No whole answer came in time.
    Late,
    /// There was no connection, or one that broke.
    Broken,
    /// 429, and for how long it is left alone: as it asks, within bounds.
    Throttled(Duration),
    /// The credentials are refused.
    Refused,
    /// Something else; or it was not even asked.
    Other,
}

impl Unread {
    /// For this reason, which has nothing to do with how a server behaves.
    pub fn new(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            message,
            said: Said::Other,
        }
    }
}

/// Kind of a read from an API server, in the words that follow "cannot".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target(pub(super) &'static str);

impl Target {
    /// No whole answer came within this time.
    pub fn late(self, after: Duration) -> Unread {
        let problem = format!(
            "no whole answer within {} ms; check the network to the API server and its load",
            after.as_millis()
        );
        self.unread("Timeout", Said::Late, &problem)
    }

    /// There was no connection, or one that broke, for this reason.
    pub(super) fn unreachable(self, error: &(dyn Error + 'static)) -> Unread {
        let chain: Vec<_> = iter::successors(Some(error), |error| within(*error)).collect();
        let is_dns = |error: &&(dyn Error + 'static)| error.to_string() == "dns error";
        // As which rustls reports all that it refuses.
        let is_tls = |error: &&(dyn Error + 'static)| {
            let io = error.downcast_ref::<io::Error>();
            io.is_some_and(|it| it.kind() == io::ErrorKind::InvalidData)
        };
        let cause = chain.last().map(ToString::to_string).unwrap_or_default();
        let (reason, remedy) = if chain.iter().any(is_dns) {
            let remedy = "check the host name in the kubeconfig and the seed's DNS";
            ("NameNotResolved", remedy)
        } else if chain.iter().any(is_tls) {
            ("TlsFailed", tls_remedy(&cause))
        } else {
            let remedy = "check that the API server runs, and the network to it";
            ("Unreachable", remedy)
        };
        let problem = format!("{}; {remedy}", clean(&cause, MAX_TEXT));
        self.unread(reason, Said::Broken, &problem)
    }

    /// An answer with this status, which is no success, and with this message.
    pub(super) fn refused(self, code: StatusCode, wait: Option<Duration>, message: &str) -> Unread {
        match code {
            StatusCode::UNAUTHORIZED => {
                let problem = "the API server does not accept the credentials (401); renew the kubeconfig in the \
                               Secret";
                self.unread("Unauthorized", Said::Refused, problem)
            }
            StatusCode::FORBIDDEN => {
                let problem = "the user of the kubeconfig may not (403); grant it this right in the shoot, as \
                               manifests/shoot does";
                self.unread("Forbidden", Said::Refused, problem)
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let wait = wait.unwrap_or(RETRY_AFTER);
                let problem = format!("the API server is busy (429), and left alone for {wait:?}");
                self.unread("TooManyRequests", Said::Throttled(wait), &problem)
            }
            code => {
                let explained = Some(clean(message, MAX_TEXT)).filter(|it| !it.is_empty());
                let problem = format!(
                    "the API server answers {} ({}); look at its log",
                    code.as_u16(),
                    explained.as_deref().unwrap_or("no explanation")
                );
                self.unread("ServerError", Said::Other, &problem)
            }
        }
    }

    /// A success whose body is not what was asked for, as shows where this stands in it.
    pub(super) fn unreadable(self, problem: &str, head: &response::Parts, place: &[u8]) -> Unread {
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let problem = format!(
            "{} came, with content type '{}', at '{}'; see what answers there, such as a proxy, \
             and delete what was made to no purpose",
            clean(problem, 65),
            clean_bytes(content_type.map_or(&[], |it| it.as_bytes()), 24),
            clean_bytes(place, 40)
        );
        self.unread("Unreadable", Said::Other, &problem)
    }

    fn unread(self, reason: &'static str, said: Said, problem: &str) -> Unread {
        Unread {
            reason,
            message: format!("cannot {}: {problem}", self.0),
            said,
        }
    }
}

/// The cause of an error. An [`io::Error`] that wraps another error does not name it as its source.
fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let io = error.downcast_ref::<io::Error>();
    match io.and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Remedy for certificates that rustls refuses, some of which Go takes.
fn tls_remedy(cause: &str) -> &'static str {
    let remedies = [
        (
            "UnknownIssuer",
            "put into certificate-authority-data who signed the API server's certificate, not that \
             certificate itself",
        ),
        (
            "CaUsedAsEndEntity",
            "give the API server a certificate that is not one of an authority (CA:TRUE)",
        ),
        (
            "UnsupportedSignatureAlgorithm",
            "have the certificates use RSA, P-256 or P-384: others, such as P-521, are not \
             understood",
        ),
        // No common algorithm: a server whose only key is of another kind has none to show.
        (
            "HandshakeFailure",
            "give the API server a key of RSA, P-256 or P-384, and TLS of at least 1.2",
        ),
    ];
    let known = remedies.iter().find(|(it, _)| cause.contains(it));
    known.map_or(
        "check certificate-authority-data and the API server's certificate",
        |(_, remedy)| remedy,
    )
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Response};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_are_short_and_printable(text in "(?s)[\"\\\\].{0,400}", after: Duration, code in 300_u16..600) {
            let tried = Target("list the leases in kube-node-lease");
            let code = StatusCode::from_u16(code).unwrap();
            let (mut head, _) = Response::new(()).into_parts();
            let content_type = HeaderValue::from_bytes(text.as_bytes());
            head.headers.extend(content_type.ok().map(|it| (header::CONTENT_TYPE, it)));
            for unread in [
                tried.late(after),
                tried.unreachable(&io::Error::other(text.clone())),
                tried.refused(code, Some(MAX_RETRY_AFTER), &text),
                tried.unreadable(&text, &head, text.as_bytes()),
            ] {
                prop_assert!(unread.message.chars().count() <= 300, "{unread}");
                prop_assert!(!unread.message.chars().any(char::is_control), "{unread:?}");
            }
        }
    }
}
